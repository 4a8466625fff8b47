//! One request inside the engine: what it asks, how far it is, and where its answers go.

use crate::sampling::{Sampling, TokenScore};

/// What a request wants generated.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Token ids of the prompt; not empty.
    pub prompt: Vec<u32>,
    /// Tokens to generate at most; 0 only scores the prompt.
    pub most_tokens: usize,
    pub sampling: Sampling,
    /// Tokens that end the generation. They are emitted, as the last.
    pub end_ids: Vec<u32>,
    /// Log probabilities wanted with each token: of how many likeliest ones.
    pub score_top: Option<usize>,
    /// Whether the prompt's own tokens are scored too.
    pub score_prompt: bool,
}

/// A job for the engine.
#[derive(Debug)]
pub enum Work {
    Generate(Generation),
    /// Whole sequences to embed, each not empty.
    Embed(Vec<Vec<u32>>),
}

/// Why a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// An end token.
    Stop,
    /// The most tokens, or the end of the context.
    Length,
}

/// What the engine tells about a job.
#[derive(Debug)]
pub enum Event {
    /// Score of the prompt token after the ones told of already (the second token comes first).
    PromptScore(TokenScore),
    /// The prompt is done and nothing was to be generated.
    Done,
    /// A generated token.
    Token { id: u32, score: Option<TokenScore>, finish: Option<Finish> },
    /// Embeddings, one for each sequence, in order.
    Embeddings(Vec<Vec<f32>>),
    /// The executor refused a step: the job is over.
    Failed(String),
}

/// Where a job's events go.
pub trait Sink: Send {
    /// Hands over an event; false when nobody listens any more: the job is dropped.
    fn tell(&mut self, event: Event) -> bool;

    /// Whether somebody still listens.
    fn is_open(&self) -> bool;
}

/// A job with its sink.
pub struct Job {
    pub work: Work,
    pub sink: Box<dyn Sink>,
}

/// A generation that has a cache slot.
pub(crate) struct Session {
    pub generation: Generation,
    pub sink: Box<dyn Sink>,
    pub slot: u32,
    /// Prompt tokens that are in the cache.
    pub cached: usize,
    /// The last generated token, not yet in the cache.
    pub last: u32,
    /// Tokens generated.
    pub generated: usize,
}

impl Session {
    /// Whether the prompt is in the cache and tokens are generated.
    pub fn decodes(&self) -> bool {
        self.cached == self.generation.prompt.len()
    }

    /// Position of the token that goes into the cache next.
    pub fn position(&self) -> usize {
        if self.decodes() { self.cached + self.generated - 1 } else { self.cached }
    }
}
