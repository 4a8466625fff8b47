//! `tokenizer.json` through Hugging Face's own library.

use crate::error::TextError;
use tokenizers::DecoderWrapper;

/// Text to token ids and back.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Whether tokens are spelt in GPT-2's alphabet of bytes.
    is_byte_level: bool,
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
        let is_byte_level = match inner.get_decoder() {
            Some(DecoderWrapper::ByteLevel(_)) => true,
            Some(DecoderWrapper::Sequence(all)) => {
                all.get_decoders().iter().any(|decoder| matches!(decoder, DecoderWrapper::ByteLevel(_)))
            }
            _ => false,
        };
        Ok(Self { inner, is_byte_level })
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

    /// Bytes of one token, special or not; they need not be whole characters.
    pub fn bytes(&self, id: u32) -> Vec<u8> {
        let name = self.name(id);
        if !name.contains('\u{FFFD}') {
            return name.into_bytes();
        }
        let spelt = self.inner.id_to_token(id).unwrap_or_default();
        let exact = if self.is_byte_level { from_byte_alphabet(&spelt) } else { from_hexadecimal(&spelt) };
        exact.unwrap_or_else(|| name.into_bytes())
    }

    /// Number of tokens, added ones included.
    pub fn size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }
}

/// Bytes of a token in GPT-2's alphabet: printable bytes stand for themselves, the others for U+0100 and on.
fn from_byte_alphabet(spelt: &str) -> Option<Vec<u8>> {
    let is_printable = |byte: &u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others = (0..=255u8).filter(|byte| !is_printable(byte));
    let byte = |letter: char| match u32::from(letter) {
        code @ 0..=0xff => Some(code as u8).filter(is_printable),
        code => others.clone().nth(code as usize - 0x100),
    };
    spelt.chars().map(byte).collect()
}

/// The byte of a token like `<0xE2>`.
fn from_hexadecimal(spelt: &str) -> Option<Vec<u8>> {
    let digits = spelt.strip_prefix("<0x")?.strip_suffix('>')?;
    u8::from_str_radix(digits, 16).ok().map(|byte| vec![byte])
}

#[cfg(test)]
mod tests {
    use crate::test_tokenizers::{byte_fallback, byte_level};

    #[test]
    fn every_byte_of_a_broken_character_is_known() {
        let tokenizer = byte_level();
        for byte in 0..=255u8 {
            assert_eq!(tokenizer.bytes(u32::from(byte)), [byte]);
        }
        assert_eq!(tokenizer.bytes(256), b"<end>");
        assert_eq!(byte_fallback().bytes(0xe2), [0xe2]);
    }

    #[test]
    fn special_tokens_are_read_and_not_shown() {
        let tokenizer = byte_level();
        let ids = tokenizer.encode("a<end>", false).unwrap();
        assert_eq!(ids, [0x61, 256]);
        assert_eq!(tokenizer.decode(&ids), "a");
        assert_eq!(tokenizer.name(256), "<end>");
    }

    #[test]
    fn bytes_that_are_no_tokenizer_are_refused_with_the_path() {
        let refused = super::Tokenizer::from_bytes("there/tokenizer.json", b"{}").err().unwrap();
        assert!(refused.to_string().contains("there/tokenizer.json"), "{refused}");
    }
}
