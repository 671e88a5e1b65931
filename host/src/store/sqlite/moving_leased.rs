//! Moving rows that an instance owns.

use super::SqliteStore;
use super::catalogue;
use super::connect::Write;
use super::fault::describe;
use super::guard;
use super::moving::{cell, move_row};
use super::values::Cell;
use crate::store::perspective::{DoomedRow, LeasedMove, LeasedMoves};
use crate::store::{Move, Result};

/// See [`crate::store::PerspectiveStore::move_leased`].
pub(super) async fn move_leased(store: &SqliteStore, moves: &LeasedMoves<'_>) -> Result<Vec<LeasedMove>> {
    let mut write = store.write(moves.now).await?;
    let mut outcomes = Vec::with_capacity(moves.rows.len());
    for row in moves.rows {
        let outcome = move_apart(&mut write, moves, row).await;
        outcomes.push(outcome.map_err(|error| store.fault.of("move rows to the dead letters", error))?);
    }
    write.commit().await?;
    if outcomes.contains(&LeasedMove::Moved) {
        store.signals.ready();
    }
    Ok(outcomes)
}

/// A row that the database refuses leaves the transaction as it was.
async fn move_apart(
    write: &mut Write<'_>,
    moves: &LeasedMoves<'_>,
    row: &DoomedRow,
) -> std::result::Result<LeasedMove, sqlx::Error> {
    guard::open(&mut write.conn).await?;
    let moved = move_if_owned(write, moves, row).await;
    let moved = guard::close(&mut write.conn, Some(row.source_id), moved).await.map_err(|stop| stop.error)?;
    Ok(moved.unwrap_or_else(|error| LeasedMove::Failed(describe(&error))))
}

async fn move_if_owned(
    write: &mut Write<'_>,
    moves: &LeasedMoves<'_>,
    row: &DoomedRow,
) -> std::result::Result<LeasedMove, sqlx::Error> {
    let columns = catalogue::source_row(&mut write.conn, moves.source_table, row.source_id).await?;
    let Some(columns) = columns else {
        return Ok(LeasedMove::Gone);
    };
    let owner = cell(&columns, "instance_id").uuid();
    if owner != Some(moves.instance_id) || *cell(&columns, "processed_at") != Cell::Null {
        return Ok(LeasedMove::Gone);
    }
    let request = Move {
        dead_letter_id: row.dead_letter_id,
        source_table: moves.source_table,
        source_id: row.source_id,
        failure_reason: moves.failure_reason,
        error_text: Some(row.error_text.clone()),
        instance_id: Some(moves.instance_id),
        generation: moves.generation.to_owned(),
        now: Some(write.now),
    };
    move_row(write, &request, &columns).await?;
    Ok(LeasedMove::Moved)
}
