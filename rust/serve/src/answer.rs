//! From the engine's events to an answer: text in whole characters, stop texts, finish reasons.

use crate::api_error::ApiError;
use crate::metrics::Metrics;
use enginewright_core::sampling::TokenScore;
use enginewright_core::session::{Event, Finish};
use enginewright_text::{Pieces, StopTexts, Tokenizer};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;

/// What the events of one moment add to an answer.
#[derive(Debug, Default)]
pub struct Piece {
    pub text: String,
    /// Generated ids, also those whose text is still held back.
    pub ids: Vec<u32>,
    pub prompt_scores: Vec<TokenScore>,
    pub scores: Vec<TokenScore>,
    /// `stop` or `length`, with the last piece.
    pub finish: Option<&'static str>,
}

/// One answer on its way.
pub struct Answer {
    /// Number of the choice.
    pub index: u64,
    /// Tokens generated so far.
    pub generated: usize,
    events: UnboundedReceiver<Event>,
    tokenizer: Arc<Tokenizer>,
    metrics: Arc<Metrics>,
    pieces: Pieces,
    stops: StopTexts,
    last_token: Instant,
    is_over: bool,
}

/// Most events that one piece takes together when the reader is behind.
const MOST_TOGETHER: usize = 32;

impl Answer {
    /// An answer to a job that was just handed over.
    pub fn new(
        index: u64,
        events: UnboundedReceiver<Event>,
        stops: Vec<String>,
        tokenizer: Arc<Tokenizer>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            index,
            generated: 0,
            events,
            tokenizer,
            metrics,
            pieces: Pieces::default(),
            stops: StopTexts::new(stops),
            last_token: Instant::now(),
            is_over: false,
        }
    }

    /// The next piece, or None after the last.
    ///
    /// # Errors
    /// 500 if the engine refused a step or went away.
    pub async fn next(&mut self) -> Option<Result<Piece, ApiError>> {
        if self.is_over {
            return None;
        }
        let mut piece = Piece::default();
        let mut event = self.events.recv().await;
        for _ in 0..MOST_TOGETHER {
            let Some(taken) = event else {
                self.is_over = true;
                return Some(Err(ApiError::engine("the engine went away before the answer was complete")));
            };
            if let Err(error) = self.take(taken, &mut piece) {
                self.is_over = true;
                return Some(Err(error));
            }
            if self.is_over {
                break;
            }
            match self.events.try_recv() {
                Ok(next) => event = Some(next),
                Err(_) => break,
            }
        }
        if self.is_over {
            // Nobody listens to what comes after a stop text: the engine drops the session.
            self.events.close();
        }
        Some(Ok(piece))
    }

    fn take(&mut self, event: Event, piece: &mut Piece) -> Result<(), ApiError> {
        match event {
            Event::PromptScore(score) => piece.prompt_scores.push(score),
            Event::Done => self.end("length", piece),
            Event::Failed(reason) => return Err(ApiError::engine(reason)),
            Event::Embeddings(_) => return Err(ApiError::engine("embeddings came for a generation")),
            Event::Token { id, score, finish } => {
                self.clock();
                self.generated += 1;
                piece.ids.push(id);
                piece.scores.extend(score);
                let text = self.pieces.push(&self.tokenizer, id);
                let matched = self.stops.push(&text);
                piece.text.push_str(&matched.text);
                match finish {
                    _ if matched.stopped => {
                        self.is_over = true;
                        piece.finish = Some("stop");
                    }
                    Some(Finish::Stop) => self.end("stop", piece),
                    Some(Finish::Length) => self.end("length", piece),
                    None => {}
                }
            }
        }
        Ok(())
    }

    /// Shows what was held back.
    fn end(&mut self, finish: &'static str, piece: &mut Piece) {
        let rest = self.pieces.finish(&self.tokenizer);
        let matched = self.stops.push(&rest);
        piece.text.push_str(&matched.text);
        if !matched.stopped {
            piece.text.push_str(&self.stops.finish());
        }
        piece.finish = Some(if matched.stopped { "stop" } else { finish });
        self.is_over = true;
    }

    fn clock(&mut self) {
        let seconds = self.last_token.elapsed().as_secs_f64();
        self.last_token = Instant::now();
        let histogram = if self.generated == 0 {
            &self.metrics.first_token_seconds
        } else {
            &self.metrics.between_tokens_seconds
        };
        histogram.observe(seconds);
    }

    /// The whole answer.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn whole(&mut self) -> Result<Piece, ApiError> {
        let mut all = Piece::default();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            all.text.push_str(&piece.text);
            all.ids.extend(piece.ids);
            all.prompt_scores.extend(piece.prompt_scores);
            all.scores.extend(piece.scores);
            all.finish = piece.finish;
        }
        Ok(all)
    }
}
