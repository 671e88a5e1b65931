//! WASI 0.2 with nothing in it: no files, network, arguments or environment; time that stands still at the scan's
//! `now` and random numbers that are the same each time, so that the same entry gets the same answer.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder};

/// How many bytes there are before the random numbers repeat.
const RANDOM_BYTES: usize = 4096;
const SEED: u64 = 0x5EED_0FAC_AB1E_5EED;
/// The most random bytes that one call may ask for.
const MAX_RANDOM: u64 = 64 << 10;

/// Made once: a context is made for every instance, and most guests never ask.
static SECURE: LazyLock<Vec<u8>> = LazyLock::new(|| random_bytes(SEED));
static INSECURE: LazyLock<Vec<u8>> = LazyLock::new(|| random_bytes(!SEED));

/// The context of one session.
pub fn empty_context(now_ms: u64, output: &Captured) -> WasiCtx {
    WasiCtxBuilder::new()
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .wall_clock(Fixed(Duration::from_millis(now_ms)))
        .monotonic_clock(Fixed(Duration::ZERO))
        .secure_random(Deterministic::new(SECURE.clone()))
        .insecure_random(Deterministic::new(INSECURE.clone()))
        .insecure_random_seed(u128::from(SEED))
        .max_random_size(MAX_RANDOM)
        .stdout(output.clone())
        .stderr(output.clone())
        .build()
}

/// Splitmix64: well spread bytes from a seed.
fn random_bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
    .take(RANDOM_BYTES / 8)
    .flat_map(u64::to_le_bytes)
    .collect()
}

struct Fixed(Duration);

impl HostWallClock for Fixed {
    fn resolution(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn now(&self) -> Duration {
        self.0
    }
}

impl HostMonotonicClock for Fixed {
    fn resolution(&self) -> u64 {
        1_000_000
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// What guests wrote to stdout and stderr; what is more than its bound is dropped.
#[derive(Debug, Clone)]
pub struct Captured {
    bytes: Arc<Mutex<Vec<u8>>>,
    most: usize,
}

impl Captured {
    /// Nothing written yet, and at most so many bytes.
    pub fn new(most: usize) -> Self {
        Self { bytes: Arc::default(), most }
    }

    /// What was written since the last call.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        (!bytes.is_empty()).then(|| std::mem::take(&mut *bytes))
    }

    fn add(&self, written: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.most.saturating_add(1).saturating_sub(bytes.len());
        bytes.extend(written.iter().take(free));
    }
}

impl IsTerminal for Captured {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Captured {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for Captured {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.add(buffer);
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_beyond_its_bound_is_dropped() {
        let output = Captured::new(3);
        output.add(b"ab");
        output.add(b"cdef");
        assert_eq!(output.take().as_deref(), Some(&b"abcd"[..]));
        assert_eq!(output.take(), None);
    }

    #[test]
    fn random_bytes_are_the_same_each_time() {
        assert_eq!(random_bytes(SEED), random_bytes(SEED));
        assert_ne!(random_bytes(SEED), random_bytes(!SEED));
    }
}
