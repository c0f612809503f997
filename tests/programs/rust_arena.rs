// SPDX-License-Identifier: Apache-2.0
// A program whose global allocator no other name shows: a bump allocator on mmap.
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

const ARENA_BYTES: usize = 1 << 28;

struct Bump;

static NEXT: AtomicUsize = AtomicUsize::new(0);
static UNUSED: AtomicUsize = AtomicUsize::new(0);

extern "C" {
    fn mmap(at: *mut u8, bytes: usize, protection: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
}

unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if NEXT.load(Ordering::Relaxed) == 0 {
            // Read and write; private, anonymous.
            let start = mmap(std::ptr::null_mut(), ARENA_BYTES, 3, 0x22, -1, 0) as usize;
            let _ = NEXT.compare_exchange(0, start, Ordering::Relaxed, Ordering::Relaxed);
        }
        // All alignments are multiples of 64.
        let bytes = (layout.size() + 63) & !63;
        NEXT.fetch_add(bytes, Ordering::Relaxed) as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, layout: Layout) {
        UNUSED.fetch_add(layout.size(), Ordering::Relaxed);
    }
}

#[global_allocator]
static ALLOCATOR: Bump = Bump;

include!("rust_calls.rs");
