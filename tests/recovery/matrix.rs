//! Every row of the default matrix, lived through: the message dies, is recovered, dies again, until its budget ends.

use reprieve::model::{FailureReason, RecoveryStatus};

use super::host::{Told, dies, host, is_back};
use crate::harness::{Backend, at};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const NEVER: i64 = 0;

use RecoveryStatus::{HoldForReview, PermanentlyFailed};

/// Reason, attempts, seconds between them, the end, whether the first attempt waits too.
const MATRIX: &[(i32, u64, i64, RecoveryStatus, bool)] = &[
    (8, 3, 30 * MINUTE, PermanentlyFailed, false),
    (2, 3, HOUR, PermanentlyFailed, false),
    (6, 5, 0, PermanentlyFailed, false),
    (5, 1, 6 * HOUR, HoldForReview, true),
    (7, 0, NEVER, HoldForReview, false),
    (4, 0, NEVER, HoldForReview, false),
    (3, 0, NEVER, HoldForReview, false),
    (1, 3, 30 * MINUTE, PermanentlyFailed, false),
    (17, 3, HOUR, HoldForReview, false),
    (18, 0, NEVER, HoldForReview, false),
    (99, 1, HOUR, HoldForReview, false),
    // Without a row of their own.
    (0, 1, HOUR, HoldForReview, false),
    (10, 1, HOUR, HoldForReview, false),
    (12, 1, HOUR, HoldForReview, false),
    (9, 1, HOUR, HoldForReview, false),
    (4711, 1, HOUR, HoldForReview, false),
];

on_both_stores! {
    async fn a_message_that_keeps_dying_gets_the_attempts_of_its_reason_and_then_its_end(store: Backend) {
        let host = host(&store).await;
        for (n, (reason, attempts, cooldown, end, delayed)) in (1..).zip(MATRIX.iter().copied()) {
            let name = FailureReason(reason);
            // Each message lives in days of its own.
            let mut now = i64::try_from(n).unwrap() * 48 * HOUR;
            for attempt in 0..attempts {
                let letter = dies(&store, n, attempt, reason, now).await;
                if cooldown > 0 && (attempt > 0 || delayed) {
                    let early = host.scans_at(at(now + cooldown - 1)).await;
                    assert_eq!((early.deferred, early.recovered), (1, 0), "{name}, attempt {attempt}, a second early");
                    let due = store.letter(letter).await.next_recovery_at;
                    assert_eq!(due, Some(at(now + cooldown)), "{name}: scheduled for exactly then");
                    now += cooldown;
                }
                let counts = host.scans_at(at(now)).await;
                assert_eq!(counts.recovered, 1, "{name}, attempt {attempt}: {counts:?}");
                assert!(is_back(&store, n).await, "{name}");
                assert_eq!(store.letter(letter).await.recovery_attempts, i32::try_from(attempt + 1).unwrap());
            }
            let last = dies(&store, n, attempts, reason, now).await;
            host.scans_at(at(now)).await;
            let letter = store.letter(last).await;
            assert_eq!(letter.recovery_status, end, "{name}");
            assert_eq!(letter.next_recovery_at, None, "{name}");
            assert!(!is_back(&store, n).await, "{name}");
        }
    }
}
