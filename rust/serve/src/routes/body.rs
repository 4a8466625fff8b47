//! The body of a request, within limits.

use crate::api_error::ApiError;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use futures_util::StreamExt;
use std::time::Duration;

/// Largest body that is taken, in bytes; the router hands it to each request.
#[derive(Debug, Clone, Copy)]
pub struct MostBytes(pub usize);

/// Bytes of a body that is too large that are still read, so that its sender lives to see the answer.
const MOST_DRAINED_BYTES: usize = 64 << 20;
/// How long a body may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A whole body.
pub struct WholeBody(pub Vec<u8>);

impl<S: Send + Sync> FromRequest<S> for WholeBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let most = request.extensions().get::<MostBytes>().map_or(0, |most| most.0);
        let length = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced = length.and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        match tokio::time::timeout(PATIENCE, read(request.into_body(), announced, most)).await {
            Ok(body) => body.map(Self),
            Err(_) => Err(ApiError::with(
                StatusCode::REQUEST_TIMEOUT,
                "request_timeout",
                format!("the body did not arrive within {} s", PATIENCE.as_secs()),
            )),
        }
    }
}

async fn read(body: Body, announced: usize, most: usize) -> Result<Vec<u8>, ApiError> {
    let mut whole = Vec::with_capacity(announced.min(most));
    let mut bytes = 0;
    let mut parts = body.into_data_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| ApiError::invalid("", format!("the body broke off: {error}")))?;
        bytes += part.len();
        if bytes <= most && announced <= most {
            whole.extend_from_slice(&part);
        } else if bytes > MOST_DRAINED_BYTES {
            break;
        }
    }
    let bytes = bytes.max(announced);
    if bytes <= most {
        return Ok(whole);
    }
    let message = format!("the request has {bytes} bytes or more; this server takes at most {most}");
    Err(ApiError::with(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message))
}
