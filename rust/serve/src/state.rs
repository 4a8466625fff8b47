//! What every handler sees.

use crate::answer::Answer;
use crate::api_error::ApiError;
use crate::engine_facts::EngineFacts;
use crate::engine_thread::{Engine, Refused};
use crate::metrics::Metrics;
use axum::http::StatusCode;
use enginewright_core::session::{Event, Generation, Work};
use enginewright_text::{ChatTemplate, Tokenizer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::UnboundedReceiver;

/// Longest text that is encoded between two other things; a longer one gets a thread. Source: about 2 MB/s.
const MOST_BYTES_AT_ONCE: usize = 8192;

/// One running server.
pub struct State {
    pub engine: Engine,
    pub facts: Arc<EngineFacts>,
    pub tokenizer: Arc<Tokenizer>,
    pub template: Option<ChatTemplate>,
    /// Tokens that end a generation.
    pub end_ids: Vec<u32>,
    /// What clients call the model.
    pub model: String,
    pub vocabulary: u64,
    pub api_key: Option<String>,
    pub metrics: Arc<Metrics>,
    /// Set when the server is asked to stop.
    pub drains: AtomicBool,
    pub requests: AtomicU64,
}

impl State {
    /// Hands a request's jobs to the engine.
    ///
    /// # Errors
    /// 503 with Retry-After when the queue is full or the server drains.
    pub fn submit(&self, works: Vec<Work>) -> Result<Vec<UnboundedReceiver<Event>>, ApiError> {
        let busy =
            |message: &str| Err(ApiError::with(StatusCode::SERVICE_UNAVAILABLE, "server_busy", message));
        if self.drains.load(Ordering::Relaxed) {
            return busy("the server is stopping; ask another one");
        }
        match self.engine.submit(works) {
            Ok(events) => Ok(events),
            Err(Refused::Busy) => busy("the queue is full; try again in a second"),
            Err(Refused::Gone) => Err(ApiError::engine("the engine thread ended")),
        }
    }

    /// Hands generations to the engine; one answer each, in order.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn generate(&self, generations: Vec<Generation>, stops: &[String]) -> Result<Vec<Answer>, ApiError> {
        let events = self.submit(generations.into_iter().map(Work::Generate).collect())?;
        let answer = |(index, events)| {
            let (tokenizer, metrics) = (self.tokenizer.clone(), self.metrics.clone());
            Answer::new(index, events, stops.to_vec(), tokenizer, metrics)
        };
        Ok((0..).zip(events).map(answer).collect())
    }

    /// Token ids of a text, with or without the special tokens around it. Long texts do not hold up other requests.
    ///
    /// # Errors
    /// 400 naming `param` if the text cannot be encoded.
    pub async fn encode(&self, param: &str, text: String, special: bool) -> Result<Vec<u32>, ApiError> {
        let ids = if text.len() <= MOST_BYTES_AT_ONCE {
            self.tokenizer.encode(&text, special)
        } else {
            let tokenizer = self.tokenizer.clone();
            let encoding = tokio::task::spawn_blocking(move || tokenizer.encode(&text, special));
            encoding.await.map_err(|_| ApiError::engine("the tokenizer broke; see the log"))?
        };
        ids.map_err(|error| ApiError::invalid(param, error.to_string()))
    }

    /// Checks that a request means this model.
    ///
    /// # Errors
    /// 404 for another one.
    pub fn check_model(&self, asked: Option<&str>) -> Result<(), ApiError> {
        match asked {
            Some(name) if name != self.model && !name.is_empty() => {
                let message = format!("the model `{name}` is not here; this server has `{}`", self.model);
                let error = ApiError::with(StatusCode::NOT_FOUND, "model_not_found", message);
                Err(ApiError { param: Some("model".into()), ..error })
            }
            _ => Ok(()),
        }
    }

    /// Whether the engine embeds and does not generate.
    pub fn is_encoder(&self) -> bool {
        self.engine.limits.slots == 0
    }

    /// Checks ids that a client sent.
    ///
    /// # Errors
    /// 400 for one outside the vocabulary.
    pub fn check_ids(&self, param: &str, ids: &[u32]) -> Result<(), ApiError> {
        match ids.iter().find(|id| u64::from(**id) >= self.vocabulary) {
            None => Ok(()),
            Some(id) => {
                let message =
                    format!("token id {id} is outside the vocabulary of {} tokens", self.vocabulary);
                Err(ApiError::invalid(param, message))
            }
        }
    }

    /// A name for an answer that no other has.
    pub fn next_id(&self, prefix: &str) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:x}-{number:x}", std::process::id())
    }
}

/// Seconds since 1970, as `created` has it.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
