//! What can be seen of a store from outside, and what must hold from one look to the next.

use uuid::Uuid;

use crate::harness::{Backend, arrivals, source};

/// A dead letter.
#[derive(Debug, Clone)]
pub struct Letter {
    pub id: Uuid,
    pub message: u64,
    pub stream: String,
    pub incarnation: i64,
    status: i64,
    disposition: i64,
    place: (String, String, String),
}

impl Letter {
    pub fn is_open(&self) -> bool {
        self.status < 2 && self.disposition < 2
    }

    pub fn is_held(&self) -> bool {
        self.status < 3 && self.disposition != 3 && (self.status == 2 || self.disposition == 2)
    }
}

/// A look at the tables.
#[derive(Debug, Clone)]
pub struct Seen {
    pub letters: Vec<Letter>,
    pub arrivals: Vec<u64>,
    outbox: Vec<String>,
}

impl Seen {
    pub async fn of(store: &Backend) -> Self {
        let rows = store.query("select * from wh_dead_letters order by dead_letter_id").await;
        let letters = rows.iter().map(|row| {
            let text = |column: &str| row[column].as_str().unwrap().to_owned();
            let number = |column: &str| row[column].as_i64().unwrap();
            let message = Uuid::parse_str(&text("source_id")).unwrap().as_u128() & 0xffff_ffff_ffff;
            Letter {
                id: text("dead_letter_id").parse().unwrap(),
                message: message.try_into().unwrap(),
                stream: text("stream_id"),
                incarnation: number("incarnation"),
                status: number("recovery_status"),
                disposition: number("operator_disposition"),
                place: (text("source_created_at"), text("source_id"), text("dead_letter_id")),
            }
        });
        let outbox = store.query("select message_id from wh_outbox").await;
        let outbox = outbox.iter().map(|row| row["message_id"].as_str().unwrap().to_owned()).collect();
        Self { letters: letters.collect(), arrivals: arrivals(store).await, outbox }
    }

    /// The newest death of a message.
    pub fn newest(&self, message: u64) -> Option<&Letter> {
        self.letters.iter().filter(|letter| letter.message == message).max_by_key(|letter| letter.incarnation)
    }

    fn now(&self, then: &Letter) -> Option<&Letter> {
        self.letters.iter().find(|letter| letter.id == then.id)
    }
}

/// Nothing vanishes, and what counts as recovered is in its table.
pub fn nothing_is_lost(before: &Seen, after: &Seen) -> Result<(), String> {
    if before.letters.len() > after.letters.len() {
        return Err("a dead letter vanished".to_owned());
    }
    for letter in after.letters.iter().filter(|letter| letter.status == 3) {
        let newest = after.newest(letter.message).map(|newest| newest.id);
        if newest == Some(letter.id) && !after.outbox.contains(&source(letter.message).to_string()) {
            return Err(format!("{letter:?} counts as recovered and is not in its table"));
        }
    }
    Ok(())
}

/// What hosts have brought back between two looks came back in the order of its stream, and past nothing that was open
/// then and is now, or with `held_blocks` was held then and is now.
pub fn order_is_kept(before: &Seen, after: &Seen, held_blocks: bool) -> Result<(), String> {
    let arrived = &after.arrivals[before.arrivals.len()..];
    let place = |message: u64| arrived.iter().position(|arrival| *arrival == message);
    for (at, message) in arrived.iter().enumerate() {
        let letter = before.newest(*message).ok_or_else(|| format!("{message} came back and was not dead"))?;
        let earlier = before.letters.iter().filter(|other| other.stream == letter.stream && other.place < letter.place);
        for other in earlier.filter(|other| before.newest(other.message).map(|newest| newest.id) == Some(other.id)) {
            let now = after.now(other).ok_or("it vanished")?;
            let stands = |open: &dyn Fn(&Letter) -> bool| open(other) && open(now);
            if stands(&Letter::is_open) || held_blocks && stands(&Letter::is_held) {
                return Err(format!("{letter:?} came back past {other:?}"));
            }
            if place(other.message).is_some_and(|other| other > at) {
                return Err(format!("{message} came back before {}: {arrived:?}", other.message));
            }
        }
    }
    Ok(())
}
