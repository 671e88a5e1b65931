//! The options that pick rows.

use clap::Args;
use uuid::Uuid;

use super::values;
use crate::model::{FailureReason, RecoveryStatus, SourceTable};
use crate::store::Filter;

/// Which dead letters; conditions add up.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Filter")]
pub struct FilterArgs {
    /// Pending, Recovering, HoldForReview, Recovered or PermanentlyFailed
    #[arg(long, value_name = "STATUS", value_parser = values::status)]
    status: Option<RecoveryStatus>,
    /// Why it died, by name or number
    #[arg(long, value_name = "REASON", allow_negative_numbers = true)]
    reason: Option<FailureReason>,
    /// wh_outbox, wh_inbox or wh_perspective_events
    #[arg(long, value_name = "TABLE")]
    source_table: Option<SourceTable>,
    /// The stream it belongs to
    #[arg(long, value_name = "ID", value_parser = values::id)]
    stream: Option<Uuid>,
    /// Its message type: `*` any text, `?` one character, `[abc]` and `[!abc]` one of a set
    #[arg(long, value_name = "GLOB")]
    message_type: Option<String>,
}

impl FilterArgs {
    /// The filter; empty when no option was given.
    #[must_use]
    pub fn filter(&self) -> Filter {
        Filter {
            status: self.status,
            reason: self.reason,
            source_table: self.source_table,
            stream_id: self.stream,
            message_type: self.message_type.clone(),
        }
    }
}
