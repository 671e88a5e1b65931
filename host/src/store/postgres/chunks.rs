//! Cutting an import into statements.

use std::collections::HashMap;

use uuid::Uuid;

use crate::model::SourceTable;
use crate::store::NewDeadLetter;

/// The most rows, and about the most bytes of bodies, in one statement.
const CHUNK_ROWS: usize = 1000;
const CHUNK_BYTES: usize = 8 * 1024 * 1024;

/// Rows in the order of their deaths, cut so that no chunk holds two deaths of one message: a later death then finds
/// the earlier ones in the table.
pub(super) fn chunks(rows: Vec<&NewDeadLetter>) -> Vec<Vec<&NewDeadLetter>> {
    let mut deaths: HashMap<(SourceTable, Uuid), usize> = HashMap::new();
    let mut rounds: Vec<Vec<&NewDeadLetter>> = Vec::new();
    for row in rows {
        let death = deaths.entry((row.source_table, row.source_id)).or_default();
        if rounds.len() <= *death {
            rounds.push(Vec::new());
        }
        if let Some(round) = rounds.get_mut(*death) {
            round.push(row);
        }
        *death += 1;
    }
    rounds.into_iter().flat_map(cut).collect()
}

/// Cuts rows into chunks that one statement can carry.
fn cut(rows: Vec<&NewDeadLetter>) -> Vec<Vec<&NewDeadLetter>> {
    let mut chunks = Vec::new();
    let mut chunk = Vec::new();
    let mut bytes = 0;
    for row in rows {
        let size = row.envelope.get().len() + row.metadata.get().len() + row.error_text.as_ref().map_or(0, String::len);
        if !chunk.is_empty() && (chunk.len() >= CHUNK_ROWS || bytes + size > CHUNK_BYTES) {
            chunks.push(std::mem::take(&mut chunk));
            bytes = 0;
        }
        bytes += size;
        chunk.push(row);
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}
