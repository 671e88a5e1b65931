//! The table of faults names tests that there are.

use std::fs;
use std::path::Path;

const TABLE: &str = include_str!("../../docs/faults.md");

/// Every test function below a folder, as `path::of::modules::name`.
fn tests_in(folder: &Path, modules: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let path = entry.path();
        if path.is_dir() {
            tests_in(&path, &format!("{modules}{name}::"), found);
        } else if let Some(module) = name.strip_suffix(".rs") {
            let prefix = if module == "mod" { modules.to_owned() } else { format!("{modules}{module}::") };
            let text = fs::read_to_string(&path).unwrap();
            let names = text.lines().filter_map(|line| {
                let name = line.trim_start().trim_start_matches("async ").strip_prefix("fn ")?;
                Some(name.split(['(', '<']).next()?.to_owned())
            });
            found.extend(names.map(|name| format!("{prefix}{name}")));
        }
    }
}

#[test]
fn every_fault_of_the_table_has_a_test_that_exists_or_a_reason() {
    let mut tests = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    tests_in(&root.join("tests"), "", &mut tests);
    let rows: Vec<&str> = TABLE.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() >= 27, "{} rows", rows.len());
    for row in rows {
        let shown = row.trim_matches('|').rsplit('|').next().unwrap().trim();
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty() || shown.starts_with("no test: "), "{row}");
        for name in named {
            assert!(tests.iter().any(|test| test == name), "{name} does not exist, in: {row}");
        }
    }
}
