//! A step that only decodes allocates nothing in this crate.

use enginewright_core::error::EngineError;
use enginewright_core::executor::{Batch, Executor, Limits};
use enginewright_core::sampling::Sampling;
use enginewright_core::scheduler::Scheduler;
use enginewright_core::session::{Event, Generation, Job, Sink, Work};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: hands everything to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const VOCABULARY: usize = 3000;

struct Rotating(Vec<f32>);

impl Executor for Rotating {
    fn limits(&self) -> Limits {
        Limits {
            prefill_rows: 8,
            decode_rows: 4,
            prefill_selected: 4,
            slots: 4,
            context: 100,
            output_width: VOCABULARY,
        }
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        self.0.rotate_right(1);
        Ok(&self.0[..batch.selected_rows.len() * VOCABULARY])
    }
}

struct Counted(usize);

impl Sink for Counted {
    fn tell(&mut self, event: Event) -> bool {
        self.0 += usize::from(matches!(event, Event::Token { .. }));
        true
    }

    fn is_open(&self) -> bool {
        true
    }
}

#[test]
fn steady_decode_steps_allocate_nothing() {
    let logits = (0..4 * VOCABULARY).map(|i| ((i * 37) % 1009) as f32 / 200.0).collect();
    let mut scheduler = Scheduler::new(Rotating(logits));
    let greedy = Sampling::greedy();
    let settings = [
        greedy.clone(),
        Sampling { temperature: 0.8, seed: 1, ..greedy.clone() },
        Sampling { temperature: 1.0, top_p: 0.9, min_p: 0.01, seed: 2, ..greedy.clone() },
        Sampling { temperature: 1.0, top_k: 40, bias: vec![(3, 1.0)], seed: 3, ..greedy },
    ];
    for sampling in settings {
        let generation = Generation {
            prompt: vec![1, 2, 3],
            most_tokens: 60,
            sampling,
            end_ids: vec![],
            score_top: None,
            score_prompt: false,
        };
        scheduler.admit(Job { work: Work::Generate(generation), sink: Box::new(Counted(0)) });
    }
    for _ in 0..5 {
        scheduler.turn();
    }
    let (allocations, tokens) = (ALLOCATIONS.load(Ordering::Relaxed), scheduler.counts().generated_tokens);
    for _ in 0..20 {
        assert!(scheduler.turn());
    }
    assert_eq!(scheduler.counts().generated_tokens - tokens, 80);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), allocations);
}
