//! The order in which messages come back to the outbox.

use uuid::Uuid;

use super::Backend;

/// From now on the database writes down each message that is put into the outbox.
pub async fn watch_arrivals(store: &Backend) {
    let sql = if store.is_postgres() {
        "create table arrivals (n bigserial primary key, message_id uuid not null);
         create function arrive() returns trigger language plpgsql as $$
         begin insert into arrivals (message_id) values (new.message_id); return null; end $$;
         create trigger arrive after insert on wh_outbox for each row execute function arrive()"
    } else {
        "create table arrivals (n integer primary key autoincrement, message_id text not null);
         create trigger arrive after insert on wh_outbox
         begin insert into arrivals (message_id) values (new.message_id); end"
    };
    store.execute(sql).await;
}

/// What has come back since [`watch_arrivals`], in the order in which it came: each the `n` of its message.
pub async fn arrivals(store: &Backend) -> Vec<u64> {
    let rows = store.query("select message_id from arrivals order by n").await;
    rows.iter()
        .map(|row| {
            let id: Uuid = row["message_id"].as_str().unwrap().parse().unwrap();
            u64::try_from(id.as_u128() & 0xffff_ffff_ffff).unwrap()
        })
        .collect()
}
