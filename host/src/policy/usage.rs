//! What the guests of one session use, held against the limits.

use wasmtime::ResourceLimiter;

use super::Limits;

/// A guest wanted more than its limits allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitReached {
    /// Linear memory.
    #[error("needs {wanted} bytes of memory, allowed are {allowed}")]
    Memory {
        /// What it would use in all.
        wanted: usize,
        /// The limit.
        allowed: usize,
    },
    /// A table.
    #[error("needs a table of {wanted} elements, allowed are {allowed}")]
    Table {
        /// The elements it would have.
        wanted: usize,
        /// The limit.
        allowed: usize,
    },
}

/// Counts what the members of a chain use together.
#[derive(Debug)]
pub struct Usage {
    memory_bytes: usize,
    most_memory: usize,
    table_elements: usize,
    instances: usize,
    memories: usize,
    tables: usize,
    last_growth: usize,
    /// The most memory there ever was.
    pub peak_memory_bytes: usize,
}

impl Usage {
    /// Nothing used yet, by a chain of so many members.
    pub fn new(limits: &Limits, members: usize) -> Self {
        Self {
            memory_bytes: 0,
            most_memory: limits.memory_bytes,
            table_elements: limits.table_elements,
            instances: limits.instances.saturating_mul(members),
            memories: limits.memories.saturating_mul(members),
            tables: limits.tables.saturating_mul(members),
            last_growth: 0,
            peak_memory_bytes: 0,
        }
    }
}

impl ResourceLimiter for Usage {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current);
        let wanted = self.memory_bytes.saturating_add(growth);
        if wanted > self.most_memory {
            return Err(LimitReached::Memory { wanted, allowed: self.most_memory }.into());
        }
        self.memory_bytes = wanted;
        self.last_growth = growth;
        self.peak_memory_bytes = self.peak_memory_bytes.max(wanted);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory_bytes = self.memory_bytes.saturating_sub(std::mem::take(&mut self.last_growth));
        Ok(())
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        if desired > self.table_elements {
            return Err(LimitReached::Table { wanted: desired, allowed: self.table_elements }.into());
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.tables
    }

    fn memories(&self) -> usize {
        self.memories
    }
}
