//! Errors as OpenAI shapes them: `{"error": {"message", "type", "param", "code"}}`.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An answer that is an error.
#[derive(Debug, Clone)]
pub struct ApiError {
    pub status: StatusCode,
    pub message: String,
    pub param: Option<String>,
    pub code: &'static str,
}

impl ApiError {
    /// The request is wrong; `param` names the field.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        let param = if param.is_empty() { None } else { Some(param.to_string()) };
        Self { status: StatusCode::BAD_REQUEST, message: message.into(), param, code: "invalid_value" }
    }

    /// Another status with its code.
    pub fn with(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code }
    }

    /// The prompt and what is to be generated do not fit.
    pub fn context(param: &str, prompt: usize, output: usize, most: usize) -> Self {
        let message = format!(
            "this model's context holds {most} tokens; the request has {prompt} prompt tokens and asks for {output} more"
        );
        Self { code: "context_length_exceeded", ..Self::invalid(param, message) }
    }

    /// The engine broke.
    pub fn engine(message: impl Into<String>) -> Self {
        Self::with(StatusCode::INTERNAL_SERVER_ERROR, "engine_error", message)
    }

    /// As the body says it.
    pub fn body(&self) -> serde_json::Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::SERVICE_UNAVAILABLE => "overloaded_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        json!({"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
