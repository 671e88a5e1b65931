//! How wasmtime is set up.

use wasmtime::{Cache, CacheConfig, Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::Limits;

/// How many component instances there may be at a time.
pub const POOL_INSTANCES: u32 = 160;
/// What a memory keeps in RAM after use, so that the next instance does not fault it in again.
const KEPT_OF_MEMORY: usize = 256 << 10;
const KEPT_OF_TABLE: usize = 16 << 10;
/// Stack that the host's own code needs while a guest calls it.
const HOST_STACK: usize = 1 << 20;

/// An engine with a pool; on a system without the address space for one, an engine that allocates on demand.
///
/// # Errors
///
/// wasmtime does not take either.
pub fn engine(limits: &Limits, cache: Option<&Cache>) -> wasmtime::Result<Engine> {
    let mut pooled = common(limits, cache);
    pooled.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    Engine::new(&pooled).or_else(|reason| {
        tracing::warn!(reason = %reason, "no pool of policy instances: allocating on demand");
        let mut on_demand = common(limits, cache);
        on_demand.memory_reservation(limits.memory_bytes as u64).memory_guard_size(64 << 10);
        Engine::new(&on_demand)
    })
}

/// wasmtime's cache in a folder.
///
/// # Errors
///
/// wasmtime cannot use the folder.
pub fn cache(folder: std::path::PathBuf) -> wasmtime::Result<Cache> {
    let mut config = CacheConfig::new();
    config.with_directory(folder);
    Cache::new(config)
}

fn common(limits: &Limits, cache: Option<&Cache>) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .max_wasm_stack(limits.stack_bytes)
        .async_stack_size(limits.stack_bytes + HOST_STACK)
        // The same entry gets the same answer on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .cache(cache.cloned());
    config
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let each = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let all = |count: usize| each(count).saturating_mul(POOL_INSTANCES);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(POOL_INSTANCES)
        .total_core_instances(all(limits.instances))
        .total_memories(all(limits.memories))
        .total_tables(all(limits.tables))
        .total_stacks(POOL_INSTANCES)
        .max_core_instances_per_component(each(limits.instances))
        .max_memories_per_component(each(limits.memories))
        .max_tables_per_component(each(limits.tables))
        .max_memory_size(limits.memory_bytes.next_multiple_of(64 << 10))
        .table_elements(limits.table_elements)
        .max_unused_warm_slots(16)
        .linear_memory_keep_resident(KEPT_OF_MEMORY)
        .table_keep_resident(KEPT_OF_TABLE)
        .pagemap_scan(Enabled::Auto);
    pool
}
