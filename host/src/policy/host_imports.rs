//! What a guest may call: `host` of the contract.

use tracing::Level;

use super::bindings::reprieve::policy::host::{self, LogLevel};
use super::bindings::reprieve::policy::types;
use super::state::GuestState;

impl types::Host for GuestState {}

impl host::Host for GuestState {
    fn settings(&mut self) -> wasmtime::Result<String> {
        Ok(self.member().map_or_else(|| "{}".to_owned(), |member| member.settings.clone()))
    }

    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.now_ms)
    }

    fn log(&mut self, level: LogLevel, message: String) -> wasmtime::Result<()> {
        let level = match level {
            LogLevel::Debug => Level::DEBUG,
            LogLevel::Info => Level::INFO,
            LogLevel::Warn => Level::WARN,
            LogLevel::Error => Level::ERROR,
        };
        self.say(level, &message);
        Ok(())
    }
}
