//! Where an instance's strings are, so that answering about one entry does not make its memory grow.
//!
//! A host that takes a fresh instance for each entry has the system open the pages that a memory grows by and close them
//! again, which costs more than the answers do. So the first allocations come out of an arena that the memory has from
//! the start, and only what does not fit makes it grow.

use std::alloc::{GlobalAlloc, Layout, System};

use talc::wasm::{WasmArenaTalc, new_wasm_arena_allocator};

/// The bytes of the arena. An entry of ordinary size takes a few thousand, and gives them back after each question.
const SIZE: usize = 128 << 10;

static mut BYTES: [u8; SIZE] = [0; SIZE];

// SAFETY: nothing else touches the bytes.
static ARENA: WasmArenaTalc = unsafe { new_wasm_arena_allocator(&raw mut BYTES) };

/// The arena, and the system where that is full.
struct ArenaFirst;

#[global_allocator]
static ALLOCATOR: ArenaFirst = ArenaFirst;

fn is_in_arena(block: *mut u8) -> bool {
    block.addr().wrapping_sub((&raw const BYTES).addr()) < SIZE
}

// SAFETY: a block comes from one of two allocators, goes back to the one whose bytes it lies in, and is not moved from
// one to the other but by the default `realloc`, which copies.
unsafe impl GlobalAlloc for ArenaFirst {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout is passed on as it is.
        let block = unsafe { ARENA.alloc(layout) };
        // SAFETY: as above.
        if block.is_null() { unsafe { System.alloc(layout) } } else { block }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's block came from the allocator that it goes back to, with this layout.
        unsafe { if is_in_arena(block) { ARENA.dealloc(block, layout) } else { System.dealloc(block, layout) } }
    }
}
