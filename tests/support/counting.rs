//! An allocator that counts its calls while a thread is inside `watched`. A test binary with this module has it as its
//! own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Per thread: other tests, and the harness's own thread, allocate as they like.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    if INSIDE.get() {
        CALLS.set(CALLS.get() + 1);
    }
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls `f`; what it asks of the allocator is counted.
pub fn watched(f: impl FnOnce()) {
    INSIDE.set(true);
    f();
    INSIDE.set(false);
}

/// Calls of the allocator counted so far on this thread: allocations, frees and changes of size.
pub fn calls() -> u64 {
    CALLS.get()
}

/// Else a test that finds nothing would say nothing.
#[test]
fn what_is_allocated_inside_is_counted_and_nothing_else() {
    let kept = Box::new(1);
    let before = calls();
    std::hint::black_box(vec![1, 2, 3]);
    assert_eq!(calls(), before, "outside");
    watched(|| drop(std::hint::black_box(kept)));
    assert!(calls() > before, "inside");
}
