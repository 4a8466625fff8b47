//! `/v1/chat/completions`: a conversation through the model's template.

use super::body::WholeBody;
use super::completions::end_ids;
use super::stream::{Chunks, respond};
use crate::answer::Piece;
use crate::api_error::ApiError;
use crate::request::{ChatMessage, ChatRequest, Content};
use crate::scores::chat_scores;
use crate::state::{State, now};
use axum::Json;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use enginewright_core::session::Generation;
use enginewright_text::Message;
use serde_json::{Value, json};
use std::sync::Arc;

/// What all answers of a request share.
struct Format {
    state: Arc<State>,
    id: String,
    created: u64,
    prompt: Vec<u32>,
    scored: bool,
    with_ids: bool,
    with_usage: bool,
}

pub async fn handle(
    Shared(state): Shared<Arc<State>>,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let request = ChatRequest::parse(&body)?;
    let common = &request.common;
    state.check_model(common.model.as_deref())?;
    if state.is_encoder() {
        return Err(ApiError::invalid("model", "this model embeds; ask /v1/embeddings"));
    }
    let top = request.logprobs;
    let prompt = prompt(&state, request.messages.clone()).await?;
    let context = state.engine.limits.context;
    let most_tokens = common.most_tokens(prompt.len(), context, context)?;
    let sampling = common.sampling(state.vocabulary)?;
    let format = Format {
        id: state.next_id("chatcmpl"),
        created: now(),
        scored: top.is_some(),
        with_ids: common.return_token_ids,
        with_usage: common.with_usage,
        prompt,
        state: state.clone(),
    };
    let generations = (0..common.answers()?).map(|index| Generation {
        prompt: format.prompt.clone(),
        most_tokens,
        sampling: common.sampling_of_answer(&sampling, index),
        end_ids: end_ids(&state, common.ignore_eos),
        score_top: top,
        score_prompt: false,
    });
    let answers = state.generate(generations.collect(), &common.stops()?)?;
    if common.stream {
        return Ok(respond(answers, format));
    }
    let (mut choices, mut generated) = (Vec::new(), 0);
    for mut answer in answers {
        let piece = answer.whole().await?;
        generated += answer.generated;
        let mut choice = json!({
            "index": answer.index,
            "message": {"role": "assistant", "content": piece.text, "refusal": null},
            "finish_reason": piece.finish,
            "logprobs": format.scores(&piece),
        });
        if format.with_ids {
            choice["token_ids"] = json!(piece.ids);
            choice["prompt_token_ids"] = json!(format.prompt);
        }
        choices.push(choice);
    }
    let mut whole = format.around("chat.completion", choices);
    whole["usage"] = format.usage(generated);
    Ok(Json(whole).into_response())
}

async fn prompt(state: &State, messages: Vec<ChatMessage>) -> Result<Vec<u32>, ApiError> {
    if messages.is_empty() {
        return Err(ApiError::invalid("messages", "`messages` is empty; expected at least one"));
    }
    let messages: Vec<Message> = messages.into_iter().map(plain).collect::<Result<_, ApiError>>()?;
    let invalid = |error: enginewright_text::TextError| ApiError::invalid("messages", error.to_string());
    let template =
        state.template.as_ref().ok_or(enginewright_text::TextError::NoTemplate).map_err(invalid)?;
    let text = template.render(&messages).map_err(invalid)?;
    // The template wrote the special tokens.
    let ids = state.encode("messages", text, false).await?;
    if ids.is_empty() {
        return Err(ApiError::invalid("messages", "the conversation is empty"));
    }
    Ok(ids)
}

fn plain(message: ChatMessage) -> Result<Message, ApiError> {
    let content = match message.content {
        None => String::new(),
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => {
            let mut text = String::new();
            for part in parts {
                match part.text {
                    Some(piece) if part.kind == "text" => text.push_str(&piece),
                    _ => {
                        let message =
                            format!("parts of type `{}` are not supported; expected text", part.kind);
                        return Err(ApiError::invalid("messages", message));
                    }
                }
            }
            text
        }
    };
    Ok(Message { role: message.role, content })
}

impl Format {
    fn around(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.state.model,
            "choices": choices,
        })
    }

    fn usage(&self, generated: usize) -> Value {
        let prompt = self.prompt.len();
        json!({"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated})
    }

    fn scores(&self, piece: &Piece) -> Value {
        if self.scored { chat_scores(&self.state.tokenizer, &piece.scores) } else { Value::Null }
    }
}

impl Chunks for Format {
    fn open(&mut self, index: u64) -> Vec<Value> {
        let choice = json!({
            "index": index,
            "delta": {"role": "assistant", "content": ""},
            "finish_reason": null,
            "logprobs": null,
        });
        vec![self.around("chat.completion.chunk", vec![choice])]
    }

    fn piece(&mut self, index: u64, piece: &Piece) -> Vec<Value> {
        let mut choice = json!({
            "index": index,
            "delta": {"content": piece.text},
            "finish_reason": piece.finish,
            "logprobs": self.scores(piece),
        });
        if self.with_ids {
            choice["token_ids"] = json!(piece.ids);
        }
        vec![self.around("chat.completion.chunk", vec![choice])]
    }

    fn close(&mut self, generated: usize) -> Vec<Value> {
        if !self.with_usage {
            return Vec::new();
        }
        let mut last = self.around("chat.completion.chunk", Vec::new());
        last["usage"] = self.usage(generated);
        vec![last]
    }
}
