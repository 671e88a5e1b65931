//! Guests that say much: about entries whose type starts with an X, so many lines of so many bytes.

use super::guests::{LOG, PASSES_ON, POLICY, WITH_FALLBACK, component, core};

/// Where the text is that they say.
const TEXT: u32 = 65_536;

/// Runs `say` so many times, after a text of so many bytes was written to [`TEXT`].
fn repeated(times: u32, bytes: u32, say: &str) -> String {
    format!(
        "(memory.fill (i32.const {TEXT}) (i32.const 97) (i32.const {bytes}))
         (loop $more
           {say}
           (local.set $counter (i32.add (local.get $counter) (i32.const 1)))
           (br_if $more (i32.lt_u (local.get $counter) (i32.const {times}))))"
    )
}

fn log_call(bytes: u32) -> String {
    format!("(call $log (i32.const 1) (i32.const {TEXT}) (i32.const {bytes}))")
}

/// Says it through the contract's log.
pub fn through_the_log(times: u32, bytes: u32) -> Vec<u8> {
    component(POLICY, &core(LOG, "", &repeated(times, bytes, &log_call(bytes))))
}

/// Says it through `stdout` or `stderr` of WASI; the end of each line is one of its bytes.
pub fn through_wasi(stream: &str, times: u32, bytes: u32) -> Vec<u8> {
    let imports = format!(
        r#"(import "wasi:cli/{stream}@0.2.0" "get-{stream}" (func $stream (result i32)))
           (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
             (func $write (param i32 i32 i32 i32)))"#
    );
    let end = TEXT + bytes - 1;
    let say = format!(
        "(i32.store8 (i32.const {end}) (i32.const 10))
         (call $write (global.get $to) (i32.const {TEXT}) (i32.const {bytes}) (i32.const 1024))
         (if (i32.load8_u (i32.const 1024)) (then unreachable))"
    );
    let once = "(if (i32.eqz (global.get $to)) (then (global.set $to (call $stream))))";
    let on_x = format!("{once} {}", repeated(times, bytes, &say));
    component("reprieve:tests/talker", &core(&imports, "(global $to (mut i32) (i32.const 0))", &on_x))
}

/// Says so many lines of five bytes about every entry through the contract's log, and passes its questions on.
pub fn passing_on(times: u32) -> Vec<u8> {
    let passed = "(call $get-policy (local.get 0) (i32.const 64))";
    let memory = "(memory (export \"memory\") 2)";
    let said = PASSES_ON.replacen("(module", &format!("(module {LOG}"), 1).replacen(
        passed,
        &format!("(local $counter i32) {} {passed}", repeated(times, 5, &log_call(5))),
        1,
    );
    assert!(said.contains(memory) && said.contains("$counter"), "the places are found");
    component(WITH_FALLBACK, &said)
}
