//! Bodies of the OpenAI routes: what is understood, what is refused, and the defaults.

use crate::api_error::ApiError;
use enginewright_core::sampling::Sampling;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

/// One or several of something.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Many<T> {
    One(T),
    Several(Vec<T>),
}

impl<T> Many<T> {
    /// As a list.
    pub fn list(self) -> Vec<T> {
        match self {
            Self::One(item) => vec![item],
            Self::Several(items) => items,
        }
    }
}

/// A prompt or an input: text or token ids, one or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a text, a list of texts, a list of token ids, or a list of those")]
pub enum Inputs {
    Text(String),
    Ids(Vec<u32>),
    Texts(Vec<String>),
    ManyIds(Vec<Vec<u32>>),
}

/// `stream_options`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct StreamOptions {
    #[serde(default)]
    pub include_usage: bool,
}

/// What chats and completions share.
#[derive(Debug, Clone, Deserialize)]
pub struct Common {
    pub model: Option<String>,
    pub max_tokens: Option<i64>,
    pub max_completion_tokens: Option<i64>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<i64>,
    pub min_p: Option<f32>,
    pub seed: Option<i64>,
    pub stop: Option<Many<String>>,
    pub n: Option<i64>,
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    pub logit_bias: Option<BTreeMap<String, f32>>,
    pub presence_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub ignore_eos: Option<bool>,
    pub return_token_ids: Option<bool>,
}

/// `/v1/completions`.
#[derive(Debug, Clone, Deserialize)]
pub struct CompletionRequest {
    #[serde(flatten)]
    pub common: Common,
    pub prompt: Inputs,
    pub echo: Option<bool>,
    pub logprobs: Option<i64>,
    pub suffix: Option<String>,
    pub best_of: Option<i64>,
}

/// `/v1/chat/completions`.
#[derive(Debug, Clone, Deserialize)]
pub struct ChatRequest {
    #[serde(flatten)]
    pub common: Common,
    pub messages: Vec<ChatMessage>,
    pub logprobs: Option<bool>,
    pub top_logprobs: Option<i64>,
    pub tools: Option<Vec<Value>>,
    pub response_format: Option<Value>,
}

/// A message whose content may come in parts.
#[derive(Debug, Clone, Deserialize)]
pub struct ChatMessage {
    pub role: String,
    pub content: Option<Content>,
}

/// Content as text, or as a list of text parts.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of parts")]
pub enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// One part of a message.
#[derive(Debug, Clone, Deserialize)]
pub struct Part {
    #[serde(rename = "type")]
    pub kind: String,
    pub text: Option<String>,
}

/// `/v1/embeddings`.
#[derive(Debug, Clone, Deserialize)]
pub struct EmbeddingRequest {
    pub model: Option<String>,
    pub input: Inputs,
    pub encoding_format: Option<String>,
    pub dimensions: Option<i64>,
}

/// Parses a body.
///
/// # Errors
/// 400 saying where the JSON or a field is wrong.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    if let Err(error) = std::str::from_utf8(body) {
        let place = error.valid_up_to();
        return Err(ApiError::invalid("", format!("the body is not UTF-8 at byte {place}")));
    }
    serde_json::from_slice(body)
        .map_err(|error| ApiError::invalid("", format!("the body cannot be used: {error}")))
}

/// Most stop texts, as OpenAI has it.
const MOST_STOPS: usize = 4;
/// Most answers to one prompt.
const MOST_ANSWERS: i64 = 16;
/// Most likeliest tokens to tell about.
pub const MOST_TOP: i64 = 20;

impl Common {
    /// How tokens are chosen.
    ///
    /// # Errors
    /// 400 for a value out of range, or a setting that this server does not have.
    pub fn sampling(&self) -> Result<Sampling, ApiError> {
        let within = |name: &str, value: Option<f32>, default: f32, low: f32, high: f32| {
            let value = value.unwrap_or(default);
            if (low..=high).contains(&value) {
                return Ok(value);
            }
            Err(ApiError::invalid(name, format!("`{name}` is {value}; expected {low} to {high}")))
        };
        for (name, value) in
            [("presence_penalty", self.presence_penalty), ("frequency_penalty", self.frequency_penalty)]
        {
            if value.unwrap_or(0.0) != 0.0 {
                return Err(ApiError::invalid(name, format!("`{name}` is not supported; leave it out")));
            }
        }
        let mut bias = Vec::new();
        for (id, value) in self.logit_bias.iter().flatten() {
            let id = id.parse().map_err(|_| {
                ApiError::invalid("logit_bias", format!("`logit_bias` names {id:?}; expected token ids"))
            })?;
            bias.push((id, within("logit_bias", Some(*value), 0.0, -100.0, 100.0)?));
        }
        let top_k = self.top_k.unwrap_or(0);
        Ok(Sampling {
            temperature: within("temperature", self.temperature, 1.0, 0.0, 2.0)?,
            top_p: within("top_p", self.top_p, 1.0, f32::MIN_POSITIVE, 1.0)?,
            // −1 is how other servers say «all».
            top_k: usize::try_from(top_k.max(0)).unwrap_or(0),
            min_p: within("min_p", self.min_p, 0.0, 0.0, 1.0)?,
            seed: self.seed.map_or_else(fresh_seed, |seed| seed as u64),
            bias,
        })
    }

    /// Stop texts.
    ///
    /// # Errors
    /// 400 for more than OpenAI allows.
    pub fn stops(&self) -> Result<Vec<String>, ApiError> {
        let stops = self.stop.clone().map_or_else(Vec::new, Many::list);
        if stops.len() > MOST_STOPS {
            let message = format!("`stop` has {} texts; expected at most {MOST_STOPS}", stops.len());
            return Err(ApiError::invalid("stop", message));
        }
        Ok(stops)
    }

    /// Answers to each prompt.
    ///
    /// # Errors
    /// 400 if out of range.
    pub fn answers(&self) -> Result<u64, ApiError> {
        let n = self.n.unwrap_or(1);
        if !(1..=MOST_ANSWERS).contains(&n) {
            return Err(ApiError::invalid("n", format!("`n` is {n}; expected 1 to {MOST_ANSWERS}")));
        }
        Ok(n as u64)
    }

    /// Tokens to generate for a prompt of `prompt` tokens, of a context of `context`; `default` if none is asked for.
    ///
    /// # Errors
    /// 400 if negative, or if prompt and answer do not fit the context.
    pub fn most_tokens(&self, prompt: usize, context: usize, default: usize) -> Result<usize, ApiError> {
        let asked = self.max_completion_tokens.or(self.max_tokens);
        let most = match asked {
            Some(asked) => usize::try_from(asked).map_err(|_| {
                ApiError::invalid("max_tokens", format!("`max_tokens` is {asked}; expected 0 or more"))
            })?,
            None => default.min(context.saturating_sub(prompt)),
        };
        let needs_room = usize::from(asked.is_none());
        if prompt.saturating_add(most.max(needs_room)) > context {
            return Err(ApiError::context("max_tokens", prompt, most.max(needs_room), context));
        }
        Ok(most)
    }

    /// Whether the usage comes as the last chunk of a stream.
    pub fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }
}

/// A seed that no other request has.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::Instant::now())
}
