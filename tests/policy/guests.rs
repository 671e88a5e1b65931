//! Guests written by hand: a core module around the lines that matter, made into a component.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const CONTRACT: &str = include_str!("../../wit/policy.wit");

const WORLDS: &str = include_str!("guests/worlds.wit");

/// Makes a component of a core module in text form.
pub fn component(world: &str, core: &str) -> Vec<u8> {
    component_of_version(world, core, "0.1.0")
}

/// The same against a contract of another version.
pub fn component_of_version(world: &str, core: &str, version: &str) -> Vec<u8> {
    let module = core_module(world, core, version);
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}

/// The core module alone, with the contract's types in it as a linker leaves them.
pub fn core_module(world: &str, core: &str, version: &str) -> Vec<u8> {
    let dated = |text: &str| text.replace("0.1.0", version);
    let mut resolve = Resolve::default();
    resolve.push_str("policy.wit", &dated(CONTRACT)).unwrap();
    let tests = resolve.push_str("tests.wit", &dated(WORLDS)).unwrap();
    let world = resolve.select_world(&[tests], Some(&dated(world))).unwrap();
    let mut module = wat::parse_str(dated(core)).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    module
}

/// The smallest world.
pub const POLICY: &str = "reprieve:policy/policy@0.1.0";
/// The one that passes questions on.
pub const WITH_FALLBACK: &str = "reprieve:policy/policy-with-fallback@0.1.0";

/// A core module that answers every question with `Guest`, 3 attempts, an hour and true; `more` are further fields,
/// `on_x` runs in get-policy for message types that start with an X. The entry is in local 0; the answer is at 64,
/// and a second one at 128 for `on_x` to fill.
pub fn core(imports: &str, more: &str, on_x: &str) -> String {
    format!(
        r#"(module
  {imports}
  (memory (export "memory") 2)
  (global $heap (mut i32) (i32.const 4096))
  (data (i32.const 64) "\00\02\00\00\05\00\00\00\03\00\00\00\00\00\00\00\80\ee\36\00\00\00\00\00\01\00")
  (data (i32.const 128) "\00\02\00\00\05\00\00\00\03\00\00\00\00\00\00\00\80\ee\36\00\00\00\00\00\01\00")
  (data (i32.const 512) "Guest")
  {more}
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get 3)))
    (if (i32.gt_u (global.get $heap) (i32.shl (memory.size) (i32.const 16)))
      (then (drop (memory.grow (i32.add (i32.shr_u (local.get 3) (i32.const 16)) (i32.const 1))))))
    (local.get $at))
  (func (export "reprieve:policy/recovery@0.1.0#get-policy") (param i32) (result i32)
    (local $counter i32)
    (global.set $heap (i32.const 4096))
    (if (i32.eq (i32.load8_u (i32.load offset=36 (local.get 0))) (i32.const 88)) (then {on_x}))
    (i32.const 64))
  (func (export "reprieve:policy/recovery@0.1.0#get-stream-mode") (param i32) (result i32)
    (global.set $heap (i32.const 4096))
    (i32.const 0))
  (func (export "reprieve:policy/recovery@0.1.0#should-recover") (param i32) (result i32)
    (global.set $heap (i32.const 4096))
    (i32.const 1)))"#
    )
}

/// A policy that misbehaves on some entries.
pub fn hostile(on_x: &str) -> Vec<u8> {
    component(POLICY, &core("", "", on_x))
}

/// What guests do on a bad entry that is a line or two: each is for [`hostile`].
pub const FOREVER: &str = "(loop $forever (br $forever))";
/// Asks for more memory than there is, page by page.
pub const GROWS_BIT_BY_BIT: &str = "(loop $more (drop (memory.grow (i32.const 1))) (br $more))";
/// Asks for it at once.
pub const GROWS_AT_ONCE: &str = "(drop (memory.grow (i32.const 30000)))";
/// Answers with a name that is no UTF-8.
pub const INVALID_NAME: &str = "(i32.store8 (i32.const 512) (i32.const 255)) (return (i32.const 128))";
/// Answers with a name of 2.5 MB.
pub const HUGE_NAME: &str =
    "(drop (memory.grow (i32.const 40))) (i32.store (i32.const 132) (i32.const 2500000)) (return (i32.const 128))";

/// Answers with a name of so many bytes.
pub fn name_of(length: i32) -> String {
    format!("(i32.store (i32.const 132) (i32.const {length})) (return (i32.const 128))")
}

/// Calls itself until the stack ends.
pub fn recursive() -> Vec<u8> {
    let more = "(func $deep (param i32) (result i32) (i32.add (call $deep (local.get 0)) (i32.const 1)))";
    component(POLICY, &core("", more, "(drop (call $deep (i32.const 0)))"))
}

/// Asks for a table of ten million elements.
pub fn table_grower() -> Vec<u8> {
    let grow = "(drop (table.grow $t (ref.null func) (i32.const 10000000)))";
    component(POLICY, &core("", "(table $t 1 funcref)", grow))
}

/// Logs without end.
pub fn log_flooder() -> Vec<u8> {
    let flood = "(loop $more (call $log (i32.const 1) (i32.const 512) (i32.const 5)) (br $more))";
    component(POLICY, &core(LOG, "", flood))
}

/// Sleeps for an hour.
pub fn sleeper() -> Vec<u8> {
    let imports = r#"
        (import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration" (func $in (param i64) (result i32)))
        (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))"#;
    component("reprieve:tests/sleeper", &core(imports, "", "(call $block (call $in (i64.const 3600000000000)))"))
}

/// Every kind of guest that misbehaves on the entries whose type starts with an X, by what it does there.
pub fn every_hostile_kind() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("traps", hostile("unreachable")),
        ("loops", hostile(FOREVER)),
        ("recurses", recursive()),
        ("grows its memory at once", hostile(GROWS_AT_ONCE)),
        ("grows its memory bit by bit", hostile(GROWS_BIT_BY_BIT)),
        ("grows its table", table_grower()),
        ("floods the log", log_flooder()),
        ("answers with an empty name", hostile(&name_of(0))),
        ("answers with a long name", hostile(&name_of(201))),
        ("answers with a name outside of its memory", hostile(&name_of(50_000_000))),
        ("answers with a huge name", hostile(HUGE_NAME)),
        ("answers with no text", hostile(INVALID_NAME)),
        ("sleeps", sleeper()),
    ]
}

/// A policy that refuses every message whose type starts with an X.
pub fn refusing() -> Vec<u8> {
    let starts_otherwise = "(i32.ne (i32.load8_u (i32.load offset=36 (local.get 0))) (i32.const 88))";
    let always = core("", "", "");
    let body = always.strip_suffix("(i32.const 1)))").expect("the last question is should-recover");
    component(POLICY, &format!("{body}{starts_otherwise}))"))
}

/// A policy that keeps the order of streams, but for messages whose type starts with an X.
pub fn ordering() -> Vec<u8> {
    let starts_otherwise = "(i32.ne (i32.load8_u (i32.load offset=36 (local.get 0))) (i32.const 88))";
    let always = core("", "", "");
    assert!(always.contains(PER_MESSAGE), "the answer of get-stream-mode is found");
    component(POLICY, &always.replace(PER_MESSAGE, &PER_MESSAGE.replacen("(i32.const 0)", starts_otherwise, 1)))
}

/// A policy that refuses every message whose type starts with an X, and keeps the order of streams.
pub fn refusing_in_order() -> Vec<u8> {
    let starts_otherwise = "(i32.ne (i32.load8_u (i32.load offset=36 (local.get 0))) (i32.const 88))";
    let always = core("", "", "").replace(PER_MESSAGE, &PER_MESSAGE.replacen("const 0", "const 1", 1));
    let body = always.strip_suffix("(i32.const 1)))").expect("the last question is should-recover");
    component(POLICY, &format!("{body}{starts_otherwise}))"))
}

/// How the answer of get-stream-mode ends in [`core`].
const PER_MESSAGE: &str = "(i32.const 0))
  (func (export \"reprieve:policy/recovery@0.1.0#should-recover\")";

/// The log of the host, to be imported.
pub const LOG: &str = r#"(import "reprieve:policy/host@0.1.0" "log" (func $log (param i32 i32 i32)))"#;

/// A core module that passes every question on.
pub const PASSES_ON: &str = r#"(module
  (import "reprieve:policy/recovery@0.1.0" "get-policy" (func $get-policy (param i32 i32)))
  (import "reprieve:policy/recovery@0.1.0" "get-stream-mode" (func $get-stream-mode (param i32) (result i32)))
  (import "reprieve:policy/recovery@0.1.0" "should-recover" (func $should-recover (param i32) (result i32)))
  (memory (export "memory") 2)
  (global $heap (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get 3)))
    (local.get $at))
  (func (export "reprieve:policy/recovery@0.1.0#get-policy") (param i32) (result i32)
    (call $get-policy (local.get 0) (i32.const 64))
    (global.set $heap (i32.const 4096))
    (i32.const 64))
  (func (export "reprieve:policy/recovery@0.1.0#get-stream-mode") (param i32) (result i32)
    (global.set $heap (i32.const 4096))
    (call $get-stream-mode (local.get 0)))
  (func (export "reprieve:policy/recovery@0.1.0#should-recover") (param i32) (result i32)
    (global.set $heap (i32.const 4096))
    (call $should-recover (local.get 0))))"#;
