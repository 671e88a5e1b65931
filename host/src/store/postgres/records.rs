//! Decision records as arrays of columns.

use std::borrow::Cow;
use std::sync::Arc;

use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use uuid::Uuid;

use super::text;
use crate::model::json::mend_escapes;
use crate::store::{DecisionRecord, Ruling};

/// The columns of `wh_dead_letter_decisions` that the host fills, an array each, in the order in which the functions take
/// them. What the policy said stands once for all records that follow one another and share it.
#[derive(Default)]
pub(super) struct Records<'a> {
    ids: Vec<Uuid>,
    attempts: Vec<Option<i32>>,
    inputs: Vec<Option<Cow<'a, str>>>,
    /// Where, from 1 on, what the policy said of a row stands in the arrays after this one.
    ruling_places: Vec<Option<i32>>,
    policy_names: Vec<Cow<'a, str>>,
    policy_digests: Vec<&'a str>,
    rules: Vec<Cow<'a, str>>,
}

impl<'a> FromIterator<Option<&'a DecisionRecord>> for Records<'a> {
    /// A record that is absent keeps its place.
    fn from_iter<I: IntoIterator<Item = Option<&'a DecisionRecord>>>(records: I) -> Self {
        let mut arrays = Self::default();
        // Ids that grow with time keep the inserts at one end of the primary key. One is drawn and counted up from: the
        // system's random numbers take longer than all else that is done here.
        let first = Uuid::now_v7().as_u128();
        let mut last: Option<(&Arc<Ruling>, i32)> = None;
        for (record, n) in records.into_iter().zip(0..) {
            if let Some(DecisionRecord { ruling, .. }) = record
                && last.is_none_or(|(last, _)| !Arc::ptr_eq(last, ruling))
            {
                arrays.policy_names.push(text::text(&ruling.policy_name));
                arrays.policy_digests.push(&ruling.policy_digest);
                arrays.rules.push(mend_escapes(&ruling.rule));
                last = Some((ruling, last.map_or(1, |(_, place)| place.saturating_add(1))));
            }
            arrays.ids.push(Uuid::from_u128(first.wrapping_add(n)));
            arrays.attempts.push(record.map(|record| record.attempt));
            arrays.inputs.push(record.map(|record| mend_escapes(&record.inputs)));
            arrays.ruling_places.push(record.and(last).map(|(_, place)| place));
        }
        arrays
    }
}

impl<'a> Records<'a> {
    /// Binds the arrays: ids, attempts, inputs, places of rulings, names, digests, rules.
    pub(super) fn bind<'q>(self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments>
    where
        'a: 'q,
    {
        query
            .bind(self.ids)
            .bind(self.attempts)
            .bind(self.inputs)
            .bind(self.ruling_places)
            .bind(self.policy_names)
            .bind(self.policy_digests)
            .bind(self.rules)
    }
}
