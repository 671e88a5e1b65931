//! What becomes of a row on which the policy fails.

/// The operator's choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnPolicyError {
    /// It waits, longer each time, and is held in the end.
    #[default]
    Defer,
    /// The default matrix is asked instead.
    Fallback,
}
