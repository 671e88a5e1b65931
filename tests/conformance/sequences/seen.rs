//! What can be seen of a store from outside, and what must hold from one look to the next.

use serde_json::{Map, Value};

use super::step::MESSAGES;
use crate::harness::{Backend, source};

/// A look at the tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// What the store answered to the step.
    pub told: String,
    /// The messages in the outbox.
    pub outbox: Vec<String>,
    /// The dead letters, without texts that the engines word differently.
    pub letters: Vec<Map<String, Value>>,
}

impl Seen {
    /// Looks, after the store has answered.
    pub async fn of(store: &Backend, told: String) -> Self {
        let outbox = store.query("select message_id from wh_outbox order by message_id").await;
        let letters = store
            .query(
                "select dead_letter_id, source_id, recovery_status, recovery_attempts, last_recovery_at,
                   next_recovery_at, recovered_at, retried_on_generations, operator_disposition, incarnation,
                   replay_credit, replay_credit_at, deferral, policy_errors, attempts_when_dlq
                 from wh_dead_letters order by dead_letter_id",
            )
            .await;
        let outbox = outbox.iter().map(|row| row["message_id"].as_str().unwrap().to_owned()).collect();
        Self { told, outbox, letters }
    }

    /// The newest death of a message.
    fn newest(&self, message: &str) -> Option<&Map<String, Value>> {
        self.letters
            .iter()
            .filter(|letter| letter["source_id"] == message)
            .max_by_key(|letter| letter["incarnation"].as_i64())
    }
}

/// What must hold from one look to the next.
pub fn check(before: &Seen, after: &Seen) -> Result<(), String> {
    if before.letters.len() > after.letters.len() {
        return Err("a dead letter vanished".to_owned());
    }
    (0..MESSAGES).try_for_each(|message| nothing_is_lost(after, &source(message).to_string()))?;
    after.letters.iter().try_for_each(|letter| {
        let earlier = before.letters.iter().find(|earlier| earlier["dead_letter_id"] == letter["dead_letter_id"]);
        earlier.map_or(Ok(()), |earlier| each_step_is_paid_for(earlier, letter))
    })
}

fn nothing_is_lost(after: &Seen, message: &str) -> Result<(), String> {
    let present = after.outbox.iter().any(|id| id == message);
    match after.newest(message) {
        None if !present => Err(format!("{message} is lost")),
        Some(letter) if !present && letter["recovery_status"] == 3 => {
            Err(format!("{message} counts as recovered and is not in its table"))
        }
        None | Some(_) => Ok(()),
    }
}

/// A row is re-emitted for an attempt that is counted or a credit that is spent, and never twice.
fn each_step_is_paid_for(before: &Map<String, Value>, after: &Map<String, Value>) -> Result<(), String> {
    let id = &after["dead_letter_id"];
    let number = |row: &Map<String, Value>, column: &str| row[column].as_i64().unwrap();
    let attempts = number(after, "recovery_attempts") - number(before, "recovery_attempts");
    let spent = !before["replay_credit"].is_null() && after["replay_credit"].is_null();
    match (number(before, "recovery_status"), number(after, "recovery_status")) {
        (_, 1) => Err(format!("{id} is stored as Recovering, which is only shown")),
        (3, status) if status != 3 || before != after => Err(format!("{id} was recovered and has changed")),
        (0 | 2 | 4, 3) if attempts < 1 && !spent => Err(format!("{id} was re-emitted for nothing")),
        _ if !(0..=1).contains(&attempts) => Err(format!("{id} counts {attempts} attempts at once")),
        _ => Ok(()),
    }
}
