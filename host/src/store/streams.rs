//! Streams that keep their order.
//!
//! A stream is a source table and a stream id, for perspective rows with the perspective's name. A row's place in it is
//! given by `source_position`, with one before all without; then by `source_created_at`, else `dead_lettered_at`; then
//! by `source_id` and `dead_letter_id`.
//!
//! In the way of a row stands an earlier one that is open. Not in its way are: an older death of a message that has died
//! again, since that row is never re-emitted; and a row of which the policy said, when it was last asked, that it takes no
//! part in the order. A row of which it was not asked yet stands in the way, and is asked about when it is claimed.

use std::time::Duration;

use uuid::Uuid;

use crate::model::decision::Predecessor;

/// The most rows that are made due at once when something is out of their way. They fall due in the order of their
/// stream, a microsecond apart, so that claims meet them in it.
pub const WOKEN_AT_ONCE: usize = 1000;

/// How rows stand in each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamTerms {
    /// Whether a held row does.
    pub held_blocks: bool,
    /// The longest that a row waits for another before it is looked at again.
    pub wait: Duration,
}

impl Default for StreamTerms {
    fn default() -> Self {
        Self { held_blocks: false, wait: Duration::from_secs(10 * 60) }
    }
}

/// The rows of a batch that are about to be re-emitted in the order of their streams.
#[derive(Debug, Clone)]
pub struct StreamOrder<'a> {
    /// Which.
    pub ids: &'a [Uuid],
    /// Rows that take no part in the order, whatever was said of them before.
    pub passed: &'a [Uuid],
    /// Rows that do, whatever was said of them before.
    pub standing: &'a [Uuid],
    /// Whether held rows stand in the way.
    pub held_blocks: bool,
}

/// A row in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InStream {
    /// Which.
    pub dead_letter_id: Uuid,
    /// The first row of its stream, if that stands before it. The others that were asked about are left out.
    pub predecessor: Option<Predecessor>,
}
