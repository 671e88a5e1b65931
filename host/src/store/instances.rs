//! The hosts that share a store, as `wh_service_instances` tells of them beside the application's instances.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

/// The service that hosts register as. Rows of any other service are the application's, and are left alone.
pub const SERVICE: &str = "reprieve";

/// How long a host may be silent before it has no place among the others any more.
pub const PRESENT: Duration = Duration::from_secs(90);

/// How long a host may be silent before it counts as dead and any other removes its row.
pub const SILENT: Duration = super::perspective::SILENT;

/// A host's sign of life.
#[derive(Debug, Clone)]
pub struct HostBeat<'a> {
    /// The host: the owner of its batches.
    pub instance_id: Uuid,
    /// The machine.
    pub host_name: &'a str,
    /// The process on it.
    pub process_id: u32,
    /// What else is to be known of it, a JSON object as text.
    pub metadata: &'a str,
    /// The clock; `None` is the database's.
    pub now: Option<Timestamp>,
}

/// A host among those that were heard of within [`PRESENT`], itself included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostPlace {
    /// How many there are.
    pub hosts: u32,
    /// How many of them stand before it: those with smaller ids, which are the older ones.
    pub before: u32,
}
