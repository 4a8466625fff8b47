//! What answers while the engine loads, and from then on.

use crate::api_error::ApiError;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use serde_json::json;
use std::sync::{Arc, OnceLock};
use tower_service::Service;

/// The routes of the engine, once it is there.
#[derive(Clone, Default)]
pub struct Gate(Arc<OnceLock<Router>>);

impl Gate {
    /// Opens the gate; every request from now on goes through.
    pub fn open(&self, router: Router) {
        // A second engine never comes: whoever opens is called once.
        let _ = self.0.set(router);
    }

    /// A router that is there from the start.
    pub fn router(&self) -> Router {
        let gate = self.clone();
        Router::new().fallback(move |request: Request| answer(gate, request))
    }
}

async fn answer(gate: Gate, request: Request) -> Response {
    if let Some(router) = gate.0.get() {
        let Ok(response) = router.clone().call(request).await;
        return response;
    }
    if request.uri().path() == "/health" {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"status": "loading"}))).into_response();
    }
    let message = "the engine is loading; try again in a second";
    ApiError::with(StatusCode::SERVICE_UNAVAILABLE, "loading", message).into_response()
}
