//! Decision records as arrays of columns.

use std::borrow::Cow;

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use uuid::Uuid;

use super::text;
use crate::model::json::mend_escapes;
use crate::store::DecisionRecord;

/// One array per column of `wh_dead_letter_decisions`, in the order in which the functions take them.
#[derive(Default)]
pub(super) struct Records<'a> {
    ids: Vec<Uuid>,
    decisions: Vec<Option<&'static str>>,
    policy_names: Vec<Option<Cow<'a, str>>>,
    policy_digests: Vec<Option<&'a str>>,
    attempts: Vec<Option<i32>>,
    rules: Vec<Option<Cow<'a, str>>>,
    inputs: Vec<Option<Cow<'a, str>>>,
    notes: Vec<Option<Cow<'a, str>>>,
}

impl<'a> FromIterator<Option<&'a DecisionRecord>> for Records<'a> {
    /// A record that is absent keeps its place, with a NULL decision.
    fn from_iter<I: IntoIterator<Item = Option<&'a DecisionRecord>>>(records: I) -> Self {
        let mut arrays = Self::default();
        // Ids that grow with time keep the inserts at one end of the primary key. One is drawn and counted up from: the
        // system's random numbers take longer than all else that is done here.
        let first = Uuid::now_v7().as_u128();
        for (record, n) in records.into_iter().zip(0..) {
            arrays.ids.push(Uuid::from_u128(first.wrapping_add(n)));
            arrays.decisions.push(record.map(|record| record.decision));
            arrays.policy_names.push(record.map(|record| text::text(&record.policy_name)));
            arrays.policy_digests.push(record.map(|record| record.policy_digest.as_str()));
            arrays.attempts.push(record.map(|record| record.attempt));
            arrays.rules.push(record.map(|record| mend_escapes(&record.rule)));
            arrays.inputs.push(record.map(|record| mend_escapes(&record.inputs)));
            arrays.notes.push(record.and_then(|record| text::optional(record.note.as_deref())));
        }
        arrays
    }
}

impl<'a> Records<'a> {
    /// Binds the arrays: ids, decisions, names, digests, attempts, rules, inputs, notes.
    pub(super) fn bind<'q>(self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments>
    where
        'a: 'q,
    {
        query
            .bind(self.ids)
            .bind(self.decisions)
            .bind(self.policy_names)
            .bind(self.policy_digests)
            .bind(self.attempts)
            .bind(self.rules)
            .bind(self.inputs)
            .bind(self.notes)
    }
}
