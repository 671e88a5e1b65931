//! The default matrix, through the component that the host embeds.

use reprieve::model::view::PolicyView;
use reprieve::model::{DeadLetter, FailureReason, RecoveryStatus, StreamMode};
use uuid::Uuid;
use wasmparser::{Parser, Payload};

use super::{DEFAULT_MATRIX, ENGINE, ask_one, builtin, entry, now};

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

#[tokio::test]
async fn answers_about_ordinary_entries_do_not_make_its_memory_grow() {
    let mut pages = 0;
    for payload in Parser::new(0).parse_all(DEFAULT_MATRIX) {
        if let Payload::MemorySection(memories) = payload.unwrap() {
            pages += memories.into_iter().map(|memory| memory.unwrap().initial).sum::<u64>();
        }
    }
    let at_first = usize::try_from(pages).unwrap() << 16;
    assert!(at_first > 0);
    assert_eq!(ENGINE.load(vec![builtin()]).await.unwrap().sample_memory_bytes(), at_first);
}

#[tokio::test]
async fn entries_that_its_arena_has_no_room_for_are_answered() {
    let policy = ENGINE.load(vec![builtin()]).await.unwrap();
    let long = |bytes| "x".repeat(bytes);
    let large = DeadLetter {
        message_type: long(100 << 10),
        generation: long(100 << 10),
        retried_on_generations: vec![long(40 << 10), long(40 << 10)],
        ..entry(FailureReason(8))
    };
    let views = [&large, &entry(FailureReason(8)), &large].map(PolicyView::of).to_vec();
    for answer in policy.session(now()).ask(views).await {
        assert_eq!(answer.unwrap().policy.name, "AggressiveRetry");
    }
}
