//! The commands.
//!
//! One file per command or group of commands; [`run`] reads the arguments, sets up what every command needs and calls
//! the one that was asked for. Data goes to standard output, everything said to people to standard error.

mod args;
mod change;
mod confirm;
mod demo;
pub mod exit;
mod filter;
mod import;
pub mod import_lines;
mod in_use;
mod list;
mod migrate;
mod move_message;
mod output;
pub mod policy;
mod program;
mod scan;
mod serve;
mod settings;
mod show;
mod signals;
mod stats;
mod sweep;
mod table;
mod values;
mod whole_file;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use exit::Ended;
use output::tell;
use program::Program;

/// Runs the program with these arguments (the first is its name) and gives its exit code: 0 done, 1 what was asked
/// did not hold or was not found, 2 usage, configuration or malformed input, 3 the store cannot be reached.
pub async fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(message) => {
            // Help and version are data and end with 0; usage errors are messages and end with 2.
            let _ = message.print();
            return ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2));
        }
    };
    match dispatch(cli).await {
        Ok(ended) => ended.into(),
        Err(error) => {
            tell!("error: {error:#}");
            ExitCode::from(exit::code(&error))
        }
    }
}

async fn dispatch(cli: Cli) -> anyhow::Result<Ended> {
    let program = Program::load(&cli)?;
    match cli.command {
        Command::Serve(args) => serve::run(&args, &program).await,
        Command::Scan(args) => scan::run(&args, &program).await,
        Command::Sweep(args) => sweep::run(&args, &program).await,
        Command::Migrate(args) => migrate::run(&args, &program).await,
        Command::Import(args) => import::run(&args, &program).await,
        Command::Move(args) => move_message::run(&args, &program).await,
        Command::List(args) => list::run(&args, &program).await,
        Command::Show(args) => show::run(&args, &program).await,
        Command::Retry(args) => change::retry(&args, &program).await,
        Command::Hold(args) => change::hold(&args, &program).await,
        Command::GiveUp(args) => change::give_up(&args, &program).await,
        Command::Stats(args) => stats::run(&args, &program).await,
        Command::Policy(command) => policy::run(&command, &program).await,
        Command::Demo(args) => demo::run(&args, &program).await,
    }
}
