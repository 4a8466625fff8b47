//! The routes, and what stands in front of all of them.

mod body;
mod chat;
mod completions;
mod embeddings;
mod models;
mod stream;

use crate::api_error::ApiError;
use crate::metrics::RequestLabels;
use crate::state::State;
use axum::extract::{MatchedPath, Request};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The server's routes, for bodies of at most `most_body_bytes`.
pub fn router(state: Arc<State>, most_body_bytes: usize) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat::handle))
        .route("/v1/completions", post(completions::handle))
        .route("/v1/embeddings", post(embeddings::handle))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{name}", get(models::one))
        .route("/engine", get(engine))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(Extension(body::MostBytes(most_body_bytes)))
        .layer(from_fn_with_state(state.clone(), guard))
        .with_state(state)
}

/// Checks the API key, and counts the answer.
async fn guard(
    axum::extract::State(state): axum::extract::State<Arc<State>>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str).to_string();
    let needs_key = route.starts_with("/v1/");
    let response = match &state.api_key {
        Some(key) if needs_key && !is_key(&request, key) => {
            let message = "the API key is missing or wrong; send `Authorization: Bearer KEY`";
            ApiError::with(StatusCode::UNAUTHORIZED, "invalid_api_key", message).into_response()
        }
        _ => next.run(request).await,
    };
    let labels = RequestLabels { route, status: response.status().as_u16() };
    state.metrics.requests.get_or_create(&labels).inc();
    response
}

fn is_key(request: &Request, key: &str) -> bool {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = sent.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    // Every byte is compared, so that the time says nothing about where they differ.
    let differs = sent.bytes().zip(key.bytes()).fold(0u8, |all, (a, b)| all | (a ^ b));
    sent.len() == key.len() && differs == 0
}

async fn health(axum::extract::State(state): axum::extract::State<Arc<State>>) -> Response {
    if state.drains.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "stopping"}))).into_response();
    }
    Json(json!({"status": "ok", "model": state.model})).into_response()
}

/// What runs, and how often: for whoever measures it.
async fn engine(axum::extract::State(state): axum::extract::State<Arc<State>>) -> Response {
    Json(state.facts.to_json()).into_response()
}

async fn metrics(axum::extract::State(state): axum::extract::State<Arc<State>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], state.metrics.text()).into_response()
}

async fn unknown(method: Method, request: Request) -> ApiError {
    let message = format!("there is no route {method} {}", request.uri().path());
    ApiError::with(StatusCode::NOT_FOUND, "unknown_url", message)
}

async fn wrong_method(method: Method, request: Request) -> ApiError {
    let message = format!("{} does not take {method}", request.uri().path());
    ApiError::with(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}
