//! What a policy sees of a dead letter.

use super::DeadLetter;

/// The most bytes of error text that a policy sees.
pub const MAX_ERROR_TEXT: usize = 8 * 1024;
/// The most bytes of metadata that a policy sees; larger metadata is replaced by `{}`.
pub const MAX_METADATA: usize = 64 * 1024;
/// The attribute that tells a policy that the metadata was replaced.
pub const METADATA_TRUNCATED: &str = "metadata-truncated";

/// A dead letter as a policy sees it: texts bounded, with facts that the contract has no field for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyView {
    /// The row, with error text and metadata within their bounds.
    pub entry: DeadLetter,
    /// Names and values.
    pub attributes: Vec<(String, String)>,
}

impl PolicyView {
    /// Bounds what the policy sees of a row.
    #[must_use]
    pub fn of(entry: &DeadLetter) -> Self {
        let mut entry = entry.clone();
        let mut attributes = Vec::new();
        if let Some(text) = &mut entry.error_text {
            text.truncate(text.floor_char_boundary(MAX_ERROR_TEXT));
        }
        if entry.metadata.len() > MAX_METADATA {
            "{}".clone_into(&mut entry.metadata);
            attributes.push((METADATA_TRUNCATED.to_owned(), "true".to_owned()));
        }
        Self { entry, attributes }
    }
}
