//! The program and the database agree on error texts.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use reprieve::model::fingerprint::fingerprint;
use reprieve::model::text::clean;

use crate::harness::databases::migrated_database;
use crate::harness::psql::psql;

const EXAMPLE: &str = include_str!("../examples/dead-letters.jsonl");

/// Pieces that the steps look for, and characters that engines may class differently.
const PIECES: [&str; 40] = [
    "at ",
    "at async ",
    "(",
    ")",
    " (",
    "---> ",
    "Caused by: ",
    "Traceback (most recent call last):\n",
    "  File \"/a/x.py\"",
    ", line 3",
    ", in f",
    "main.run(0x1)\n\t/app/x.go:12 +0x1f",
    "\n",
    "\r\n",
    "\t",
    " ",
    "goroutine 3 [running]:\n",
    "panic: ",
    "panic: (main.T) ",
    "runtime error: x 5",
    "fatal error: boo",
    "Foo.BarException",
    ": ",
    "[x]",
    "$$1f",
    "$3",
    "__12_3",
    "@42-1",
    "'",
    "\"",
    "`",
    "0x1F",
    "é",
    "日本 ",
    "\u{a0}",
    "\u{2028}",
    "\u{b}",
    "\u{85}",
    "\u{212a}",
    "ſİ",
];

fn example_texts() -> Vec<String> {
    EXAMPLE
        .lines()
        .filter_map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            row["error_text"].as_str().map(str::to_owned)
        })
        .collect()
}

/// Lines and pieces of the examples put together anew.
fn odd_texts(texts: &[String], count: usize) -> Vec<String> {
    let lines: Vec<String> = texts.iter().flat_map(|text| text.split_inclusive('\n')).map(str::to_owned).collect();
    let piece = prop_oneof![
        prop::sample::select(lines),
        prop::sample::select(PIECES.to_vec()).prop_map(str::to_owned),
        "[ -~]{0,12}",
    ];
    let strategy = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// What a function of the database makes of each text, as a JSON array.
fn in_database(url: &str, function: &str, texts: &[String]) -> Vec<String> {
    let json = serde_json::to_string(texts).unwrap();
    assert!(!json.contains("$texts$"));
    let answer = psql(
        url,
        &format!(
            "select json_agg({function}(value) order by ordinality) \
             from json_array_elements_text($texts${json}$texts$) with ordinality"
        ),
    );
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn the_database_gives_the_same_fingerprint_as_the_program() {
    let url = migrated_database();
    let mut texts = example_texts();
    assert!(texts.len() > 100);
    texts.extend(odd_texts(&texts, 3000));
    texts.extend([String::new(), " \r\n\t".to_owned()]);
    let stored = in_database(&url, "reprieve_error_fingerprint", &texts);
    for (text, stored) in texts.iter().zip(&stored) {
        assert_eq!(&fingerprint(text), stored, "{text:?}");
    }
    assert_eq!(stored.len(), texts.len());
}

#[test]
fn the_database_cuts_a_text_where_the_program_does() {
    let url = migrated_database();
    let mut texts = vec![String::new(), "kurz".to_owned()];
    for character in ["x", "é", "日", "🙂"] {
        for shift in 0..4 {
            texts.push(format!("{}{}", "y".repeat(shift), character.repeat(66_000 / character.len())));
        }
    }
    let stored = in_database(&url, "reprieve_clean_text", &texts);
    for (text, stored) in texts.iter().zip(&stored) {
        assert!(clean(text) == *stored, "{} bytes beginning with {:?}", text.len(), text.chars().next());
    }
    assert!(in_database(&url, "reprieve_clean_text", &stored) == stored, "a clean text is cut again");
}

#[test]
fn no_text_has_no_fingerprint() {
    let url = migrated_database();
    let query = "select reprieve_error_fingerprint(null) is null and reprieve_clean_text(null) is null";
    assert_eq!(psql(&url, query), "t");
}
