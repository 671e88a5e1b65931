//! The program.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    reprieve::cli::run(std::env::args_os()).await
}
