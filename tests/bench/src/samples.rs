//! Medians and spreads.

use std::fmt;
use std::time::Duration;

/// Several measurements of the same thing, in the order in which they were made.
#[derive(Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// One more.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    /// One more time, in milliseconds.
    pub fn add_time(&mut self, time: Duration) {
        self.add(time.as_secs_f64() * 1e3);
    }

    /// Each beside the one of the same turn of something else.
    pub fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(this, other)| this / other).collect())
    }

    /// The value that this share of them stays below.
    pub fn quantile(&self, share: f64) -> f64 {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index into a short list"
        )]
        let index = ((self.0.len() - 1) as f64 * share).round() as usize;
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[index]
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is compared with itself.
        if self.0.iter().all(|value| *value == 1.0) {
            return f.write_str("1");
        }
        let digits = if self.median() < 100.0 { 2 } else { 0 };
        write!(f, "{:.digits$} ({:.digits$} to {:.digits$})", self.median(), self.quantile(0.0), self.quantile(1.0))
    }
}
