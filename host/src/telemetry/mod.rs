//! What the program tells about itself: metrics, health and logs.
//!
//! [`Metrics`] and [`Health`] are cheap to clone and may be used from any task. A counter moves only after the change
//! it counts has been committed; that is the caller's duty.

pub mod gauges;
pub mod health;
pub mod labels;
pub mod logs;
pub mod metrics;
pub mod timings;
pub mod totals;

pub use gauges::Gauges;
pub use health::{Health, ListenerState, LoadedPolicy, Rejected, Report};
pub use metrics::Metrics;
pub use totals::Totals;
