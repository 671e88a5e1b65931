//! What guests say is in the host's log, within the limits.

use std::fs;

use serde_json::{Value, json};

use super::shop::{LATER, Shop, id, letter};
use crate::harness::{Program, Run};
use crate::policy::noisy_guests::{passing_on, through_the_log, through_wasi};

/// Stands in the log for all that is left out.
const MARK: &str = "the policy logs more than its limits allow: the rest is left out";

fn logging(program: Program) -> Program {
    program.env("REPRIEVE_LOG__FORMAT", "json").env("REPRIEVE_LOG__LEVEL", "debug")
}

/// The policy and the text of each line that was said about the `n`-th entry.
fn said(run: &Run, n: u32) -> Vec<(String, String)> {
    let lines = run.stderr.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let about = lines.filter(|line| line["dead_letter_id"] == id(n).as_str() && line["policy"].is_string());
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    about.map(|line| (text(&line, "policy"), text(&line, "message"))).collect()
}

/// How long the lines are that a guest says about an entry before the mark.
#[track_caller]
fn cut(guest: Vec<u8>, limits: &[(&str, &str)]) -> Vec<usize> {
    let entry = json!({ "dead_letter_id": id(1), "failure_reason": "Throttled", "message_type": "X" });
    let program = Program::new(&["policy", "eval", "guest.wasm", "--entry", "entry.json", "--json"]);
    let program = logging(program).file("guest.wasm", guest).file("entry.json", entry.to_string());
    let run = limits.iter().fold(program, |program, (name, value)| program.env(name, value)).run().exits(0);
    let mut said = said(&run, 1);
    let (_, last) = said.pop().expect("something was said");
    assert_eq!(last, MARK);
    assert!(said.iter().all(|(policy, text)| policy == "guest" && text.chars().all(|c| c == 'a')), "{said:?}");
    said.iter().map(|(_, text)| text.len()).collect()
}

#[test]
fn lines_beyond_the_limit_are_left_out_with_a_mark_whatever_they_came_through() {
    assert_eq!(cut(through_the_log(500, 5), &[]), [5; 100]);
    assert_eq!(cut(through_the_log(500, 5), &[("REPRIEVE_POLICY__LIMITS__LOG_LINES", "7")]), [5; 7]);
    for stream in ["stdout", "stderr"] {
        assert_eq!(cut(through_wasi(stream, 500, 6), &[]), [5; 100], "{stream}");
        assert!(cut(through_wasi(stream, 1, 6), &[("REPRIEVE_POLICY__LIMITS__LOG_LINES", "0")]).is_empty());
    }
}

#[test]
fn bytes_beyond_the_limit_are_left_out_with_a_mark_whatever_they_came_through() {
    assert_eq!(cut(through_the_log(80, 1000), &[]), [1000; 65]);
    assert_eq!(cut(through_the_log(80, 1000), &[("REPRIEVE_POLICY__LIMITS__LOG_BYTES", "3000")]), [1000; 3]);
    for stream in ["stdout", "stderr"] {
        assert_eq!(cut(through_wasi(stream, 80, 1001), &[]), [1000; 65], "{stream}");
        let limits = [("REPRIEVE_POLICY__LIMITS__LOG_BYTES", "60"), ("REPRIEVE_POLICY__LIMITS__LOG_LINES", "10000")];
        assert_eq!(cut(through_wasi(stream, 500, 6), &limits), [5; 10], "{stream}");
    }
}

#[test]
fn the_members_of_a_chain_share_one_limit_for_each_entry() {
    let letters = [1, 2].map(|n| letter(n, json!({ "message_type": "X" })));
    let shop = Shop::with(&letters);
    fs::write(shop.path().join("first.wasm"), passing_on(60)).unwrap();
    fs::write(shop.path().join("second.wasm"), through_the_log(60, 5)).unwrap();
    let chain = "[[policy.chain]]\npath = 'first.wasm'\n[[policy.chain]]\npath = 'second.wasm'\n";
    fs::write(shop.path().join("reprieve.toml"), chain).unwrap();
    let run = logging(shop.program(&["scan", "--config", "reprieve.toml", "--now", LATER])).run().exits(0);
    for n in [1, 2] {
        let said = said(&run, n);
        let of = |member: &str| said.iter().filter(|(policy, text)| policy == member && text == "aaaaa").count();
        assert_eq!((of("first"), of("second")), (60, 40), "{said:?}");
        assert!(said.contains(&("second".to_owned(), MARK.to_owned())), "{said:?}");
    }
}
