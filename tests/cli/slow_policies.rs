//! Components that take seconds to compile.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::json;

use super::host::Host;
use super::shop::{Shop, id, letter, lines};
use super::swapping::renamed_over;
use crate::policy::example::Language;

/// The compiled code in a cache folder: each file with its inode.
fn compiled(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(path) = left.pop() {
        for entry in fs::read_dir(&path).unwrap().map(|entry| entry.unwrap()) {
            let (path, about) = (entry.path(), entry.metadata().unwrap());
            if about.is_dir() {
                left.push(path);
            } else if path.extension().is_none_or(|extension| extension != "stats") {
                found.insert(path.display().to_string(), about.ino());
            }
        }
    }
    found
}

#[test]
fn rows_are_recovered_while_a_large_component_compiles_and_its_second_start_compiles_nothing() {
    let shop = Shop::unmigrated();
    let (file, cache) = (shop.path().join("rules.wasm"), shop.path().join("cache"));
    fs::copy(Language::Rust.component(), &file).unwrap();
    let serve = || {
        let program = shop.program(&["serve", "--policy", "rules.wasm", "--generation", "g"]);
        Host::start_program(program.env("REPRIEVE_POLICY__CACHE_DIR", &cache))
    };
    let mut host = serve();
    // Nothing is due before the signal of its import.
    renamed_over(&file, fs::read(Language::Python.component()).unwrap());
    for n in 1..=3 {
        shop.import(&lines(&[letter(n, json!({}))])).exits(0);
        let event = loop {
            let event = host.event().unwrap();
            if event["message"] == "re-emitted" || event["message"] == "policy loaded" {
                break event;
            }
        };
        assert_eq!(event["message"], "re-emitted", "row {n} did not wait for the compiler");
    }
    host.told("policy loaded");
    shop.import(&lines(&[letter(4, json!({"message_type": "InventoryAdjusted"}))])).exits(0);
    host.told("re-emitted");
    assert_eq!(shop.show(&id(4))["decisions"][0]["rule"]["name"], "InventorySpecific");
    assert_eq!(host.stop().code(), Some(0));

    let first = compiled(&cache);
    assert!(first.len() >= 2, "{first:?}");
    let mut host = serve();
    assert_eq!(host.stop().code(), Some(0));
    assert_eq!(compiled(&cache), first);
}
