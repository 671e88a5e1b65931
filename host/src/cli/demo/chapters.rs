//! The chapters of the story.

use anyhow::Context;

use super::backlog;
use super::decided::Decided;
use super::story::{Story, entry};
use crate::cli::table::Table;
use crate::model::text::visible;
use crate::model::{DeadLetter, RecoveryStatus, SourceTable};
use crate::recovery::Generation;
use crate::store::{Filter, Import, OperatorChange, OperatorVerb, Target};

/// The build that the story's application deploys in the end.
const NEXT_BUILD: &str = "shop-2.0.0";

impl Story {
    /// Messages have died.
    pub async fn backlog(&mut self) -> anyhow::Result<()> {
        let (rows, begins) = backlog::read()?;
        self.now = begins;
        self.scanner.now = Some(begins);
        self.chapter("1. A backlog of dead letters")?;
        self.say(
            "An order system could not send, handle or apply these messages and gave up on them. Each is now a dead\n\
             letter: the message, why it died, and the table that it came from.\n",
        )?;
        let imported = self.scanner.store.import(&Import { rows: &rows, now: self.scanner.now }).await?;
        let stats = self.scanner.store.stats(self.scanner.now).await?;
        self.say(format!("imported {} ({} were there already)", imported.imported, imported.skipped.len()))?;
        for (table, count) in &stats.by_source_table {
            self.say(format!("  {count:>4}  from {table}"))?;
        }
        let open = stats.by_status.get(&RecoveryStatus::Pending).copied().unwrap_or(0);
        let all: u64 = stats.by_status.values().sum();
        self.say(format!("{open} of them are open; {} were settled, held or given up before", all - open))
    }

    /// The first scan.
    pub async fn the_policy_decides(&mut self) -> anyhow::Result<()> {
        self.chapter("2. A policy decides")?;
        let policy = self.scanner.policy.current();
        let digest = policy.digest().get(..12).unwrap_or_default().to_owned();
        self.say(format!(
            "The policy is a WebAssembly component: {} (digest {digest}…).\n\
             It knows only what it is told about one dead letter, and says how often and how soon to try it, and what\n\
             to do when the tries are spent. The host does the rest. Its clock stands at {:.0} here.\n",
            visible(policy.name()),
            self.now
        ))?;
        let counts = self.scan().await?;
        self.counts(&counts)?;
        self.say("")?;
        let mut decided = Decided::default();
        for whole in self.rows(&Filter::default()).await? {
            if let (Some(entry), Some(decision)) = (entry(&whole), whole.decisions.last()) {
                decided.add(entry, decision);
            }
        }
        decided.lines().into_iter().try_for_each(|line| self.say(line))
    }

    /// One row that waits for a person.
    pub async fn a_held_row(&mut self) -> anyhow::Result<()> {
        self.chapter("3. A row that is held")?;
        let held = Filter { status: Some(RecoveryStatus::HoldForReview), ..Filter::default() };
        let rows = self.rows(&held).await?;
        let readable: Vec<&DeadLetter> = rows.iter().filter_map(entry).collect();
        // A message that was never tried, rather than an event that is gone and could not come back.
        let message = |entry: &&&DeadLetter| entry.source_table != SourceTable::PerspectiveEvents;
        let untried = readable.iter().filter(message).find(|entry| entry.recovery_attempts == 0);
        let Some(entry) = untried.or(readable.first()) else {
            return self.say("This policy holds nothing.");
        };
        self.held = Some(entry.dead_letter_id);
        self.say(
            "Trying this one again would fail in the same way; so it waits for a person, or for another build.\n",
        )?;
        self.dead_letter(entry)?;
        self.say(format!("  note         {}", visible(entry.status_note.as_deref().unwrap_or("-"))))
    }

    /// One row that went back.
    pub async fn a_recovered_row(&mut self) -> anyhow::Result<()> {
        self.chapter("4. A row that is back in its source table")?;
        let recovered = Filter { status: Some(RecoveryStatus::Recovered), ..Filter::default() };
        for whole in self.rows(&recovered).await? {
            let Some(entry) = entry(&whole) else { continue };
            let Some(row) = self.scanner.store.source_row(entry.source_table, entry.source_id).await? else { continue };
            self.dead_letter(entry)?;
            self.say(format!("\nand in {}, under its own id and with its attempts at 0:\n", entry.source_table))?;
            return self.columns(&row);
        }
        self.say("This policy re-emitted nothing.")
    }

    /// A retry.
    pub async fn an_operator_speaks(&mut self) -> anyhow::Result<()> {
        self.chapter("5. An operator has the held row tried")?;
        let Some(id) = self.held else { return self.say("Nothing is held.") };
        self.later(1);
        self.say(format!("$ reprieve retry {id} --note 'the handler is mended'"))?;
        let (target, note) = (Target::Ids(vec![id]), Some("the handler is mended"));
        let change = OperatorChange { verb: OperatorVerb::Retry, target, actor: "demo", note, now: self.scanner.now };
        for outcome in self.scanner.store.change(&change).await? {
            let result = outcome.result.map_or_else(|why| format!("not changed: {why}"), |()| "retry: done".to_owned());
            self.say(format!("{}  {result}", outcome.dead_letter_id))?;
        }
        self.say("\nA retry grants one attempt beside the policy's own, and the next scan makes it:\n")?;
        self.scan().await?;
        let whole = self.scanner.store.show(id).await?.context("the row is gone")?;
        for decision in &whole.decisions {
            let who =
                decision.policy_name.as_deref().map_or_else(String::new, |name| format!("  by {}", visible(name)));
            let note = decision.note.as_deref().map_or_else(String::new, |note| format!("  {}", visible(note)));
            self.say(format!("  {:.0}  {}{who}{note}", decision.decided_at, decision.decision))?;
        }
        if let Some(entry) = entry(&whole) {
            self.say(format!("\nIt is {} now.", entry.recovery_status))?;
        }
        Ok(())
    }

    /// A sweep.
    pub async fn a_new_build(&mut self) -> anyhow::Result<()> {
        self.chapter("6. A new build of the application")?;
        self.later(24);
        let before = self.scanner.store.stats(self.scanner.now).await?;
        self.scanner.generation = Generation::fixed(Some(NEXT_BUILD.to_owned()));
        self.say(format!(
            "The next day {NEXT_BUILD} is deployed. What the old build could not do, the new one may: each row that is\n\
             held or waits gets one attempt on it, whatever its budget. Left alone are the rows that were given up, and\n\
             those that an operator holds indefinitely.\n"
        ))?;
        let swept = self.scanner.sweep().await?.unwrap_or(0);
        let were = |status| before.by_status.get(&status).copied().unwrap_or(0);
        let (held, waiting) = (were(RecoveryStatus::HoldForReview), were(RecoveryStatus::Pending));
        self.say(format!(
            "before: {held} held, {waiting} waiting, {} given up\nswept: {swept}; left alone: {} held, {} given up",
            were(RecoveryStatus::PermanentlyFailed),
            (held + waiting).saturating_sub(swept),
            were(RecoveryStatus::PermanentlyFailed)
        ))?;
        let counts = self.scan().await?;
        self.counts(&counts)?;
        let again = self.scanner.sweep().await?.unwrap_or(0);
        self.say(format!("swept again: {again}, since each build tries a row once"))
    }

    /// Where everything stands.
    pub async fn the_end(&mut self, temporary: bool) -> anyhow::Result<()> {
        self.chapter("7. Where they are now")?;
        let stats = self.scanner.store.stats(self.scanner.now).await?;
        let mut table = Table::new(&["STATUS", "ROWS"]);
        for (status, count) in &stats.by_status {
            table.row([status.to_string(), count.to_string()]);
        }
        table.lines().into_iter().try_for_each(|line| self.say(line))?;
        if temporary {
            self.say("\nThis store is removed now. To have one of your own:\n")?;
            self.say("  reprieve migrate --store sqlite://shop.db")?;
            self.say("  reprieve import examples/dead-letters.jsonl --store sqlite://shop.db")?;
            self.say("  reprieve serve --store sqlite://shop.db --generation shop-1.0.0")?;
        }
        self.output.flush()?;
        Ok(())
    }
}
