//! A program that drains events into a read model, meets one that it cannot read, and catches up after a fix.
//!
//! `cargo run --example perspective-drainer` tells the story on a SQLite file of its own; with a URL behind `--`, such
//! as `postgres://user@host/database`, on that store, which must be an empty one. The clock is moved along, so nothing
//! waits. The cap on attempts is `[perspective]`'s of Reprieve's configuration.

#![allow(clippy::print_stdout, reason = "it tells a story")]

mod orders;
mod read_model;
mod recovery;

use std::sync::Arc;

use anyhow::{Context, ensure};
use jiff::{SignedDuration, Timestamp};
use reprieve::config::{Config, Overrides};
use reprieve::model::SourceTable;
use reprieve::perspective::{Cooldown, Drained, Drainer, DrainerOptions, Gate};
use reprieve::store::perspective::Heartbeat;
use reprieve::store::{SharedStore, open};
use reprieve::telemetry::Metrics;
use uuid::Uuid;

use orders::{Build, Totals};
use read_model::ReadModel;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let folder = std::env::temp_dir().join(format!("reprieve-drainer-{}", Uuid::now_v7()));
    if let Some(url) = std::env::args().nth(1) {
        return tell(&url).await;
    }
    std::fs::create_dir(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let told = tell(&format!("sqlite://{}", folder.join("shop.db").display())).await;
    std::fs::remove_dir_all(&folder).with_context(|| format!("{} is left behind", folder.display()))?;
    told
}

async fn tell(url: &str) -> anyhow::Result<()> {
    let store = open::open(url, &open::Options { create: true, ..open::Options::default() }).await?;
    let model = ReadModel::connect(url).await?;
    ensure!(model.is_empty().await?, "{} holds tables already: name an empty database", open::redact(url));
    store.migrate(false).await?;
    model.create().await?;
    let config = Config::load(None, std::env::vars_os(), Overrides::default())?;
    let cap = config.perspective.max_perspective_event_attempts;
    let cap = cap.context("perspective.max_perspective_event_attempts is \"none\": this story would not end")?;
    let mut shop = Shop { store, model, cap, now: "2026-01-01T12:00:00Z".parse()?, build: Build::First };
    shop.events_arrive().await?;
    shop.one_cannot_be_read().await?;
    shop.its_attempts_are_spent().await?;
    shop.a_fix_is_deployed().await
}

/// The program, its store, and its clock.
struct Shop {
    store: SharedStore,
    model: ReadModel,
    /// Attempts that an event gets.
    cap: u32,
    now: Timestamp,
    build: Build,
}

impl Shop {
    /// A process of the current build.
    fn drainer(&self) -> Drainer<Totals> {
        let instance_id = Uuid::now_v7();
        Drainer {
            store: self.store.clone(),
            apply: Arc::new(Totals { model: self.model.clone(), build: self.build }),
            gate: Gate {
                source_table: SourceTable::PerspectiveEvents,
                max_attempts: Some(self.cap),
                dead_letters: Some(self.store.clone()),
                generation: Some(self.build.generation().into()),
                instance_id,
                metrics: Metrics::new(),
            },
            cooldown: Cooldown::default(),
            instance_id,
            options: DrainerOptions::default(),
            now: Some(self.now),
        }
    }

    async fn drain(&self, drainer: &Drainer<Totals>) -> anyhow::Result<Drained> {
        let heartbeat = Heartbeat {
            instance_id: drainer.instance_id,
            service_name: "shop",
            host_name: "localhost",
            process_id: std::process::id(),
            now: Some(self.now),
        };
        self.store.heartbeat(&heartbeat).await?;
        Ok(Drainer { now: Some(self.now), ..drainer.clone() }.until_idle().await?)
    }

    async fn events_arrive(&self) -> anyhow::Result<()> {
        println!("== 1. Events arrive ==\n");
        let events = orders::events();
        self.model.insert_events(&events, self.now).await?;
        println!("{} events of three orders wait for the read model `order_lines`.", events.len());
        println!("One of them, of the order of Grace, says its amount in a way that this build cannot read.");
        Ok(())
    }

    async fn one_cannot_be_read(&mut self) -> anyhow::Result<()> {
        println!("\n== 2. {} drains ==\n", self.build.generation());
        let drained = self.drain(&self.drainer()).await?;
        println!("applied {}, failed {}, waiting behind it {}", drained.applied, drained.failed, drained.waiting);
        let (attempts, error) = self.model.last_failure().await?;
        println!("claim {attempts:>2}: {error}");
        self.print_totals().await?;
        println!("\nThe other orders are complete. What came after the bad event of this order waits for it.");
        Ok(())
    }

    async fn its_attempts_are_spent(&mut self) -> anyhow::Result<()> {
        println!("\n== 3. It fails again and again ==\n");
        let drainer = self.drainer();
        loop {
            // Longer than the longest backoff.
            self.now = self.now.checked_add(SignedDuration::from_mins(6))?;
            let drained = self.drain(&drainer).await?;
            if drained.moved > 0 {
                let attempts = self.model.attempts_of_the_dead().await?;
                println!(
                    "claim {attempts}: more than the {} that are allowed. It is a dead letter, and was not parsed;",
                    self.cap
                );
                println!("         the rest of its order goes on: applied {}", drained.applied);
                break;
            }
            let (attempts, error) = self.model.last_failure().await?;
            println!("claim {attempts:>2}: {error}");
        }
        self.print_totals().await
    }

    async fn a_fix_is_deployed(&mut self) -> anyhow::Result<()> {
        self.build = Build::Second;
        self.now = self.now.checked_add(SignedDuration::from_hours(20))?;
        println!("\n== 4. {} can read it ==\n", self.build.generation());
        let (swept, recovered) = recovery::recover(&self.store, self.build.generation(), self.now).await?;
        println!("the host gives {swept} dead letter one attempt on the new build, and re-emits {recovered}");
        let drained = self.drain(&self.drainer()).await?;
        println!("drained: applied {}, failed {}", drained.applied, drained.failed);
        self.print_totals().await?;
        let missing = self.model.missing().await?;
        ensure!(missing == 0, "{missing} events are missing in the read model");
        println!("\nThe read model has caught up: no event is missing.");
        Ok(())
    }

    async fn print_totals(&self) -> anyhow::Result<()> {
        println!("\n  customer     events     cents");
        for (customer, events, cents) in self.model.totals().await? {
            println!("  {customer:<10} {events:>8} {cents:>9}");
        }
        Ok(())
    }
}
