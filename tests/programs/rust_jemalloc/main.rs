// SPDX-License-Identifier: Apache-2.0
// A program with jemalloc linked into it, by the crate of jemalloc's functions.
use std::alloc::{GlobalAlloc, Layout};

struct Jemalloc;

fn flags(layout: &Layout) -> i32 {
    jemalloc_sys::MALLOCX_ALIGN(layout.align()) as i32
}

unsafe impl GlobalAlloc for Jemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        jemalloc_sys::mallocx(layout.size(), flags(&layout)) as *mut u8
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        jemalloc_sys::calloc(1, layout.size()) as *mut u8
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        jemalloc_sys::sdallocx(block as *mut _, layout.size(), flags(&layout))
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        jemalloc_sys::rallocx(block as *mut _, size, flags(&layout)) as *mut u8
    }
}

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

include!("../rust_calls.rs");
