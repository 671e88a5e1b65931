//! Every statement, so that a test can prepare each on a migrated database.

use super::{
    batch, change, functions, import, lease, listen, look, migrate, operator, retention, schema, show, stats, sweep,
    verbs,
};

/// The statements of this store by name; all of them take bound parameters.
#[must_use]
pub fn statements() -> &'static [(&'static str, &'static str)] {
    &[
        ("move", verbs::MOVE),
        ("fetch", verbs::FETCH),
        ("recover", verbs::RECOVER),
        ("hold", verbs::HOLD),
        ("give up", verbs::GIVE_UP),
        ("schedule", verbs::SCHEDULE),
        ("claim", batch::CLAIM),
        ("hold unreadable", batch::HOLD_UNREADABLE),
        ("begin", batch::BEGIN),
        ("settle", batch::SETTLE),
        ("renew", lease::RENEW),
        ("release", lease::RELEASE),
        ("rescue", lease::RESCUE),
        ("due", lease::DUE),
        ("reset", sweep::RESET),
        ("count swept", sweep::COUNT),
        ("sweep", sweep::SWEEP),
        ("take retries", sweep::TAKE_RETRIES),
        ("clear deferrals", sweep::CLEAR_DEFERRALS),
        ("forget decisions", retention::FORGET_DECISIONS),
        ("list", operator::LIST),
        ("count", operator::COUNT_MATCHING),
        ("matching ids", operator::MATCHING_IDS),
        ("exists", operator::EXISTS),
        ("show", show::SHOW),
        ("incarnations", show::INCARNATIONS),
        ("decisions", show::DECISIONS),
        ("outbox row", look::OUTBOX_ROW),
        ("inbox row", look::INBOX_ROW),
        ("perspective row", look::PERSPECTIVE_ROW),
        ("totals", stats::TOTALS),
        ("fingerprints", stats::FINGERPRINTS),
        ("oldest due", stats::OLDEST_DUE),
        ("change", change::CHANGE),
        ("import", import::IMPORT),
        ("notify", listen::NOTIFY),
        ("applied migrations", migrate::APPLIED),
        ("record migration", migrate::RECORD),
        ("check state", schema::CHECK_STATE),
        ("index state", schema::INDEX_STATE),
        ("foreign functions", functions::FOREIGN),
    ]
}
