//! Signals: LISTEN on a connection of its own that is watched for being half open.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use sqlx::postgres::{PgListener, PgPool, PgPoolOptions};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{interval, sleep, timeout};
use uuid::Uuid;

use super::PostgresStore;
use crate::store::{Result, Signal, StoreError};

/// The channel that applications and hosts notify.
const CHANNEL: &str = "wh_dead_letter_ready";
/// How often the connection has to prove that it is alive, and how long it may take to.
const PULSE: Duration = Duration::from_secs(5);
const PULSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Signals that wait to be read; more of them would say nothing new.
const CAPACITY: usize = 16;

pub(crate) const NOTIFY: &str = "select pg_notify($1, '')";

struct Subscription {
    pool: PgPool,
    pulse_channel: String,
    sender: Sender<Signal>,
}

impl PostgresStore {
    pub(super) async fn subscribe(&self) -> Result<Receiver<Signal>> {
        let (sender, receiver) = channel(CAPACITY);
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(PULSE_TIMEOUT)
            .connect_lazy_with(self.connect_options.clone());
        let pulse_channel = format!("reprieve_pulse_{}", Uuid::now_v7().simple());
        let subscription = Subscription { pool, pulse_channel, sender };
        let listener = timeout(PULSE_TIMEOUT, subscription.listen())
            .await
            .map_err(|_| StoreError::Unavailable {
                store: self.name.clone(),
                problem: format!("no subscription within {} s", PULSE_TIMEOUT.as_secs()),
            })?
            .map_err(|error| self.refused("subscribe to signals", error))?;
        tokio::spawn(subscription.serve(listener));
        Ok(receiver)
    }
}

impl Subscription {
    async fn listen(&self) -> std::result::Result<PgListener, sqlx::Error> {
        let mut listener = PgListener::connect_with(&self.pool).await?;
        listener.listen_all([CHANNEL, self.pulse_channel.as_str()]).await?;
        Ok(listener)
    }

    /// Passes signals on until the receiver is dropped.
    async fn serve(self, mut listener: PgListener) {
        loop {
            let lost = tokio::select! {
                () = self.sender.closed() => return,
                lost = self.pass_on(&mut listener) => lost,
            };
            drop(listener);
            tracing::debug!(problem = %lost, "the subscription ended");
            if self.sender.send(Signal::Lost).await.is_err() {
                return;
            }
            listener = tokio::select! {
                () = self.sender.closed() => return,
                listener = self.restore() => listener,
            };
            if self.sender.send(Signal::Restored).await.is_err() {
                return;
            }
        }
    }

    /// Passes signals on until the connection is lost; what was wrong with it.
    async fn pass_on(&self, listener: &mut PgListener) -> String {
        let mut pulse = interval(PULSE);
        loop {
            tokio::select! {
                _ = pulse.tick() => {
                    if let Err(problem) = self.feel_pulse(listener).await {
                        return problem;
                    }
                }
                received = listener.try_recv() => match received {
                    Ok(Some(notice)) if notice.channel() == CHANNEL => self.ready(),
                    Ok(Some(_)) => {}
                    Ok(None) => return "the server closed the connection".to_owned(),
                    Err(error) => return error.to_string(),
                },
            }
        }
    }

    /// Sends itself a notice and waits for it, passing on the others that come first.
    async fn feel_pulse(&self, listener: &mut PgListener) -> std::result::Result<(), String> {
        let round_trip = async {
            let notify = sqlx::query(NOTIFY).persistent(false).bind(self.pulse_channel.clone());
            notify.execute(&mut *listener).await.map_err(|error| error.to_string())?;
            loop {
                match listener.try_recv().await {
                    Ok(Some(notice)) if notice.channel() == self.pulse_channel => return Ok(()),
                    Ok(Some(_)) => self.ready(),
                    Ok(None) => return Err("the server closed the connection".to_owned()),
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        timeout(PULSE_TIMEOUT, round_trip)
            .await
            .unwrap_or_else(|_| Err(format!("no sign of life within {} s", PULSE_TIMEOUT.as_secs())))
    }

    /// A full channel holds a signal already.
    fn ready(&self) {
        let _ = self.sender.try_send(Signal::Ready);
    }

    async fn restore(&self) -> PgListener {
        let mut waits = ExponentialBuilder::default()
            .with_min_delay(Duration::from_millis(100))
            .with_max_delay(Duration::from_secs(5))
            .without_max_times()
            .with_jitter()
            .build();
        loop {
            match timeout(PULSE_TIMEOUT, self.listen()).await {
                Ok(Ok(listener)) => return listener,
                Ok(Err(error)) => tracing::debug!(%error, "the subscription to signals cannot be restored yet"),
                Err(_) => tracing::debug!("the subscription to signals cannot be restored yet: no answer"),
            }
            sleep(waits.next().unwrap_or(PULSE)).await;
        }
    }
}
