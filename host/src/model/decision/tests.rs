#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::json::parse_entry;

const HOUR: Duration = Duration::from_secs(60 * 60);
const SCAN_INTERVAL: Duration = Duration::from_secs(600);

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn noon() -> Timestamp {
    at("2026-01-01T12:00:00Z")
}

/// Dead since noon, pending, never tried.
fn entry() -> DeadLetter {
    let given = json!({
        "dead_letter_id": Uuid::from_u128(1), "source_id": Uuid::from_u128(2), "failure_reason": "Unknown",
        "message_type": "OrderPlaced", "attempts_when_dlq": 10, "generation": "g1",
    });
    DeadLetter { source_created_at: None, ..parse_entry(&given.to_string(), noon()).unwrap() }
}

/// Three tries, an hour apart, then held; the first at once.
fn answers() -> Answers {
    Answers {
        should_recover: true,
        policy: RecoveryPolicy {
            name: "MediumRetry".to_owned(),
            max_recovery_attempts: 3,
            cooldown: HOUR,
            hold_for_review_after_exhaustion: true,
            delay_first_attempt: false,
        },
        stream_mode: StreamMode::PerMessage,
    }
}

fn decided(entry: &DeadLetter, answers: &Answers, now: Timestamp) -> Decision {
    decide(entry, answers, &Siblings::default(), SCAN_INTERVAL, now)
}

fn with_policy(change: impl FnOnce(&mut RecoveryPolicy)) -> Answers {
    let mut answers = answers();
    change(&mut answers.policy);
    answers
}

#[test]
fn a_fresh_row_with_budget_is_recovered_at_once() {
    assert_eq!(decided(&entry(), &answers(), noon()), Decision::Recover { on_credit: false });
}

#[test]
fn a_superseded_row_is_held_whatever_else_is_true_of_it() {
    let newer = Uuid::from_u128(9);
    let siblings = Siblings { superseded_by: Some(newer), ..Siblings::default() };
    let refused = Answers { should_recover: false, ..answers() };
    let paid = DeadLetter { replay_credit: Some("*".to_owned()), ..entry() };
    for (entry, answers) in [(entry(), answers()), (entry(), refused), (paid, self::answers())] {
        let decision = decide(&entry, &answers, &siblings, SCAN_INTERVAL, noon());
        assert_eq!(decision, Decision::Hold(Held::SupersededBy(newer)));
    }
}

#[test]
fn a_refused_row_rests_for_the_scan_interval_even_with_a_credit() {
    let refused = Answers { should_recover: false, ..answers() };
    let paid = DeadLetter { replay_credit: Some("*".to_owned()), ..entry() };
    for entry in [entry(), paid] {
        assert_eq!(decided(&entry, &refused, noon()), Decision::Skip { not_before: at("2026-01-01T12:10:00Z") });
    }
}

#[test]
fn a_spent_budget_ends_held_or_given_up_as_the_policy_says() {
    for attempts in [3, 4, i32::MAX] {
        let spent = DeadLetter { recovery_attempts: attempts, last_recovery_at: Some(noon()), ..entry() };
        assert_eq!(decided(&spent, &answers(), noon()), Decision::Hold(Held::Exhausted));
        let gives_up = with_policy(|policy| policy.hold_for_review_after_exhaustion = false);
        assert_eq!(decided(&spent, &gives_up, noon()), Decision::PermanentlyFail);
    }
}

#[test]
fn a_budget_of_nothing_holds_a_fresh_row() {
    let never = with_policy(|policy| policy.max_recovery_attempts = 0);
    assert_eq!(decided(&entry(), &never, noon()), Decision::Hold(Held::Exhausted));
}

#[test]
fn the_last_attempt_of_the_budget_is_made() {
    let tried_twice = DeadLetter { recovery_attempts: 2, last_recovery_at: Some(noon()), ..entry() };
    assert_eq!(decided(&tried_twice, &answers(), at("2026-01-01T13:00:00Z")), Decision::Recover { on_credit: false });
}

#[test]
fn a_cooldown_ends_exactly_when_it_has_passed() {
    let tried = DeadLetter { recovery_attempts: 1, last_recovery_at: Some(noon()), ..entry() };
    let one = at("2026-01-01T13:00:00Z");
    let waits = Decision::Wait { not_before: one, until: WaitFor::Cooldown };
    assert_eq!(decided(&tried, &answers(), at("2026-01-01T12:59:59.999999Z")), waits);
    assert_eq!(decided(&tried, &answers(), one), Decision::Recover { on_credit: false });
}

#[test]
fn only_a_policy_that_asks_for_it_delays_a_first_attempt() {
    let delays = with_policy(|policy| policy.delay_first_attempt = true);
    let one = at("2026-01-01T13:00:00Z");
    let waits = Decision::Wait { not_before: one, until: WaitFor::Cooldown };
    assert_eq!(decided(&entry(), &delays, at("2026-01-01T12:59:59Z")), waits);
    assert_eq!(decided(&entry(), &delays, one), Decision::Recover { on_credit: false });
    // Tried before, though not when: it is no first attempt.
    let tried = DeadLetter { recovery_attempts: 1, last_recovery_at: None, ..entry() };
    assert_eq!(decided(&tried, &delays, at("2026-01-01T12:59:59Z")), Decision::Recover { on_credit: false });
}

#[test]
fn a_credit_is_spent_first_and_needs_neither_budget_nor_cooldown() {
    let credit = |attempts| DeadLetter {
        replay_credit: Some("g2".to_owned()),
        recovery_attempts: attempts,
        last_recovery_at: Some(noon()),
        ..entry()
    };
    for attempts in [0, 1, 3, 100] {
        assert_eq!(decided(&credit(attempts), &answers(), noon()), Decision::Recover { on_credit: true });
    }
    let never = with_policy(|policy| policy.max_recovery_attempts = 0);
    assert_eq!(decided(&credit(0), &never, noon()), Decision::Recover { on_credit: true });
}

#[test]
fn a_row_behind_an_open_sibling_waits_only_when_the_policy_keeps_the_order() {
    let earlier = Predecessor { dead_letter_id: Uuid::from_u128(7), due_at: Some(at("2026-01-01T12:05:00Z")) };
    let siblings = Siblings { predecessor: Some(earlier), ..Siblings::default() };
    let tail_aware = Answers { stream_mode: StreamMode::TailAware, ..answers() };
    let decision = decide(&entry(), &tail_aware, &siblings, SCAN_INTERVAL, noon());
    let until = WaitFor::Predecessor(earlier.dead_letter_id);
    assert_eq!(decision, Decision::Wait { not_before: at("2026-01-01T12:05:00Z"), until });
    let decision = decide(&entry(), &answers(), &siblings, SCAN_INTERVAL, noon());
    assert_eq!(decision, Decision::Recover { on_credit: false });
}

#[test]
fn nobody_waits_longer_for_a_sibling_than_the_scan_interval() {
    let earlier = Predecessor { dead_letter_id: Uuid::from_u128(7), due_at: Some(at("2027-01-01T00:00:00Z")) };
    let siblings = Siblings { predecessor: Some(earlier), ..Siblings::default() };
    let tail_aware = Answers { stream_mode: StreamMode::TailAware, ..answers() };
    let Decision::Wait { not_before, .. } = decide(&entry(), &tail_aware, &siblings, SCAN_INTERVAL, noon()) else {
        panic!("it does not wait");
    };
    assert_eq!(not_before, at("2026-01-01T12:10:00Z"));
}

#[test]
fn a_row_behind_one_that_is_due_or_has_no_time_rests_for_the_scan_interval() {
    let tail_aware = Answers { stream_mode: StreamMode::TailAware, ..answers() };
    for due_at in [None, Some(noon()), Some(at("2026-01-01T11:00:00Z"))] {
        let earlier = Predecessor { dead_letter_id: Uuid::from_u128(7), due_at };
        let siblings = Siblings { predecessor: Some(earlier), ..Siblings::default() };
        let decision = decide(&entry(), &tail_aware, &siblings, SCAN_INTERVAL, noon());
        let until = WaitFor::Predecessor(earlier.dead_letter_id);
        assert_eq!(decision, Decision::Wait { not_before: at("2026-01-01T12:10:00Z"), until }, "{due_at:?}");
    }
}

#[test]
fn the_wait_after_a_failed_attempt_doubles_from_the_plain_cooldown() {
    let five = with_policy(|policy| policy.max_recovery_attempts = 5);
    for (attempts_before, hours) in [(0, 1), (1, 2), (2, 4), (3, 8)] {
        let tried = DeadLetter { recovery_attempts: attempts_before, ..entry() };
        let standing = after_failure(&tried, &five.policy, false, noon());
        assert_eq!(standing.status, RecoveryStatus::Pending);
        assert_eq!(standing.deferral, Some(Deferral::Failure));
        assert_eq!(standing.next_recovery_at, Some(later(noon(), HOUR * hours)));
    }
}

#[test]
fn the_wait_after_a_failed_attempt_is_a_second_at_least_and_a_day_at_most() {
    let policy =
        |cooldown| with_policy(|policy| (policy.max_recovery_attempts, policy.cooldown) = (50, cooldown)).policy;
    let standing = after_failure(&entry(), &policy(Duration::ZERO), false, noon());
    assert_eq!(standing.next_recovery_at, Some(at("2026-01-01T12:00:01Z")));
    let often = DeadLetter { recovery_attempts: 40, ..entry() };
    let standing = after_failure(&often, &policy(HOUR), false, noon());
    assert_eq!(standing.next_recovery_at, Some(at("2026-01-02T12:00:00Z")));
}

#[test]
fn a_failed_attempt_that_was_the_last_ends_the_row() {
    let tried = DeadLetter { recovery_attempts: 2, ..entry() };
    let held = after_failure(&tried, &answers().policy, false, noon());
    assert_eq!(held, Standing::ended(RecoveryStatus::HoldForReview));
    let gives_up = with_policy(|policy| policy.hold_for_review_after_exhaustion = false);
    let failed = after_failure(&tried, &gives_up.policy, false, noon());
    assert_eq!(failed, Standing::ended(RecoveryStatus::PermanentlyFailed));
}

#[test]
fn a_failed_attempt_on_credit_leaves_the_budget_as_it_is() {
    let untouched = after_failure(&entry(), &answers().policy, true, noon());
    assert_eq!(untouched.next_recovery_at, Some(later(noon(), HOUR)));
    let spent = DeadLetter { recovery_attempts: 3, ..entry() };
    let back = after_failure(&spent, &answers().policy, true, noon());
    assert_eq!(back, Standing::ended(RecoveryStatus::HoldForReview));
    let never = with_policy(|policy| policy.max_recovery_attempts = 0);
    let back = after_failure(&entry(), &never.policy, true, noon());
    assert_eq!(back, Standing::ended(RecoveryStatus::HoldForReview));
}

#[test]
fn a_row_on_which_the_policy_fails_waits_a_minute_doubled_up_to_an_hour_and_is_held_in_the_end() {
    for (errors, minutes) in [(1, 1), (2, 2), (3, 4), (4, 8), (6, 32), (7, 60), (30, 60), (i32::MAX - 1, 60)] {
        let standing = after_policy_error(errors, u32::MAX, noon());
        assert_eq!(standing.next_recovery_at, Some(later(noon(), Duration::from_secs(60) * minutes)));
        assert_eq!(standing.deferral, Some(Deferral::PolicyError));
    }
    assert_eq!(after_policy_error(4, 5, noon()).status, RecoveryStatus::Pending);
    assert_eq!(after_policy_error(5, 5, noon()), Standing::ended(RecoveryStatus::HoldForReview));
}

prop_compose! {
    fn any_time()(second in -62_135_596_800_i64..=253_402_207_200) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }
}

prop_compose! {
    fn any_entry()(
        recovery_attempts in any::<i32>().prop_map(|n| n.saturating_abs()),
        last_recovery_at in proptest::option::of(any_time()),
        dead_lettered_at in any_time(),
        credit in any::<bool>(),
    ) -> DeadLetter {
        let replay_credit = credit.then(|| "*".to_owned());
        DeadLetter { recovery_attempts, last_recovery_at, dead_lettered_at, replay_credit, ..entry() }
    }
}

prop_compose! {
    fn any_answers()(
        should_recover in any::<bool>(),
        max_recovery_attempts in any::<u32>(),
        cooldown in any::<u64>().prop_map(Duration::from_millis),
        hold in any::<bool>(),
        delay_first_attempt in any::<bool>(),
        tail_aware in any::<bool>(),
    ) -> Answers {
        Answers {
            should_recover,
            policy: RecoveryPolicy {
                name: "Any".to_owned(),
                max_recovery_attempts,
                cooldown,
                hold_for_review_after_exhaustion: hold,
                delay_first_attempt,
            },
            stream_mode: if tail_aware { StreamMode::TailAware } else { StreamMode::PerMessage },
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_recovered_past_its_budget_without_a_credit(
        entry in any_entry(), answers in any_answers(), now in any_time(),
    ) {
        if let Decision::Recover { on_credit } = decided(&entry, &answers, now) {
            let within = u32::try_from(entry.recovery_attempts).unwrap() < answers.policy.max_recovery_attempts;
            prop_assert!(answers.should_recover);
            prop_assert_eq!(on_credit, entry.replay_credit.is_some());
            prop_assert!(on_credit || within);
        }
    }

    #[test]
    fn a_row_that_waits_is_recovered_when_the_wait_is_over(
        entry in any_entry(), answers in any_answers(), now in any_time(),
    ) {
        if let Decision::Wait { not_before, .. } = decided(&entry, &answers, now) {
            prop_assert!(not_before > now);
            if not_before < Timestamp::MAX {
                prop_assert_eq!(decided(&entry, &answers, not_before), Decision::Recover { on_credit: false });
            }
        }
    }

    #[test]
    fn a_failed_attempt_waits_within_its_bounds_or_ends(
        entry in any_entry(), answers in any_answers(), on_credit in any::<bool>(),
    ) {
        let standing = after_failure(&entry, &answers.policy, on_credit, noon());
        if let Some(next) = standing.next_recovery_at {
            prop_assert!(next >= later(noon(), MIN_FAILURE_WAIT) && next <= later(noon(), MAX_FAILURE_WAIT));
            prop_assert_eq!(standing.status, RecoveryStatus::Pending);
        } else {
            prop_assert_ne!(standing.status, RecoveryStatus::Pending);
        }
    }
}
