//! Everything that this crate can report.

/// What went wrong with text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// `tokenizer.json` cannot be used.
    #[error("{path}: not a tokenizer: {reason}\nhint: build the engine again from its checkpoint")]
    Tokenizer { path: String, reason: String },
    /// The text could not be encoded.
    #[error("the text cannot be encoded: {reason}")]
    Encode { reason: String },
    /// The checkpoint has no chat template.
    #[error("this model has no chat template\nhint: use /v1/completions")]
    NoTemplate,
    /// The chat template is broken.
    #[error("the chat template cannot be parsed: {reason}")]
    Template { reason: String },
    /// The chat template refused the messages.
    #[error("the chat template refuses these messages: {reason}")]
    Messages { reason: String },
}
