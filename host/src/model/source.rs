//! The tables that messages die in and return to.

use super::names::named_numbers;

named_numbers! {
    /// A table that dead letters come from. Its name is what the database and the JSON hold.
    pub enum SourceTable("source table") {
        /// Messages to be sent.
        Outbox = 0 as "wh_outbox",
        /// Messages to be handled.
        Inbox = 1 as "wh_inbox",
        /// Events to be applied to a read model.
        PerspectiveEvents = 2 as "wh_perspective_events",
    }
}
