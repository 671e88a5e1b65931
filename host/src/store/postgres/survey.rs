//! Reading through all rows, page by page.
//!
//! The page is cut before its rows are picked by status, so that the planner has nothing to be wrong about: each page is
//! one range of one index, whatever it takes the statuses' shares for. The page's last row is given even if it is not
//! picked, since it says where to go on.

use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::operator::{live_ids, shown};
use super::rows::{entry_columns, get, time};
use super::show::decision;
use super::{PostgresStore, sql_time};
use crate::model::RecoveryStatus;
use crate::model::decision::Siblings;
use crate::store::{Candidate, History, Place, Recorded, Result, Row, StoreError, Survey, Surveyed};

macro_rules! survey {
    ($page:literal) => {
        concat!(
            "select clock_timestamp() as surveyed_at, d.picked, d.place_at, d.live, ",
            "(select n.dead_letter_id from wh_dead_letters n where n.source_table = d.source_table \
                and n.source_id = d.source_id and n.incarnation > d.incarnation and n.incarnation > 1 \
                order by n.incarnation desc limit 1) as superseded_by, ",
            entry_columns!(),
            " from (select p.*, p.dead_lettered_at::text as place_at, p.dead_letter_id in ",
            live_ids!(),
            " as live, coalesce(case when p.recovered_at is null and p.recovery_status in (0, 1) \
                and p.dead_letter_id in ",
            live_ids!(),
            " then 1 else p.recovery_status end = any($1) and p.dead_lettered_at >= coalesce($2::timestamptz, '-infinity'), false) \
                as picked, row_number() over () as nth, count(*) over () as total \
            from (",
            $page,
            " limit $5) p) d where d.picked or d.nth = d.total order by d.nth"
        )
    };
}

pub(crate) const UNSETTLED: &str = survey!(
    "select * from wh_dead_letters where recovered_at is null and (dead_lettered_at, dead_letter_id) \
        > (coalesce($3::text::timestamptz, $2::timestamptz, '-infinity'), coalesce($4::text::uuid, \
        '00000000-0000-0000-0000-000000000000')) order by dead_lettered_at, dead_letter_id"
);

/// Settled rows are in no index by age.
pub(crate) const ALL: &str = survey!(
    "select * from wh_dead_letters where $3::text is null or dead_letter_id > $4::text::uuid order by dead_letter_id"
);

pub(crate) const RECORDED: &str = "\
    select d.picked, d.decision_id, d.dead_letter_id, d.decided_at, d.decision, d.policy_name, d.policy_digest, \
        d.attempt, d.rule::text as rule, d.inputs::text as inputs, d.note \
    from (\
        select p.*, p.inputs is not null and p.policy_digest is not null \
            and p.decided_at >= coalesce($1::timestamptz, '-infinity') as picked, \
            row_number() over () as nth, count(*) over () as total \
        from (\
            select * from wh_dead_letter_decisions \
            where decision_id > coalesce($2::uuid, '00000000-0000-0000-0000-000000000000') \
            order by decision_id limit $3) p) d \
    where d.picked or d.nth = d.total order by d.nth";

impl PostgresStore {
    pub(super) async fn survey_rows(&self, request: &Survey<'_>) -> Result<Surveyed> {
        let action = "read dead letters";
        let unread = |problem| StoreError::Database { action, problem };
        let settled = request.statuses.contains(&RecoveryStatus::Recovered);
        let query = self
            .query(if settled { ALL } else { UNSETTLED })
            .bind(request.statuses.iter().map(|status| status.number()).collect::<Vec<_>>())
            .bind(request.since.map(sql_time))
            .bind(request.after.map(|after| after.dead_lettered_at.clone()))
            .bind(request.after.map(|after| after.dead_letter_id.clone()))
            .bind(i64::from(request.limit));
        let rows = self.rows(action, query).await?;
        let mut surveyed = Surveyed::default();
        if let Some(last) = rows.last() {
            surveyed.now = Some(time(last, "surveyed_at").map_err(unread)?);
            surveyed.next = Some(place(last).map_err(unread)?);
        }
        for row in rows.iter().filter(|row| get(row, "picked") == Ok(true)) {
            match shown(row) {
                Row::Readable(entry) => {
                    let superseded_by = get(row, "superseded_by").map_err(unread)?;
                    surveyed.rows.push(Candidate { entry, siblings: Siblings { superseded_by, predecessor: None } });
                }
                Row::Unreadable { dead_letter_id, problem } => surveyed.unreadable.push((dead_letter_id, problem)),
            }
        }
        Ok(surveyed)
    }

    pub(super) async fn recorded_decisions(&self, request: &History) -> Result<Recorded> {
        let action = "read recorded decisions";
        let query =
            self.query(RECORDED).bind(request.since.map(sql_time)).bind(request.after).bind(i64::from(request.limit));
        let rows = self.rows(action, query).await?;
        let next = rows.last().map(|last| get::<Uuid>(last, "decision_id")).transpose();
        let next = next.map_err(|problem| StoreError::Database { action, problem })?;
        let mut recorded = Recorded { next, ..Recorded::default() };
        for row in rows.iter().filter(|row| get(row, "picked") == Ok(true)) {
            match (get(row, "dead_letter_id"), decision(row)) {
                (Ok(id), Ok(decision)) => recorded.decisions.push((id, decision)),
                (Err(_), _) | (_, Err(_)) => recorded.unreadable += 1,
            }
        }
        Ok(recorded)
    }
}

fn place(row: &PgRow) -> std::result::Result<Place, String> {
    let id = get::<Uuid>(row, "dead_letter_id")?;
    Ok(Place { dead_lettered_at: get(row, "place_at")?, dead_letter_id: id.to_string() })
}
