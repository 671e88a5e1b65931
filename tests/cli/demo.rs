//! `demo`.

use crate::harness::Program;

#[test]
fn the_demo_tells_the_whole_story_and_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let run = Program::new(&["demo"]).env("TMPDIR", temporary.path()).run().exits(0);
    for part in [
        "imported ",
        "default-matrix",
        "re-emitted into their source tables",
        "held for review",
        "A row that is held",
        "back in its source table",
        "reprieve retry",
        "It is Recovered now.",
        "shop-2.0.0",
        "swept again: 0",
        "PermanentlyFailed",
    ] {
        assert!(run.stdout.contains(part), "{part:?} in\n{}", run.stdout);
    }
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}
