//! A step allocates nothing: neither on the caller's thread nor on the pool's.

mod tiny;

use enginewright_core::executor::{Batch, Executor, StepKind};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn prefill_and_decode_steps_allocate_nothing() {
    let mut executor = tiny::load(&tiny::kernels(), |plan| plan, 3).unwrap();
    let prefill = Batch {
        kind: StepKind::Prefill,
        token_ids: &[1, 2, 3, 4, 5],
        positions: &[0, 1, 2, 0, 1],
        slots: &[0, 0, 0, 2, 2],
        starts: &[0, 3, 5],
        selected_rows: &[2, 4],
    };
    let decode = Batch {
        kind: StepKind::Decode,
        token_ids: &[6, 7],
        positions: &[3, 2],
        slots: &[0, 2],
        starts: &[0, 1, 2],
        selected_rows: &[0, 1],
    };
    // The first step may set up what the system keeps for a thread.
    executor.step(&prefill).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(before > 0, "the counter counts nothing");
    let mut sum = 0.0;
    for _ in 0..100 {
        sum += executor.step(&prefill).unwrap()[0];
        sum += executor.step(&decode).unwrap()[0];
    }
    let after = ALLOCATIONS.load(Ordering::Relaxed);
    assert!(sum.is_finite());
    assert_eq!(after - before, 0, "200 steps allocated");
}
