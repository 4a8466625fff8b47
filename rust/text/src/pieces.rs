//! Text from tokens as they come: whole characters only, spaces where the whole text has them.

use crate::tokenizer::Tokenizer;

/// What a stream of tokens has said so far.
///
/// A token's text can depend on the one before it, and a character can span tokens. So each new token is decoded
/// together with a few before it, and what that adds is emitted once it ends in a whole character.
#[derive(Debug, Default, Clone)]
pub struct Pieces {
    /// Tokens that are decoded together: those of the last emission, then those of which not all has been emitted.
    ids: Vec<u32>,
    /// Tokens of the last emission.
    emitted: usize,
    /// Bytes of the text of `ids` that have been emitted.
    sent: usize,
}

/// Tokens that may wait for their character. No character has as many, but a run of broken bytes can go on for ever.
const MOST_HELD: usize = 32;

impl Pieces {
    /// Adds a token and gives the text that it completes, often empty in the middle of a character.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        self.ids.push(id);
        let all = tokenizer.decode(&self.ids);
        let is_long = self.ids.len() - self.emitted > MOST_HELD;
        if !is_long
            && (all.ends_with('\u{FFFD}') || all.len() <= self.sent || !all.is_char_boundary(self.sent))
        {
            return String::new();
        }
        let new = all.get(self.sent..).unwrap_or_default().to_string();
        self.ids.drain(..self.emitted);
        self.emitted = self.ids.len();
        self.sent = tokenizer.decode(&self.ids).len();
        new
    }

    /// The rest at the end of a stream: bytes that never became a character show as U+FFFD.
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> String {
        let all = tokenizer.decode(&self.ids);
        let rest = all.get(self.sent..).unwrap_or_default().to_string();
        *self = Self::default();
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tokenizers::{byte_fallback, byte_level};

    /// Pieces of a stream, and the whole text.
    fn stream(tokenizer: &Tokenizer, ids: &[u32]) -> (Vec<String>, String) {
        let mut pieces = Pieces::default();
        let mut all: Vec<String> = ids.iter().map(|id| pieces.push(tokenizer, *id)).collect();
        all.push(pieces.finish(tokenizer));
        (all, tokenizer.decode(ids))
    }

    #[test]
    fn characters_of_several_tokens_come_whole() {
        let tokenizer = byte_level();
        let text = "é🦀 日本 plain";
        let ids: Vec<u32> = text.bytes().map(u32::from).collect();
        let (pieces, whole) = stream(&tokenizer, &ids);
        assert_eq!(whole, text);
        assert_eq!(pieces.concat(), text);
        assert!(pieces.iter().all(|piece| !piece.contains('\u{FFFD}')), "{pieces:?}");
        assert_eq!(pieces[..6], ["", "é", "", "", "", "🦀"]);
    }

    #[test]
    fn broken_bytes_show_as_in_the_whole_text() {
        let tokenizer = byte_level();
        for bytes in [&b"a\xffb"[..], b"\xf0\x9f\xa6", b"\xc3(\xc3\xa9\xe2\x82x", b"\x80\x80\x80ok"] {
            let ids: Vec<u32> = bytes.iter().map(|byte| u32::from(*byte)).collect();
            let (pieces, whole) = stream(&tokenizer, &ids);
            assert_eq!(pieces.concat(), whole, "{bytes:?}");
        }
    }

    #[test]
    fn any_bytes_give_the_whole_text() {
        let tokenizer = byte_level();
        // A few thousand short streams from a fixed linear congruence: text, broken and not.
        let mut state = 1u64;
        for _ in 0..3000 {
            let ids: Vec<u32> = (0..12)
                .map(|_| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    [0x61, 0xc3, 0xa9, 0xf0, 0x9f, 0xa6, 0x80, 0x20, 0xe2, 0x82, 0xac, 0xff]
                        [(state >> 33) as usize % 12]
                })
                .collect();
            let (pieces, whole) = stream(&tokenizer, &ids);
            assert_eq!(pieces.concat(), whole, "{ids:x?}");
        }
    }

    #[test]
    fn a_long_run_of_broken_bytes_is_not_held_for_ever() {
        let tokenizer = byte_level();
        let (pieces, _) = stream(&tokenizer, &[0x80; 200]);
        assert!(pieces[..100].iter().any(|piece| !piece.is_empty()));
    }

    #[test]
    fn spaces_stay_where_words_meet() {
        let tokenizer = byte_fallback();
        let ids = tokenizer.encode("hello world", false).unwrap();
        let (pieces, whole) = stream(&tokenizer, &ids);
        assert_eq!(whole, "hello world");
        assert_eq!(pieces.concat(), whole);
    }

    #[test]
    fn fallback_bytes_become_characters() {
        let tokenizer = byte_fallback();
        // é as <0xC3> <0xA9>, between words.
        let (pieces, whole) = stream(&tokenizer, &[256, 0xc3, 0xa9, 257]);
        assert_eq!(whole, "helloé world");
        assert_eq!(pieces.concat(), whole);
        assert_eq!(pieces[1], "");
    }
}
