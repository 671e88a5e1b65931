//! The default recovery policy: a matrix from failure reasons to how often and how soon to try.
//!
//! [`matrix`] and [`settings`] are plain Rust; on WebAssembly, `component` answers the host's questions with them.

#[cfg(target_family = "wasm")]
#[allow(unsafe_code, reason = "an allocator can be made in no other way")]
mod allocator;
#[cfg(target_family = "wasm")]
mod component;
pub mod matrix;
pub mod reason;
pub mod settings;
