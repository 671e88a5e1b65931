//! The teller of the story: its clock, its store, its words.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::cli::output::Output;
use crate::cli::table::cut;
use crate::model::DeadLetter;
use crate::model::text::visible;
use crate::recovery::{ScanCounts, Scanner};
use crate::store::{Filter, Page, Row, Whole};

/// More rows than the story has.
const ALL: Page = Page { limit: 10_000, after: None };

/// The story while it is told.
pub struct Story {
    pub(super) scanner: Scanner,
    pub(super) output: Output,
    pub(super) now: Timestamp,
    /// The row that an operator will have tried.
    pub(super) held: Option<Uuid>,
}

impl Story {
    /// A story on the scanner's store.
    pub const fn new(scanner: Scanner, output: Output) -> Self {
        Self { scanner, output, now: Timestamp::UNIX_EPOCH, held: None }
    }

    pub(super) fn say(&mut self, text: impl AsRef<str>) -> anyhow::Result<()> {
        Ok(self.output.line(text)?)
    }

    pub(super) fn chapter(&mut self, title: &str) -> anyhow::Result<()> {
        self.output.flush()?;
        self.say(format!("\n== {title} ==\n"))
    }

    pub(super) fn later(&mut self, hours: i64) {
        self.now = self.now.checked_add(SignedDuration::from_hours(hours)).unwrap_or(self.now);
        self.scanner.now = Some(self.now);
    }

    pub(super) async fn scan(&self) -> anyhow::Result<ScanCounts> {
        Ok(self.scanner.until_idle().await?)
    }

    pub(super) fn counts(&mut self, counts: &ScanCounts) -> anyhow::Result<()> {
        self.say(format!("scanned: {}", counts.scanned))?;
        for (count, what) in [
            (counts.recovered, "re-emitted into their source tables"),
            (counts.held, "held for review"),
            (counts.permanently_failed, "given up"),
            (counts.deferred, "waiting until their policy allows a try"),
            (counts.skipped + counts.blocked, "left for later"),
            (counts.failed, "could not be inserted and wait"),
        ] {
            if count > 0 {
                self.say(format!("  {count:>4}  {what}"))?;
            }
        }
        Ok(())
    }

    pub(super) async fn rows(&self, filter: &Filter) -> anyhow::Result<Vec<Whole>> {
        let mut rows = Vec::new();
        for row in self.scanner.store.list(filter, &ALL).await? {
            if let Row::Readable(entry) = row {
                rows.extend(self.scanner.store.show(entry.dead_letter_id).await?);
            }
        }
        Ok(rows)
    }

    /// The columns of a source row that hold something.
    pub(super) fn columns(&mut self, row: &str) -> anyhow::Result<()> {
        let columns: Map<String, Value> = serde_json::from_str(row).unwrap_or_default();
        for (name, value) in columns.iter().filter(|(_, value)| !value.is_null()) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.say(format!("  {name:<16} {}", cut(&visible(&value), 80)))?;
        }
        Ok(())
    }

    pub(super) fn dead_letter(&mut self, entry: &DeadLetter) -> anyhow::Result<()> {
        let error = entry.error_text.as_deref().and_then(|text| text.lines().next()).unwrap_or("-");
        self.say(format!("  dead letter  {}", entry.dead_letter_id))?;
        self.say(format!("  message      {}", visible(&entry.message_type)))?;
        self.say(format!(
            "  died         {:.0} in {} of {}",
            entry.dead_lettered_at, entry.source_table, entry.generation
        ))?;
        self.say(format!("  because      {}: {}", entry.failure_reason, cut(&visible(error), 100)))?;
        self.say(format!("  status       {}", entry.recovery_status))
    }
}

/// The row, if it can be read.
pub fn entry(whole: &Whole) -> Option<&DeadLetter> {
    match &whole.row {
        Row::Readable(entry) => Some(entry),
        Row::Unreadable { .. } => None,
    }
}
