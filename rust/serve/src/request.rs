//! Bodies of the OpenAI routes: what is understood, what is refused, and the defaults.

use crate::api_error::ApiError;
use crate::fields::Fields;
use enginewright_core::sampling::Sampling;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One or several of something.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
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

/// Inputs as one list or the other.
#[derive(Debug)]
pub enum Lists {
    Texts(Vec<String>),
    Ids(Vec<Vec<u32>>),
}

impl Inputs {
    /// One input is a list of one.
    pub fn lists(self) -> Lists {
        match self {
            Self::Text(text) => Lists::Texts(vec![text]),
            Self::Texts(texts) => Lists::Texts(texts),
            Self::Ids(ids) if ids.is_empty() => Lists::Ids(Vec::new()),
            Self::Ids(ids) => Lists::Ids(vec![ids]),
            Self::ManyIds(lists) => Lists::Ids(lists),
        }
    }
}

/// `stream_options`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct StreamOptions {
    #[serde(default)]
    pub include_usage: bool,
}

/// What chats and completions share.
#[derive(Debug, Clone)]
pub struct Common {
    pub model: Option<String>,
    pub max_tokens: Option<i64>,
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<i64>,
    pub min_p: Option<f32>,
    pub seed: Option<i64>,
    pub stop: Option<Many<String>>,
    pub n: Option<i64>,
    pub stream: bool,
    /// Whether the usage comes as the last chunk of a stream.
    pub with_usage: bool,
    pub logit_bias: Option<BTreeMap<String, f32>>,
    pub ignore_eos: bool,
    pub return_token_ids: bool,
}

/// Settings of OpenAI's and other servers that would change answers and are not here.
const UNSUPPORTED: &[&str] = &[
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "min_tokens",
    "stop_token_ids",
    "guided_json",
    "guided_regex",
    "structured_outputs",
    "verbosity",
    "prediction",
];

impl Common {
    fn take(fields: &mut Fields) -> Result<Self, ApiError> {
        fields.refuse(UNSUPPORTED)?;
        let options: Option<StreamOptions> = fields.take("stream_options")?;
        let chat_limit = fields.take("max_completion_tokens")?;
        let limit = fields.take("max_tokens")?;
        Ok(Self {
            model: fields.take("model")?,
            max_tokens: chat_limit.or(limit),
            temperature: fields.take("temperature")?,
            top_p: fields.take("top_p")?,
            top_k: fields.take("top_k")?,
            min_p: fields.take("min_p")?,
            seed: fields.take("seed")?,
            stop: fields.take("stop")?,
            n: fields.take("n")?,
            stream: fields.take("stream")?.unwrap_or(false),
            with_usage: options.is_some_and(|options| options.include_usage),
            logit_bias: fields.take("logit_bias")?,
            ignore_eos: fields.take("ignore_eos")?.unwrap_or(false),
            return_token_ids: fields.take("return_token_ids")?.unwrap_or(false),
        })
    }
}

/// `/v1/completions`.
#[derive(Debug, Clone)]
pub struct CompletionRequest {
    pub common: Common,
    pub prompt: Inputs,
    pub echo: bool,
    /// Likeliest tokens to tell about with each; None tells nothing.
    pub logprobs: Option<usize>,
}

impl CompletionRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// 400 naming the field that is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::parse(body)?;
        fields.refuse(&["suffix"])?;
        let common = Common::take(&mut fields)?;
        let best_of: Option<i64> = fields.take("best_of")?;
        if best_of.is_some_and(|best| best != common.n.unwrap_or(1)) {
            return Err(ApiError::invalid("best_of", "`best_of` is not supported; use `n`"));
        }
        let logprobs = fields.take("logprobs")?;
        let request = Self {
            common,
            prompt: fields.require("prompt")?,
            echo: fields.take("echo")?.unwrap_or(false),
            logprobs: logprobs.map(|top| most_top("logprobs", top)).transpose()?,
        };
        fields.finish()?;
        Ok(request)
    }
}

/// `/v1/chat/completions`.
#[derive(Debug, Clone)]
pub struct ChatRequest {
    pub common: Common,
    pub messages: Vec<ChatMessage>,
    /// Likeliest tokens to tell about with each; None tells nothing.
    pub logprobs: Option<usize>,
}

impl ChatRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// 400 naming the field that is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::parse(body)?;
        fields.refuse(&[
            "tools",
            "tool_choice",
            "functions",
            "function_call",
            "response_format",
            "modalities",
            "audio",
            "web_search_options",
            "reasoning_effort",
        ])?;
        let common = Common::take(&mut fields)?;
        if common.max_tokens == Some(0) {
            return Err(ApiError::invalid("max_tokens", "`max_tokens` is 0; expected 1 or more"));
        }
        let wanted: bool = fields.take("logprobs")?.unwrap_or(false);
        let top: Option<i64> = fields.take("top_logprobs")?;
        if top.is_some() && !wanted {
            let message = "`top_logprobs` needs `logprobs`: true";
            return Err(ApiError::invalid("top_logprobs", message));
        }
        let top = most_top("top_logprobs", top.unwrap_or(0))?;
        let request = Self { common, messages: fields.require("messages")?, logprobs: wanted.then_some(top) };
        fields.finish()?;
        Ok(request)
    }
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
#[derive(Debug, Clone)]
pub struct EmbeddingRequest {
    pub model: Option<String>,
    pub input: Inputs,
    pub encoding_format: Option<String>,
    pub dimensions: Option<i64>,
}

impl EmbeddingRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// 400 naming the field that is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let mut fields = Fields::parse(body)?;
        let request = Self {
            model: fields.take("model")?,
            input: fields.require("input")?,
            encoding_format: fields.take("encoding_format")?,
            dimensions: fields.take("dimensions")?,
        };
        fields.finish()?;
        Ok(request)
    }
}

/// Most stop texts, as OpenAI has it.
const MOST_STOPS: usize = 4;
/// Most answers to one prompt.
const MOST_ANSWERS: i64 = 16;
/// Most likeliest tokens to tell about.
const MOST_TOP: i64 = 20;

fn most_top(name: &str, top: i64) -> Result<usize, ApiError> {
    if (0..=MOST_TOP).contains(&top) {
        return Ok(top as usize);
    }
    Err(ApiError::invalid(name, format!("`{name}` is {top}; expected 0 to {MOST_TOP}")))
}

impl Common {
    /// How tokens are chosen.
    ///
    /// # Errors
    /// 400 for a value out of range.
    pub fn sampling(&self, vocabulary: u64) -> Result<Sampling, ApiError> {
        let within = |name: &str, value: Option<f32>, default: f32, low: f32, high: f32| {
            let value = value.unwrap_or(default);
            if (low..=high).contains(&value) {
                return Ok(value);
            }
            Err(ApiError::invalid(name, format!("`{name}` is {value}; expected {low} to {high}")))
        };
        let mut bias = Vec::new();
        for (id, value) in self.logit_bias.iter().flatten() {
            let known = id.parse::<u32>().ok().filter(|id| u64::from(*id) < vocabulary);
            let id = known.ok_or_else(|| {
                let message =
                    format!("`logit_bias` names {id:?}; expected token ids from 0 to {}", vocabulary - 1);
                ApiError::invalid("logit_bias", message)
            })?;
            bias.push((id, within("logit_bias", Some(*value), 0.0, -100.0, 100.0)?));
        }
        let top_k = self.top_k.unwrap_or(0);
        if top_k < -1 {
            let message = format!("`top_k` is {top_k}; expected 1 or more, or 0 or -1 for all");
            return Err(ApiError::invalid("top_k", message));
        }
        Ok(Sampling {
            temperature: within("temperature", self.temperature, 1.0, 0.0, 2.0)?,
            top_p: within("top_p", self.top_p, 1.0, f32::MIN_POSITIVE, 1.0)?,
            // -1 is how other servers say `all`.
            top_k: usize::try_from(top_k.max(0)).unwrap_or(0),
            min_p: within("min_p", self.min_p, 0.0, 0.0, 1.0)?,
            seed: self.seed.map_or_else(fresh_seed, |seed| seed as u64),
            bias,
        })
    }

    /// Answers to one prompt differ; the first is what the seed alone gives.
    pub fn sampling_of_answer(&self, sampling: &Sampling, answer: u64) -> Sampling {
        Sampling { seed: sampling.seed.wrapping_add(answer), ..sampling.clone() }
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
        let asked = self.max_tokens;
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
}

/// A seed that no other request has.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::Instant::now())
}
