//! `/v1/models`: the one model of this server.

use crate::api_error::ApiError;
use crate::state::State;
use axum::Json;
use axum::extract::{Path, State as Shared};
use serde_json::{Value, json};
use std::sync::Arc;

fn card(state: &State) -> Value {
    json!({
        "id": state.model,
        "object": "model",
        "created": 0,
        "owned_by": "enginewright",
        "max_model_len": state.engine.limits.context,
    })
}

pub async fn list(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    Json(json!({"object": "list", "data": [card(&state)]}))
}

pub async fn one(
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    state.check_model(Some(&name))?;
    Ok(Json(card(&state)))
}
