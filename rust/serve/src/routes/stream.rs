//! Server-sent events: answers as they come, errors inside the stream, `[DONE]` at the end.

use crate::answer::{Answer, Piece};
use crate::api_error::ApiError;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::Value;
use std::convert::Infallible;

/// Makes the chunks of one stream.
pub trait Chunks: Send + 'static {
    /// Chunks before the first piece of an answer.
    fn open(&mut self, index: u64) -> Vec<Value>;
    /// Chunks for a piece of an answer.
    fn piece(&mut self, index: u64, piece: &Piece) -> Vec<Value>;
    /// Chunks after the last answer; `generated` tokens in all.
    fn close(&mut self, generated: usize) -> Vec<Value>;
}

/// What one answer gave: its number, the piece, and its tokens so far.
type Given = (u64, Result<Piece, ApiError>);

/// Streams several answers into one response.
pub fn respond(answers: Vec<Answer>, mut chunks: impl Chunks) -> Response {
    let opening: Vec<Value> = answers.iter().flat_map(|answer| chunks.open(answer.index)).collect();
    let pieces: Vec<BoxStream<'static, Given>> = answers
        .into_iter()
        .map(|answer| {
            stream::unfold(answer, |mut answer| async {
                let piece = answer.next().await?;
                Some(((answer.index, piece), answer))
            })
            .boxed()
        })
        .collect();
    // The end of the pieces is marked, so that the closing chunks know the total.
    let marked = stream::select_all(pieces).map(Some).chain(stream::iter([None]));
    let mut generated = 0;
    let bodies = marked.flat_map(move |given| {
        let made = match given {
            Some((index, Ok(piece))) => {
                generated += piece.ids.len();
                chunks.piece(index, &piece)
            }
            Some((_, Err(error))) => vec![error.body()],
            None => chunks.close(generated),
        };
        stream::iter(made)
    });
    let events = stream::iter(opening)
        .chain(bodies)
        .map(|body| Event::default().data(body.to_string()))
        .chain(stream::iter([Event::default().data("[DONE]")]))
        .map(Ok::<_, Infallible>);
    Sse::new(events).into_response()
}
