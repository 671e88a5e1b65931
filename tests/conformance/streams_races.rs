//! Putting a row off beside an operator who takes the earlier one out of its way, on PostgreSQL, where both can be under
//! way at once.

use reprieve::model::decision::Standing;
use reprieve::model::{Deferral, RecoveryStatus};
use reprieve::store::{Begin, Begun, Ending, Seen, StreamTerms};
use serde_json::json;

use crate::harness::batches::Claimed;
use crate::harness::{Backend, at, backend, claim, ending, id, stream, time_text};

/// The second row of a stream, which a host is about to put off, since the first one sleeps.
async fn claimed_behind(store: &Backend) -> (Claimed, Ending) {
    let asleep = json!({ "stream_id": stream(1), "next_recovery_at": time_text(at(50_000)) });
    store.dead(1, asleep).await;
    store.dead(2, json!({ "stream_id": stream(1) })).await;
    let claimed = claim(&**store, 10, at(100)).await;
    let entry = &claimed.entries()[0];
    let (next_recovery_at, deferral) = (Some(at(50_000)), Some(Deferral::Stream));
    let waits = Standing { status: RecoveryStatus::Pending, next_recovery_at, deferral };
    let seen = Seen { predecessor: Some(id(1)), ..Seen::of(entry) };
    let behind = Ending { seen, ..ending(entry, waits, None) };
    (claimed, behind)
}

/// Gives the first row up in a transaction that is committed once `beside` waits for it, or has been carried out.
async fn given_up_beside<T>(store: &Backend, beside: impl Future<Output = T>) -> T {
    let give_up = format!("select mark_dead_letter_permanently_failed('{}')", id(1));
    let operator = store.transaction(&give_up).await;
    let committing = async {
        store.until_one_waits().await;
        operator.commit().await.unwrap();
    };
    tokio::join!(beside, committing).0
}

#[test]
fn a_row_is_not_put_off_behind_one_that_is_given_up_at_that_moment() {
    backend::on_postgres(async |store| {
        let (claimed, behind) = claimed_behind(&store).await;
        let endings = [behind];
        let streams = StreamTerms::default();
        let begin = Begin { batch_id: claimed.batch_id, recover: &[], endings: &endings, streams, now: Some(at(100)) };

        let begun = given_up_beside(&store, store.begin(&begin)).await.unwrap();

        assert_eq!(begun, Begun::Done { ended: vec![] });
        let letter = store.letter(id(2)).await;
        assert_eq!((letter.deferral, letter.next_recovery_at), (None, None), "it is due still");
    });
}
