//! `tokenizer.json` through Hugging Face's own library.

use crate::error::TextError;

/// Text to token ids and back.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
}

impl Tokenizer {
    /// Reads the bytes of a `tokenizer.json`; `path` is for messages.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] if they are none.
    pub fn from_bytes(path: &str, bytes: &[u8]) -> Result<Self, TextError> {
        let refuse = |reason: String| TextError::Tokenizer { path: path.into(), reason };
        let mut inner =
            tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| refuse(error.to_string()))?;
        // A server decides on lengths itself, and packs rows without padding.
        inner.with_truncation(None).map_err(|error| refuse(error.to_string()))?;
        inner.with_padding(None);
        Ok(Self { inner })
    }

    /// Token ids of a text; with `special` the tokens that the model wants around it (a first token, [CLS] … [SEP]).
    ///
    /// # Errors
    /// [`TextError::Encode`] if the library cannot.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, TextError> {
        let encoding = self.inner.encode(text, special);
        let encoding = encoding.map_err(|error| TextError::Encode { reason: error.to_string() })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Text of token ids, special tokens left out. Bytes that are no whole character give U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.inner.decode(ids, true).unwrap_or_default()
    }

    /// Text of one token, special or not, as log probabilities name it.
    pub fn name(&self, id: u32) -> String {
        self.inner.decode(&[id], false).unwrap_or_default()
    }

    /// Number of tokens, added ones included.
    pub fn size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }
}
