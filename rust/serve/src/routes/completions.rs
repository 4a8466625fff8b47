//! `/v1/completions`: a prompt goes on; with `echo` and no tokens to generate it is scored.

use super::body::WholeBody;
use super::stream::{Chunks, respond};
use crate::answer::Piece;
use crate::api_error::ApiError;
use crate::request::{CompletionRequest, Inputs, Lists};
use crate::scores::CompletionScores;
use crate::state::{State, now};
use axum::Json;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use enginewright_core::session::Generation;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Tokens to generate when the request does not say, as OpenAI has it.
const DEFAULT_TOKENS: usize = 16;

/// Most prompts of one request.
const MOST_PROMPTS: usize = 128;

/// One prompt, ready for the engine.
#[derive(Clone)]
struct Prompt {
    ids: Vec<u32>,
    text: String,
}

/// What all answers of a request share.
struct Format {
    state: Arc<State>,
    id: String,
    created: u64,
    prompts: Vec<Prompt>,
    answers: u64,
    echo: bool,
    scored: bool,
    with_ids: bool,
    with_usage: bool,
    scores: BTreeMap<u64, CompletionScores>,
}

pub async fn handle(
    Shared(state): Shared<Arc<State>>,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let request = CompletionRequest::parse(&body)?;
    let common = request.common.clone();
    state.check_model(common.model.as_deref())?;
    if state.is_encoder() {
        return Err(ApiError::invalid("model", "this model embeds; ask /v1/embeddings"));
    }
    let prompts = prompts(&state, request.prompt.clone()).await?;
    let sampling = common.sampling(state.vocabulary)?;
    let mut format = Format {
        id: state.next_id("cmpl"),
        created: now(),
        answers: common.answers()?,
        echo: request.echo,
        scored: request.logprobs.is_some(),
        with_ids: common.return_token_ids,
        with_usage: common.with_usage,
        prompts,
        state: state.clone(),
        scores: BTreeMap::new(),
    };
    let mut generations = Vec::new();
    for prompt in &format.prompts {
        let context = state.engine.limits.context;
        let most_tokens = common.most_tokens(prompt.ids.len(), context, DEFAULT_TOKENS)?;
        generations.extend((0..format.answers).map(|answer| Generation {
            prompt: prompt.ids.clone(),
            most_tokens,
            sampling: common.sampling_of_answer(&sampling, answer),
            end_ids: end_ids(&state, common.ignore_eos),
            score_top: request.logprobs,
            score_prompt: format.echo && format.scored,
        }));
    }
    let answers = state.generate(generations, &common.stops()?)?;
    if common.stream {
        return Ok(respond(answers, format));
    }
    let (mut choices, mut generated) = (Vec::new(), 0);
    for mut answer in answers {
        let piece = answer.whole().await?;
        generated += answer.generated;
        let mut choice = format.choice(answer.index, &piece, true);
        if format.with_ids {
            choice["prompt_token_ids"] = json!(format.prompt(answer.index).ids);
        }
        choices.push(choice);
    }
    let mut whole = format.around(choices);
    whole["usage"] = format.usage(generated);
    Ok(Json(whole).into_response())
}

/// Tokens that end a generation, unless the request ignores them.
pub fn end_ids(state: &State, ignore: bool) -> Vec<u32> {
    if ignore { Vec::new() } else { state.end_ids.clone() }
}

async fn prompts(state: &State, inputs: Inputs) -> Result<Vec<Prompt>, ApiError> {
    let mut prompts = Vec::new();
    match inputs.lists() {
        Lists::Texts(texts) => {
            for text in texts {
                let ids = state.encode("prompt", text.clone(), true).await?;
                prompts.push(Prompt { ids, text });
            }
        }
        Lists::Ids(lists) => {
            for ids in lists {
                state.check_ids("prompt", &ids)?;
                prompts.push(Prompt { text: state.tokenizer.decode(&ids), ids });
            }
        }
    }
    if prompts.is_empty() || prompts.iter().any(|prompt| prompt.ids.is_empty()) {
        return Err(ApiError::invalid("prompt", "`prompt` is empty; expected at least one token"));
    }
    if prompts.len() > MOST_PROMPTS {
        let message = format!("`prompt` has {} prompts; expected at most {MOST_PROMPTS}", prompts.len());
        return Err(ApiError::invalid("prompt", message));
    }
    Ok(prompts)
}

impl Format {
    fn prompt(&self, index: u64) -> &Prompt {
        &self.prompts[(index / self.answers) as usize]
    }

    fn around(&self, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.state.model,
            "choices": choices,
        })
    }

    fn usage(&self, generated: usize) -> Value {
        let prompt: usize = self.prompts.iter().map(|prompt| prompt.ids.len()).sum();
        json!({"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated})
    }

    /// A choice of an answer or of a chunk; `is_first` puts an echoed prompt in front.
    fn choice(&mut self, index: u64, piece: &Piece, is_first: bool) -> Value {
        let prompt = self.prompts[(index / self.answers) as usize].clone();
        let echoes = self.echo && is_first;
        let text = if echoes { prompt.text + &piece.text } else { piece.text.clone() };
        let mut choice = json!({
            "index": index, "text": text, "logprobs": null, "finish_reason": piece.finish,
        });
        if self.scored {
            let tokenizer = &self.state.tokenizer;
            let scores = self.scores.entry(index).or_default();
            if echoes {
                scores.push_first(tokenizer, prompt.ids[0]);
            }
            for score in piece.prompt_scores.iter().chain(&piece.scores) {
                scores.push(tokenizer, score);
            }
            choice["logprobs"] = scores.take();
        }
        if self.with_ids {
            choice["token_ids"] = json!(piece.ids);
        }
        choice
    }
}

impl Chunks for Format {
    fn open(&mut self, index: u64) -> Vec<Value> {
        if !self.echo {
            return Vec::new();
        }
        let choice = self.choice(index, &Piece::default(), true);
        vec![self.around(vec![choice])]
    }

    fn piece(&mut self, index: u64, piece: &Piece) -> Vec<Value> {
        let choice = self.choice(index, piece, false);
        vec![self.around(vec![choice])]
    }

    fn close(&mut self, generated: usize) -> Vec<Value> {
        if !self.with_usage {
            return Vec::new();
        }
        let mut last = self.around(Vec::new());
        last["usage"] = self.usage(generated);
        vec![last]
    }
}
