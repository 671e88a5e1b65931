//! The contract's types and calls, generated from `wit/`.
#![allow(missing_docs, clippy::allow_attributes_without_reason, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "configurable-policy",
    imports: { default: trappable },
    exports: { default: async },
});
