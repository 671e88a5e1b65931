//! The events of the shop, and what its builds make of them.

use async_trait::async_trait;
use reprieve::perspective::{Apply, ApplyError};
use reprieve::store::perspective::{ClaimedEvent, StoredEvent};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::read_model::ReadModel;

/// An event to be stored.
pub struct NewEvent {
    pub stream_id: Uuid,
    pub data: String,
}

/// Three orders, their events mixed.
pub fn events() -> Vec<NewEvent> {
    let [ada, grace, edsger] = [("Ada", Uuid::now_v7()), ("Grace", Uuid::now_v7()), ("Edsger", Uuid::now_v7())];
    let added = |(customer, stream_id): (&str, Uuid), cents: Value| NewEvent {
        stream_id,
        data: json!({"customer": customer, "cents": cents}).to_string(),
    };
    vec![
        added(ada, json!(1250)),
        added(grace, json!(400)),
        added(edsger, json!(990)),
        // As an older client wrote it.
        added(grace, json!("12.50")),
        added(ada, json!(300)),
        added(grace, json!(75)),
        added(edsger, json!(10)),
        added(grace, json!(2000)),
    ]
}

/// A build of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Reads amounts in cents.
    First,
    /// Reads amounts in units, written as text, too.
    Second,
}

impl Build {
    /// What its dead letters are tagged with.
    pub const fn generation(self) -> &'static str {
        match self {
            Self::First => "shop-1.0.0",
            Self::Second => "shop-2.0.0",
        }
    }

    fn cents(self, amount: &Value) -> Option<i64> {
        match (self, amount) {
            (Self::Second, Value::String(text)) => {
                let (units, cents) = text.split_once('.')?;
                Some(units.parse::<i64>().ok()? * 100 + cents.parse::<i64>().ok()?)
            }
            _ => amount.as_i64(),
        }
    }
}

/// A line of an order, as the program works with it.
pub struct LineAdded {
    pub customer: String,
    pub cents: i64,
}

#[derive(Deserialize)]
struct Body {
    customer: String,
    cents: Value,
}

/// What keeps the read model.
pub struct Totals {
    pub model: ReadModel,
    pub build: Build,
}

#[async_trait]
impl Apply for Totals {
    type Event = LineAdded;

    fn deserialize(&self, event: &StoredEvent) -> Result<LineAdded, ApplyError> {
        let body: Body = serde_json::from_str(&event.event_data).map_err(ApplyError::unreadable)?;
        let cents = self.build.cents(&body.cents);
        let cents = cents.ok_or_else(|| ApplyError::unreadable(format!("{} is no amount in cents", body.cents)))?;
        Ok(LineAdded { customer: body.customer, cents })
    }

    async fn apply(&self, row: &ClaimedEvent, event: &LineAdded) -> Result<(), ApplyError> {
        // An event may come twice: the read model knows which it has.
        self.model.add(row.event_id, event).await.map_err(ApplyError::other)
    }
}
