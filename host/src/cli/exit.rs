//! How a command ends, as an exit code.

use std::process::ExitCode;

use crate::recovery::ScanError;
use crate::store::StoreError;

/// The end of a command that went its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// 0: done.
    Done,
    /// 1: what was asked did not hold or was not found. The command has said so.
    NotHeld,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Done => Self::from(0),
            Ended::NotHeld => Self::from(1),
        }
    }
}

/// Something asked for that does not hold: exit 1 with this message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DoesNotHold(pub String);

/// A service beside the store that cannot be reached: exit 3 with this message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(pub String);

/// The exit code of a command that failed: 3 when the store or another service cannot be reached or do its part, 1
/// when what was asked does not hold, else 2, since then the arguments, the configuration or an input are at fault.
#[must_use]
pub fn code(error: &anyhow::Error) -> u8 {
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<StoreError>() {
            return of_store(error);
        }
        if let Some(error) = cause.downcast_ref::<ScanError>() {
            return match error {
                ScanError::Store(error) => of_store(error),
                ScanError::PolicyFails { .. } => 2,
            };
        }
        if cause.is::<DoesNotHold>() {
            return 1;
        }
        if cause.is::<Unreachable>() {
            return 3;
        }
    }
    2
}

const fn of_store(error: &StoreError) -> u8 {
    match error {
        StoreError::Unavailable { .. } | StoreError::Database { .. } => 3,
        StoreError::NotFound(_) => 1,
        StoreError::Url { .. }
        | StoreError::Unusable { .. }
        | StoreError::NotMigrated { .. }
        | StoreError::ForeignFunction { .. }
        | StoreError::AnotherHost { .. }
        | StoreError::Invalid(_)
        | StoreError::BadRow { .. } => 2,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    fn of(error: impl Into<anyhow::Error>) -> u8 {
        code(&error.into())
    }

    #[test]
    fn a_store_out_of_reach_is_3_also_under_context() {
        let away = || StoreError::Unavailable { store: "s".into(), problem: "refused".into() };
        assert_eq!(of(away()), 3);
        assert_eq!(code(&Err::<(), _>(away()).context("counting").unwrap_err()), 3);
        assert_eq!(of(ScanError::Store(away())), 3);
    }

    #[test]
    fn faults_of_usage_and_configuration_are_2() {
        assert_eq!(of(StoreError::NotMigrated { store: "s".into() }), 2);
        assert_eq!(of(StoreError::AnotherHost { store: "s".into() }), 2);
        assert_eq!(of(anyhow!("unknown key")), 2);
    }

    #[test]
    fn what_does_not_hold_or_is_not_there_is_1() {
        assert_eq!(of(StoreError::NotFound("no dead letter".into())), 1);
        assert_eq!(of(DoesNotHold("no generation is set".into())), 1);
    }
}
