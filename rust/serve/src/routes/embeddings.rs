//! `/v1/embeddings`: texts to vectors.

use super::body::WholeBody;
use crate::api_error::ApiError;
use crate::request::{EmbeddingRequest, Inputs, Lists};
use crate::state::State;
use axum::Json;
use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use enginewright_core::session::{Event, Work};
use serde_json::{Value, json};
use std::sync::Arc;

/// Most texts of one request, as OpenAI has it.
const MOST_TEXTS: usize = 2048;

pub async fn handle(
    Shared(state): Shared<Arc<State>>,
    WholeBody(body): WholeBody,
) -> Result<Response, ApiError> {
    let request = EmbeddingRequest::parse(&body)?;
    state.check_model(request.model.as_deref())?;
    if !state.is_encoder() {
        return Err(ApiError::invalid("model", "this model generates; ask /v1/chat/completions"));
    }
    let as_base64 = match request.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let message = format!("`encoding_format` is {other:?}; expected float or base64");
            return Err(ApiError::invalid("encoding_format", message));
        }
    };
    let width = state.engine.limits.output_width;
    if let Some(asked) = request.dimensions
        && asked != width as i64
    {
        let message = format!("`dimensions` is {asked}; this model gives {width}");
        return Err(ApiError::invalid("dimensions", message));
    }
    let sequences = sequences(&state, request.input).await?;
    let tokens: usize = sequences.iter().map(Vec::len).sum();
    let mut events = state.submit(vec![Work::Embed(sequences)])?.remove(0);
    let vectors = match events.recv().await {
        Some(Event::Embeddings(vectors)) => vectors,
        Some(Event::Failed(reason)) => return Err(ApiError::engine(reason)),
        _ => return Err(ApiError::engine("the engine went away before the answer was complete")),
    };
    let data: Vec<Value> = vectors
        .iter()
        .enumerate()
        .map(|(index, vector)| {
            let embedding = if as_base64 { encoded(vector) } else { json!(vector) };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        })
        .collect();
    Ok(Json(json!({
        "object": "list",
        "model": state.model,
        "data": data,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
    .into_response())
}

/// Little-endian float32 as base64.
fn encoded(vector: &[f32]) -> Value {
    let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    json!(STANDARD.encode(bytes))
}

async fn sequences(state: &State, input: Inputs) -> Result<Vec<Vec<u32>>, ApiError> {
    let sequences = match input.lists() {
        Lists::Ids(lists) => lists,
        Lists::Texts(texts) => {
            let mut lists = Vec::with_capacity(texts.len());
            for text in texts {
                lists.push(state.encode("input", text, true).await?);
            }
            lists
        }
    };
    if sequences.is_empty() || sequences.len() > MOST_TEXTS {
        let message = format!("`input` has {} texts; expected 1 to {MOST_TEXTS}", sequences.len());
        return Err(ApiError::invalid("input", message));
    }
    // A sequence is embedded in one step.
    let limits = state.engine.limits;
    let context = limits.context.min(limits.prefill_rows);
    for ids in &sequences {
        state.check_ids("input", ids)?;
        if ids.is_empty() {
            return Err(ApiError::invalid("input", "`input` has an empty text"));
        }
        if ids.len() > context {
            return Err(ApiError::context("input", ids.len(), 0, context));
        }
    }
    Ok(sequences)
}
