//! The arguments.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::{change, demo, import, list, migrate, move_message, policy, scan, serve, show, stats, sweep};

const AFTER_HELP: &str = "\
Exit codes: 0 done; 1 what was asked did not hold or was not found; 2 usage, configuration or malformed input; \
3 the store or another service cannot be reached.

Options may also stand in the configuration file and in the environment (REPRIEVE_STORE, REPRIEVE_CONFIG, \
REPRIEVE_GENERATION, and \
REPRIEVE_RECOVERY__SCAN_INTERVAL for the key scan_interval of the section recovery). A flag goes before the \
environment, that before the file.

See it at work: reprieve demo";

/// Recovers dead letters by policy: re-emits, holds or gives up each of them as a WebAssembly component says.
#[derive(Debug, Parser)]
#[command(name = "reprieve", version, propagate_version = true, after_help = AFTER_HELP, max_term_width = 110)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// Configuration file (TOML)
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// sqlite://path or postgres://user@host/database [default: sqlite://reprieve.db]
    #[arg(long, global = true, value_name = "URL")]
    pub store: Option<String>,
    /// Print data as JSON: lists as one object per line, everything else as one document
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands, in the order of the help.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and it lives as long as the program")]
pub enum Command {
    /// Run the worker and the HTTP endpoints until SIGTERM
    Serve(serve::ServeArgs),
    /// Decide what is due, once or until nothing is due, and exit
    Scan(scan::ScanArgs),
    /// Give held and open rows their one attempt on the current generation
    Sweep(sweep::SweepArgs),
    /// Create or update the schema
    Migrate(migrate::MigrateArgs),
    /// Import dead letters from JSON lines, all of them or none
    Import(import::ImportArgs),
    /// Move a row of a source table to the dead letters
    Move(move_message::MoveArgs),
    /// List dead letters, newest first
    List(list::ListArgs),
    /// Show one dead letter whole
    Show(show::ShowArgs),
    /// Have dead letters tried now, with a free attempt
    Retry(change::ChangeArgs),
    /// Hold dead letters for review
    Hold(change::HoldArgs),
    /// Give dead letters up; only a retry brings them back
    GiveUp(change::ChangeArgs),
    /// Count dead letters by status, reason, source table and error
    Stats(stats::StatsArgs),
    /// Check, inspect or ask a policy
    #[command(subcommand)]
    Policy(policy::PolicyCommand),
    /// Tell the whole story on a temporary store, in about a minute
    Demo(demo::DemoArgs),
}
