//! What a dead letter takes over from earlier deaths of the same message.

use jiff::Timestamp;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::values::Cell;
use crate::model::SourceTable;

pub(super) const EARLIER: &str = "select generation, recovery_attempts, last_recovery_at, retried_on_generations, \
    incarnation from wh_dead_letters where source_table = ? and source_id = ? \
    order by incarnation, dead_lettered_at, dead_letter_id";

pub(super) const STATEMENTS: &[(&str, &str)] = &[("inherit::EARLIER", EARLIER)];

/// What is taken over; a first death starts at the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inheritance {
    /// The most attempts spent by an earlier death in the same generation.
    pub(super) recovery_attempts: i64,
    /// The newest attempt in the same generation.
    pub(super) last_recovery_at: Option<Timestamp>,
    /// Every generation that has replayed it.
    pub(super) retried_on_generations: Vec<String>,
    /// One more than the last.
    pub(super) incarnation: i64,
}

impl Default for Inheritance {
    fn default() -> Self {
        Self { recovery_attempts: 0, last_recovery_at: None, retried_on_generations: Vec::new(), incarnation: 1 }
    }
}

/// Reads what a death of this message on this generation inherits.
pub(super) async fn inherit(
    conn: &mut SqliteConnection,
    table: SourceTable,
    source_id: Uuid,
    generation: &str,
) -> Result<Inheritance, sqlx::Error> {
    let earlier = sqlx::query(EARLIER).bind(table.name()).bind(source_id.to_string()).fetch_all(conn).await?;
    let mut inherited = Inheritance::default();
    for row in &earlier {
        inherited.incarnation = inherited.incarnation.max(Cell::at(row, 4).integer().unwrap_or(1).saturating_add(1));
        let retried = Cell::at(row, 3).into_text().unwrap_or_default();
        for build in serde_json::from_str::<Vec<String>>(&retried).unwrap_or_default() {
            if !inherited.retried_on_generations.contains(&build) {
                inherited.retried_on_generations.push(build);
            }
        }
        if Cell::at(row, 0) == Cell::Text(generation.to_owned()) {
            let attempts = Cell::at(row, 1).integer().unwrap_or(0);
            inherited.recovery_attempts = inherited.recovery_attempts.max(attempts);
            inherited.last_recovery_at = inherited.last_recovery_at.max(Cell::at(row, 2).time());
        }
    }
    Ok(inherited)
}
