//! How a chain of policies is named and how long it may be.

/// The most members that a chain has.
pub const MAX_CHAIN: usize = 8;

/// Names the embedded default matrix wherever a policy's file is asked for.
pub const BUILTIN_DEFAULT_MATRIX: &str = "builtin:default-matrix";
