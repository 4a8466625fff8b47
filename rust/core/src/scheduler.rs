//! Continuous batching: sessions share steps, and no session's answers depend on its company.
//!
//! Prompts run through `Prefill` steps and generated tokens through `Decode` steps, in turn, so that a long prompt
//! holds up running generations by one chunk at a time.

use crate::error::EngineError;
use crate::executor::{Executor, Limits, StepKind};
use crate::sampling::{Sampler, all_finite};
use crate::scheduler_rows::Rows;
use crate::session::{Event, Finish, Generation, Job, Session, Sink, Work};
use std::collections::VecDeque;

/// Sequences waiting to be embedded for one job, and what came back.
struct Embedding {
    sequences: Vec<Vec<u32>>,
    done: Vec<Vec<f32>>,
    sink: Box<dyn Sink>,
}

impl Embedding {
    /// Ends the job with a reason, once; it counts as done and leaves the queue.
    fn fail(&mut self, reason: &str) {
        if self.done.len() < self.sequences.len() {
            self.sink.tell(Event::Failed(reason.into()));
            self.done.resize(self.sequences.len(), Vec::new());
        }
    }
}

/// How much work has been done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Prompt tokens run.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Jobs whose listener went away before the end.
    pub cancelled: u64,
}

/// Runs jobs on an executor.
pub struct Scheduler<E: Executor> {
    executor: E,
    limits: Limits,
    sampler: Sampler,
    sessions: Vec<Session>,
    embeddings: VecDeque<Embedding>,
    free_slots: Vec<u32>,
    /// The next decode step starts with this session, so that all get their turn.
    next: usize,
    rows: Rows,
    counts: Counts,
}

impl<E: Executor> Scheduler<E> {
    /// A scheduler without jobs.
    pub fn new(executor: E) -> Self {
        let limits = executor.limits();
        Self {
            executor,
            limits,
            sampler: Sampler::new(limits.output_width),
            sessions: Vec::with_capacity(limits.slots),
            embeddings: VecDeque::new(),
            free_slots: (0..limits.slots as u32).rev().collect(),
            next: 0,
            rows: Rows::default(),
            counts: Counts::default(),
        }
    }

    /// What the plan has room for.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Work done since the start.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Sessions with a slot, and jobs that embed.
    pub fn active(&self) -> usize {
        self.sessions.len() + self.embeddings.len()
    }

    /// Whether another job may come: a generation needs a slot.
    pub fn has_room(&self) -> bool {
        if self.limits.slots == 0 { self.embeddings.len() < 64 } else { !self.free_slots.is_empty() }
    }

    /// Takes a job. Call only with room.
    pub fn admit(&mut self, job: Job) {
        let Job { work, mut sink } = job;
        if !sink.is_open() {
            self.counts.cancelled += 1;
            return;
        }
        match work {
            Work::Generate(generation) => {
                if let Err(reason) = self.check(&generation) {
                    sink.tell(Event::Failed(reason));
                    return;
                }
                let Some(slot) = self.free_slots.pop() else {
                    sink.tell(Event::Failed("no cache slot is free".into()));
                    return;
                };
                let session = Session { generation, sink, slot, cached: 0, last: 0, generated: 0 };
                self.sessions.push(session);
            }
            Work::Embed(sequences) => {
                // A sequence is embedded in one step.
                let most = self.limits.context.min(self.limits.prefill_rows);
                let fits = |sequence: &Vec<u32>| (1..=most).contains(&sequence.len());
                if self.limits.slots > 0 || !sequences.iter().all(fits) {
                    sink.tell(Event::Failed("the sequences cannot be embedded by this engine".into()));
                    return;
                }
                self.embeddings.push_back(Embedding { sequences, done: Vec::new(), sink });
            }
        }
    }

    fn check(&self, generation: &Generation) -> Result<(), String> {
        let (prompt, most) = (generation.prompt.len(), generation.most_tokens);
        if self.limits.slots == 0 {
            return Err("this engine embeds; it does not generate".into());
        }
        if prompt == 0 || prompt.saturating_add(most) > self.limits.context {
            return Err(format!(
                "{prompt} prompt tokens and {most} to generate; the context holds {}",
                self.limits.context
            ));
        }
        Ok(())
    }

    /// Runs at most one step of each kind. False if there was nothing to do.
    pub fn turn(&mut self) -> bool {
        self.drop_abandoned();
        let embedded = self.embed();
        let prefilled = self.prefill();
        let decoded = self.decode();
        embedded || prefilled || decoded
    }

    fn drop_abandoned(&mut self) {
        for index in (0..self.sessions.len()).rev() {
            if !self.sessions[index].sink.is_open() {
                self.counts.cancelled += 1;
                self.remove(index);
            }
        }
        let before = self.embeddings.len();
        self.embeddings.retain(|embedding| embedding.sink.is_open());
        self.counts.cancelled += (before - self.embeddings.len()) as u64;
    }

    fn remove(&mut self, index: usize) {
        let session = self.sessions.remove(index);
        self.free_slots.push(session.slot);
        if self.next > index {
            self.next -= 1;
        }
    }

    /// Ends every session of the step that failed.
    fn fail(&mut self, error: &EngineError) {
        let mut indices: Vec<usize> = self.rows.parts.iter().map(|(session, _)| *session).collect();
        indices.sort_unstable();
        for index in indices.into_iter().rev() {
            self.sessions[index].sink.tell(Event::Failed(error.to_string()));
            self.remove(index);
        }
    }

    fn prefill(&mut self) -> bool {
        let rows = &mut self.rows;
        rows.clear();
        for (index, session) in self.sessions.iter().enumerate() {
            let room = self.limits.prefill_rows - rows.token_ids.len();
            let wanted = self.limits.prefill_selected - rows.selected.len();
            if session.decodes() || room == 0 || wanted == 0 {
                continue;
            }
            let prompt = &session.generation.prompt;
            let mut count = room.min(prompt.len() - session.cached);
            if session.generation.score_prompt {
                count = count.min(wanted);
            }
            let end = session.cached + count;
            let first_selected = if session.generation.score_prompt {
                session.cached
            } else if end == prompt.len() {
                end - 1
            } else {
                end
            };
            for (position, token) in (session.cached..).zip(&prompt[session.cached..end]) {
                if position >= first_selected {
                    rows.selected.push(rows.token_ids.len() as u32);
                }
                rows.push(*token, position, session.slot);
            }
            rows.close(index, end - first_selected);
        }
        if rows.parts.is_empty() {
            return false;
        }
        self.counts.prompt_tokens += rows.token_ids.len() as u64;
        match self.executor.step(&rows.batch(StepKind::Prefill)) {
            Ok(logits) => {
                let width = self.limits.output_width;
                let mut output = logits.chunks_exact(width);
                for (part, (index, selected)) in rows.parts.iter().enumerate() {
                    let session = &mut self.sessions[*index];
                    session.cached += (rows.starts[part + 1] - rows.starts[part]) as usize;
                    for left in (0..*selected).rev() {
                        let Some(logits) = output.next() else { break };
                        let position = session.cached - 1 - left;
                        after_prompt_row(session, position, logits, &mut self.sampler, &mut self.counts);
                    }
                }
                self.sweep();
            }
            Err(error) => self.fail(&error),
        }
        true
    }

    fn decode(&mut self) -> bool {
        let rows = &mut self.rows;
        rows.clear();
        let count = self.sessions.len();
        let most = self.limits.decode_rows;
        let start = if count == 0 { 0 } else { self.next % count };
        for index in (0..count).map(|offset| (start + offset) % count) {
            let session = &self.sessions[index];
            if !session.decodes() {
                continue;
            }
            if rows.parts.len() == most {
                self.next = index;
                break;
            }
            rows.selected.push(rows.token_ids.len() as u32);
            rows.push(session.last, session.position(), session.slot);
            rows.close(index, 1);
        }
        if rows.parts.is_empty() {
            return false;
        }
        match self.executor.step(&rows.batch(StepKind::Decode)) {
            Ok(logits) => {
                let output = logits.chunks_exact(self.limits.output_width);
                for ((index, _), logits) in rows.parts.iter().zip(output) {
                    let session = &mut self.sessions[*index];
                    if all_finite(logits) {
                        emit(session, logits, &mut self.sampler, &mut self.counts);
                    } else {
                        session.sink.tell(Event::Failed(NOT_FINITE.into()));
                        session.generation.most_tokens = ENDED;
                    }
                }
                self.sweep();
            }
            Err(error) => self.fail(&error),
        }
        true
    }

    /// Removes the sessions that ended and frees their slots.
    fn sweep(&mut self) {
        for index in (0..self.sessions.len()).rev() {
            if self.sessions[index].generation.most_tokens == ENDED {
                self.remove(index);
            }
        }
    }

    fn embed(&mut self) -> bool {
        let rows = &mut self.rows;
        rows.clear();
        'jobs: for (job, embedding) in self.embeddings.iter().enumerate() {
            for sequence in &embedding.sequences[embedding.done.len()..] {
                if rows.token_ids.len() + sequence.len() > self.limits.prefill_rows {
                    break 'jobs;
                }
                for (position, token) in sequence.iter().enumerate() {
                    rows.push(*token, position, 0);
                }
                rows.close(job, 0);
            }
        }
        if rows.parts.is_empty() {
            return false;
        }
        self.counts.prompt_tokens += rows.token_ids.len() as u64;
        match self.executor.step(&rows.batch(StepKind::Encode)) {
            Ok(output) => {
                let vectors = output.chunks_exact(self.limits.output_width);
                for ((job, _), vector) in rows.parts.iter().zip(vectors) {
                    let embedding = &mut self.embeddings[*job];
                    if all_finite(vector) {
                        embedding.done.push(vector.to_vec());
                    } else {
                        embedding.fail(NOT_FINITE);
                    }
                }
            }
            Err(error) => {
                for (job, _) in &rows.parts {
                    self.embeddings[*job].fail(&error.to_string());
                }
            }
        }
        self.embeddings.retain_mut(|embedding| {
            let is_done = embedding.done.len() >= embedding.sequences.len();
            if is_done && !embedding.done.iter().any(Vec::is_empty) {
                embedding.sink.tell(Event::Embeddings(std::mem::take(&mut embedding.done)));
            }
            !is_done
        });
        true
    }
}

/// A failure is told, never turned into a token.
const NOT_FINITE: &str =
    "the model's output is not finite: the weights hold NaN or infinity, or a kernel is wrong";

/// Marks a session that ended; no context is as long.
const ENDED: usize = usize::MAX;

/// Uses the logits of the prompt's row at `position`: a score of the token after it, or the first generated token.
fn after_prompt_row(
    session: &mut Session,
    position: usize,
    logits: &[f32],
    sampler: &mut Sampler,
    counts: &mut Counts,
) {
    let generation = &session.generation;
    if generation.most_tokens == ENDED {
        return;
    }
    if !all_finite(logits) {
        session.sink.tell(Event::Failed(NOT_FINITE.into()));
        session.generation.most_tokens = ENDED;
    } else if let Some(next) = generation.prompt.get(position + 1) {
        let top = generation.score_top.unwrap_or(0);
        session.sink.tell(Event::PromptScore(sampler.score(logits, *next, top)));
    } else if generation.most_tokens == 0 {
        session.sink.tell(Event::Done);
        session.generation.most_tokens = ENDED;
    } else {
        emit(session, logits, sampler, counts);
    }
}

fn emit(session: &mut Session, logits: &[f32], sampler: &mut Sampler, counts: &mut Counts) {
    let generation = &session.generation;
    let id = sampler.choose(logits, &generation.sampling, session.generated as u64);
    let score = generation.score_top.map(|top| sampler.score(logits, id, top));
    session.generated += 1;
    session.last = id;
    counts.generated_tokens += 1;
    let finish = if generation.end_ids.contains(&id) {
        Some(Finish::Stop)
    } else if session.generated == generation.most_tokens {
        Some(Finish::Length)
    } else {
        None
    };
    let is_heard = session.sink.tell(Event::Token { id, score, finish });
    if finish.is_some() || !is_heard {
        session.generation.most_tokens = ENDED;
    }
}

#[cfg(test)]
#[path = "scheduler_tests.rs"]
mod tests;
