//! The scheduler on an executor whose logits depend on a slot's whole history and on nothing else.

use super::*;
use crate::executor::Batch;
use crate::sampling::Sampling;
use std::sync::mpsc::{Receiver, Sender, channel};

const VOCABULARY: usize = 50;

/// Keeps each slot's tokens by position, as a cache does, and hashes what a row may see.
struct Hashing {
    limits: Limits,
    slots: Vec<Vec<u32>>,
    output: Vec<f32>,
    largest_step: usize,
}

fn limits() -> Limits {
    Limits {
        prefill_rows: 7,
        decode_rows: 2,
        prefill_selected: 3,
        slots: 3,
        context: 64,
        output_width: VOCABULARY,
    }
}

impl Hashing {
    fn new() -> Self {
        let limits = limits();
        Self {
            limits,
            slots: vec![vec![0; limits.context]; limits.slots],
            output: Vec::new(),
            largest_step: 0,
        }
    }
}

impl Executor for Hashing {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        let most = match batch.kind {
            StepKind::Prefill => self.limits.prefill_rows,
            StepKind::Decode => self.limits.decode_rows,
            StepKind::Encode => panic!("a decoder was asked to encode"),
        };
        assert!(!batch.token_ids.is_empty() && batch.token_ids.len() <= most);
        assert!(batch.selected_rows.len() <= self.limits.prefill_selected);
        self.largest_step = self.largest_step.max(batch.token_ids.len());
        if batch.token_ids.contains(&49) {
            return Err(EngineError::Batch { reason: "token 49".into() });
        }
        for (row, token) in batch.token_ids.iter().enumerate() {
            self.slots[batch.slots[row] as usize][batch.positions[row] as usize] = *token;
        }
        self.output.clear();
        for row in batch.selected_rows {
            let (slot, position) = (batch.slots[*row as usize], batch.positions[*row as usize]);
            let seen = &self.slots[slot as usize][..=position as usize];
            let hash = seen.iter().fold(17u64, |hash, token| {
                (hash ^ u64::from(*token)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
            });
            let logit = |i: u64| ((hash.wrapping_mul(2 * i + 1) >> 40) % 1000) as f32 / 100.0;
            // Tokens 48 and 49 are never likely: 49 breaks the executor, 48 its output.
            self.output.extend((0..VOCABULARY as u64).map(|i| if i < 48 { logit(i) } else { -50.0 }));
            if seen.contains(&48) {
                *self.output.last_mut().unwrap() = f32::NAN;
            }
        }
        Ok(&self.output)
    }
}

struct Channel(Sender<Event>, std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Sink for Channel {
    fn tell(&mut self, event: Event) -> bool {
        self.0.send(event).is_ok()
    }

    fn is_open(&self) -> bool {
        self.1.load(std::sync::atomic::Ordering::Relaxed)
    }
}

struct Listener {
    events: Receiver<Event>,
    open: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

fn job(generation: Generation) -> (Job, Listener) {
    let (sender, events) = channel();
    let open = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let sink = Box::new(Channel(sender, open.clone()));
    (Job { work: Work::Generate(generation), sink }, Listener { events, open })
}

fn generation(prompt: &[u32], most_tokens: usize, temperature: f32, seed: u64) -> Generation {
    Generation {
        prompt: prompt.to_vec(),
        most_tokens,
        sampling: Sampling { temperature, seed, ..Sampling::greedy() },
        end_ids: vec![],
        score_top: Some(2),
        score_prompt: false,
    }
}

fn tokens(listener: &Listener) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    for event in listener.events.try_iter() {
        match event {
            Event::Token { id, score, .. } => found.push((id, format!("{score:?}"))),
            Event::PromptScore(score) => found.push((score.token.id, format!("{score:?}"))),
            Event::Failed(reason) => panic!("{reason}"),
            Event::Done | Event::Embeddings(_) => {}
        }
    }
    found
}

fn alone(generation: Generation) -> Vec<(u32, String)> {
    let mut scheduler = Scheduler::new(Hashing::new());
    let (job, listener) = job(generation);
    scheduler.admit(job);
    while scheduler.turn() {}
    assert_eq!(scheduler.active(), 0);
    tokens(&listener)
}

#[test]
fn alone_equals_together() {
    let wanted: Vec<Generation> = (0..9u32)
        .map(|n| {
            let prompt: Vec<u32> = (0..=n * 3).map(|i| (i * 7 + n) % 40).collect();
            let mut made = generation(&prompt, 5 + n as usize, n as f32 * 0.3, u64::from(n));
            made.score_prompt = n % 2 == 0;
            made
        })
        .collect();
    let mut scheduler = Scheduler::new(Hashing::new());
    let (mut waiting, listeners): (VecDeque<Job>, Vec<Listener>) = wanted.iter().cloned().map(job).unzip();
    loop {
        while scheduler.has_room() && !waiting.is_empty() {
            scheduler.admit(waiting.pop_front().unwrap());
        }
        if !scheduler.turn() {
            break;
        }
    }
    assert!(scheduler.executor.largest_step > 2, "nothing was ever together");
    for (generation, listener) in wanted.into_iter().zip(&listeners) {
        assert_eq!(alone(generation), tokens(listener));
    }
}

#[test]
fn the_same_seed_gives_the_same_tokens_and_another_seed_others() {
    let with = |seed| alone(generation(&[1, 2, 3], 20, 1.5, seed));
    assert_eq!(with(4), with(4));
    assert_ne!(with(4), with(5));
}

#[test]
fn every_prompt_token_but_the_first_is_scored() {
    let mut wanted = generation(&[3, 1, 4, 1, 5, 9, 2, 6], 0, 0.0, 0);
    wanted.score_prompt = true;
    let ids: Vec<u32> = alone(wanted).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, [1, 4, 1, 5, 9, 2, 6]);
}

#[test]
fn an_end_token_ends_the_generation_and_is_emitted() {
    let free = alone(generation(&[1, 2], 10, 0.0, 0));
    let end = free[3].0;
    let first = free.iter().position(|(id, _)| *id == end).unwrap();
    let mut wanted = generation(&[1, 2], 10, 0.0, 0);
    wanted.end_ids = vec![end];
    assert_eq!(alone(wanted), free[..=first]);
}

#[test]
fn a_listener_that_goes_away_frees_its_slot() {
    let mut scheduler = Scheduler::new(Hashing::new());
    let mut listeners = Vec::new();
    for n in 0..3 {
        let (job, listener) = job(generation(&[n + 1], 60, 0.0, 0));
        scheduler.admit(job);
        listeners.push(listener);
    }
    scheduler.turn();
    assert!(!scheduler.has_room());
    listeners[1].open.store(false, std::sync::atomic::Ordering::Relaxed);
    scheduler.turn();
    assert!(scheduler.has_room());
    assert_eq!(scheduler.counts().cancelled, 1);
}

#[test]
fn a_refused_step_ends_its_sessions_with_the_reason() {
    let mut scheduler = Scheduler::new(Hashing::new());
    let (bad, listener) = job(generation(&[49], 3, 0.0, 0));
    scheduler.admit(bad);
    while scheduler.turn() {}
    let events: Vec<Event> = listener.events.try_iter().collect();
    assert!(matches!(&events[..], [Event::Failed(reason)] if reason.contains("token 49")));
    assert_eq!(scheduler.active(), 0);
    assert!(scheduler.has_room());
}

#[test]
fn more_than_the_context_is_refused() {
    let mut scheduler = Scheduler::new(Hashing::new());
    let (long, listener) = job(generation(&[1; 60], 5, 0.0, 0));
    scheduler.admit(long);
    let events: Vec<Event> = listener.events.try_iter().collect();
    assert!(matches!(&events[..], [Event::Failed(reason)] if reason.contains("64")), "{events:?}");
}

#[test]
fn all_sessions_get_their_turn_when_a_decode_step_holds_fewer() {
    let mut scheduler = Scheduler::new(Hashing::new());
    let listeners: Vec<Listener> = (0..3)
        .map(|n| {
            let (job, listener) = job(generation(&[n + 1], 30, 0.0, 0));
            scheduler.admit(job);
            listener
        })
        .collect();
    for _ in 0..13 {
        scheduler.turn();
    }
    let counts: Vec<usize> = listeners.iter().map(|listener| tokens(listener).len()).collect();
    assert!(counts.iter().all(|count| (8..=11).contains(count)), "{counts:?}");
}

#[test]
fn an_output_that_is_no_number_ends_its_session_alone() {
    let mut scheduler = Scheduler::new(Hashing::new());
    let (bad, broken) = job(generation(&[1, 48, 2], 3, 0.0, 0));
    let (good, sound) = job(generation(&[1, 2], 3, 0.0, 0));
    scheduler.admit(bad);
    scheduler.admit(good);
    while scheduler.turn() {}
    let events: Vec<Event> = broken.events.try_iter().collect();
    assert!(matches!(&events[..], [Event::Failed(reason)] if reason.contains("not finite")), "{events:?}");
    assert_eq!(tokens(&sound).len(), 3);
    assert_eq!(scheduler.active(), 0);
}

/// Embeds a sequence as its first token and its length.
struct Embedder(Vec<f32>);

impl Executor for Embedder {
    fn limits(&self) -> Limits {
        let (decode_rows, slots, prefill_selected) = (0, 0, 8);
        Limits { prefill_rows: 8, decode_rows, prefill_selected, slots, context: 20, output_width: 2 }
    }

    fn step(&mut self, batch: &Batch<'_>) -> Result<&[f32], EngineError> {
        assert!(batch.token_ids.len() <= 8 && batch.kind == StepKind::Encode);
        self.0.clear();
        for ends in batch.starts.windows(2) {
            let first = batch.token_ids[ends[0] as usize];
            self.0.extend([if first == 99 { f32::NAN } else { first as f32 }, (ends[1] - ends[0]) as f32]);
        }
        Ok(&self.0)
    }
}

fn embed(jobs: &[&[&[u32]]]) -> Vec<Vec<Event>> {
    let mut scheduler = Scheduler::new(Embedder(Vec::new()));
    let listeners: Vec<Listener> = jobs
        .iter()
        .map(|sequences| {
            let (mut job, listener) = job(generation(&[1], 1, 0.0, 0));
            job.work = Work::Embed(sequences.iter().map(|sequence| sequence.to_vec()).collect());
            scheduler.admit(job);
            listener
        })
        .collect();
    while scheduler.turn() {}
    assert_eq!(scheduler.active(), 0);
    listeners.iter().map(|listener| listener.events.try_iter().collect()).collect()
}

#[test]
fn jobs_that_embed_share_steps_and_keep_their_order() {
    let told = embed(&[&[&[1; 5], &[2; 2]], &[&[3; 8]], &[&[4], &[5; 3], &[6; 7]]]);
    let vectors: Vec<Vec<Vec<f32>>> = told
        .into_iter()
        .map(|mut events| match events.remove(0) {
            Event::Embeddings(vectors) => vectors,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(vectors[0], [[1.0, 5.0], [2.0, 2.0]]);
    assert_eq!(vectors[1], [[3.0, 8.0]]);
    assert_eq!(vectors[2], [[4.0, 1.0], [5.0, 3.0], [6.0, 7.0]]);
}

#[test]
fn a_sequence_that_no_step_holds_is_refused_and_one_without_numbers_fails_once() {
    let told = embed(&[&[&[1; 9]], &[&[99], &[99], &[2]], &[&[3]]]);
    assert!(matches!(&told[0][..], [Event::Failed(_)]), "{told:?}");
    assert!(matches!(&told[1][..], [Event::Failed(reason)] if reason.contains("not finite")), "{told:?}");
    assert!(matches!(&told[2][..], [Event::Embeddings(_)]), "{told:?}");
}
