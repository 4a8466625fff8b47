//! Text at the edge of an engine: tokenizers, pieces of text from tokens, stop texts, chat templates.

mod chat;
mod error;
mod pieces;
mod stop;
#[cfg(test)]
mod test_tokenizers;
mod tokenizer;

pub use chat::{ChatTemplate, Message};
pub use error::TextError;
pub use pieces::Pieces;
pub use stop::{Matched, StopTexts};
pub use tokenizer::Tokenizer;
