//! Planted faults, each of which the invariants must find.
//!
//! A fault is a wrong line in the model's store. Its test runs the histories of the first seeds on that store, and the
//! first that goes wrong must do so by the invariant that stands beside the fault: so no invariant looks away.

use super::history::run;
use super::invariants::Invariant;

/// What can be wrong with the store of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Begin does not count the attempts; settling does, once the work is done.
    CountedAfterTheWork,
    /// The attempts of a batch whose host died are forgotten.
    AttemptsForgottenByRescue,
    /// Settling does not count an attempt that failed.
    FailuresNotCounted,
    /// Settling goes on though the row of the batch is gone.
    LostBatchesSettled,
    /// Claims do not look at what is in batches already.
    BatchesIgnoredByClaims,
    /// Claims do not look for whom a credit is reserved.
    ReservationsIgnored,
    /// A generation that has replayed a row sweeps it again.
    SweptAgain,
    /// A free attempt that failed leaves its credit.
    CreditsKept,
    /// A death inherits nothing from the earlier ones.
    NothingInherited,
    /// Settling goes past a row that stays in the way.
    FailedRowsPassed,
    /// A row that could not be inserted is deleted.
    FailedRowsVanish,
    /// A row whose message is in its table already is called recovered.
    CollisionsCalledRecovered,
    /// A death that is not the newest of its message is re-emitted.
    OlderDeathsReEmitted,
    /// Nobody dissolves the batches of hosts that died.
    BatchesNeverRescued,
}

/// Each fault is found by the histories of the first seeds, and first by this invariant.
macro_rules! found {
    ($($name:ident: $fault:ident => $invariant:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            let failure = (0..1000).find_map(|seed| run(seed, Some(Fault::$fault)).err());
            let failure = failure.expect("no history finds it");
            assert_eq!(failure.violation.invariant, Invariant::$invariant, "{failure}");
        }
    )+};
}

found! {
    attempts_counted_after_the_work_are_found: CountedAfterTheWork => AttemptsCounted,
    attempts_that_a_rescue_forgets_are_found: AttemptsForgottenByRescue => AttemptsCounted,
    failures_that_are_not_counted_are_found: FailuresNotCounted => AttemptsCounted,
    settling_a_lost_batch_is_found: LostBatchesSettled => AttemptsCounted,
    claims_that_ignore_batches_are_found: BatchesIgnoredByClaims => OneHostAtATime,
    claims_that_ignore_reservations_are_found: ReservationsIgnored => FreeAttemptsUsedOnce,
    a_second_sweep_is_found: SweptAgain => FreeAttemptsUsedOnce,
    credits_that_a_failure_leaves_are_found: CreditsKept => AttemptsCounted,
    deaths_that_inherit_nothing_are_found: NothingInherited => BudgetKept,
    passing_a_failed_row_is_found: FailedRowsPassed => OrderKept,
    failed_rows_that_vanish_are_found: FailedRowsVanish => NothingLost,
    collisions_called_recovered_are_found: CollisionsCalledRecovered => NothingLost,
    older_deaths_re_emitted_are_found: OlderDeathsReEmitted => NewestDeathOnly,
    batches_that_nobody_rescues_are_found: BatchesNeverRescued => ComesToRest,
}
