//! Rows that fell due only since a scan began.

use std::collections::HashSet;

use jiff::Timestamp;

use crate::store::Candidate;

/// Those of the rows claimed at `claimed_at` that are of a scan at `scan_at`: not those that fell due since, and that
/// the next one decides about with its own time, nor what came along with one of these. Pure.
#[must_use]
pub fn of_scan(rows: Vec<Candidate>, scan_at: Timestamp, claimed_at: Timestamp) -> Vec<Candidate> {
    let due_at = |row: &Candidate| row.entry.next_recovery_at.unwrap_or(Timestamp::MIN);
    let came_along = |row: &Candidate| due_at(row) > claimed_at;
    let is_late = |row: &Candidate| due_at(row) > scan_at && !came_along(row);
    let late: HashSet<_> = rows
        .iter()
        .filter(|row| is_late(row))
        .filter_map(|row| row.entry.stream_key())
        .map(|(table, stream, perspective)| (table, stream, perspective.to_owned()))
        .collect();
    let follows = |row: &Candidate| {
        let key = row.entry.stream_key();
        came_along(row) && key.is_some_and(|(table, stream, name)| late.contains(&(table, stream, name.to_owned())))
    };
    rows.into_iter().filter(|row| !is_late(row) && !follows(row)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::model::decision::Siblings;
    use crate::model::json::parse_entry;

    #[test]
    fn what_fell_due_since_the_scan_began_is_left_to_the_next_one_with_what_came_along_with_it() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let candidate = |n, stream: u128, due_at: Option<i64>| {
            let entry = json!({
                "failure_reason": "Throttled", "dead_letter_id": Uuid::from_u128(n), "stream_id": Uuid::from_u128(stream),
                "next_recovery_at": due_at.map(at),
            });
            let entry = parse_entry(&entry.to_string(), Timestamp::UNIX_EPOCH).unwrap();
            Candidate { entry, siblings: Siblings::default() }
        };
        let claimed = vec![
            candidate(1, 1, None),
            candidate(2, 1, Some(500)),
            candidate(3, 2, Some(10)),
            candidate(4, 2, Some(500)),
            candidate(5, 3, Some(15)),
            candidate(6, 3, Some(500)),
            candidate(7, 3, Some(9)),
        ];

        let of_it = of_scan(claimed, at(10), at(20));

        let numbers: Vec<u128> = of_it.iter().map(|row| row.entry.dead_letter_id.as_u128()).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 7]);
    }
}
