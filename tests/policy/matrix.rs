//! The default matrix, through the component that the host embeds.

use reprieve::model::view::PolicyView;
use reprieve::model::{DeadLetter, FailureReason, RecoveryStatus, StreamMode};
use uuid::Uuid;

use super::{ENGINE, ask_one, builtin, entry, now};

const HOUR: u64 = 3_600_000;
const HALF: u64 = 1_800_000;

#[tokio::test]
async fn every_reason_is_answered_by_its_row() {
    let held = ("HoldForReview", 0, 0, true, false);
    let one_shot = ("OneShotThenHold", 1, HOUR, true, false);
    let rows = [
        (8, ("AggressiveRetry", 3, HALF, false, false)),
        (2, ("MediumRetry", 3, HOUR, false, false)),
        (6, ("AggressiveRetry", 5, 0, false, false)),
        (5, ("ConservativeRetry", 1, 6 * HOUR, true, true)),
        (7, held),
        (4, held),
        (3, held),
        (1, ("MediumRetry", 3, HALF, false, false)),
        (17, ("MediumRetry", 3, HOUR, true, false)),
        (18, held),
    ];
    let expected =
        |reason: FailureReason| rows.iter().find(|(number, _)| *number == reason.0).map_or(one_shot, |(_, row)| *row);
    let policy = ENGINE.load(vec![builtin()]).await.unwrap();
    let reasons: Vec<_> = FailureReason::named().chain([9, 19, -1, i32::MAX, i32::MIN].map(FailureReason)).collect();
    let views = reasons.iter().map(|reason| PolicyView::of(&entry(*reason))).collect();
    for (reason, answer) in reasons.iter().zip(policy.session(now()).ask(views).await) {
        let row = answer.unwrap().policy;
        let cooldown = u64::try_from(row.cooldown.as_millis()).unwrap();
        let found = (
            row.name.as_str(),
            row.max_recovery_attempts,
            cooldown,
            row.hold_for_review_after_exhaustion,
            row.delay_first_attempt,
        );
        assert_eq!(found, expected(*reason), "{reason}");
    }
}

#[tokio::test]
async fn a_row_is_tail_aware_when_it_has_a_stream() {
    let policy = ENGINE.load(vec![builtin()]).await.unwrap();
    for (stream_id, mode) in [
        (None, StreamMode::PerMessage),
        (Some(Uuid::nil()), StreamMode::PerMessage),
        (Some(Uuid::now_v7()), StreamMode::TailAware),
    ] {
        let entry = DeadLetter { stream_id, ..entry(FailureReason(8)) };
        assert_eq!(ask_one(&policy, &entry).await.unwrap().stream_mode, mode, "{stream_id:?}");
    }
}

#[tokio::test]
async fn only_open_rows_are_recovered() {
    let policy = ENGINE.load(vec![builtin()]).await.unwrap();
    for status in RecoveryStatus::ALL {
        let entry = DeadLetter { recovery_status: *status, ..entry(FailureReason(8)) };
        let open = matches!(status, RecoveryStatus::Pending | RecoveryStatus::Recovering);
        assert_eq!(ask_one(&policy, &entry).await.unwrap().should_recover, open, "{status}");
    }
}
