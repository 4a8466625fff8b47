//! Text from tokens as they come: whole characters only, spaces where the whole text has them.

use crate::tokenizer::Tokenizer;

/// What a stream of tokens has said so far.
///
/// A token's text can depend on the one before it, and a character can span tokens. So each new token is decoded
/// together with a few before it, and what that adds is emitted once it ends in a whole character.
#[derive(Debug, Default, Clone)]
pub struct Pieces {
    ids: Vec<u32>,
    /// Tokens from here on are decoded together.
    context: usize,
    /// Tokens before this one have been emitted.
    emitted: usize,
}

impl Pieces {
    /// Adds a token and gives the text that it completes, often empty in the middle of a character.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        self.ids.push(id);
        let known = tokenizer.decode(&self.ids[self.context..self.emitted]);
        let all = tokenizer.decode(&self.ids[self.context..]);
        if all.ends_with('\u{FFFD}') || all.len() <= known.len() || !all.is_char_boundary(known.len()) {
            return String::new();
        }
        let new = all[known.len()..].to_string();
        self.context = self.emitted;
        self.emitted = self.ids.len();
        new
    }

    /// The rest at the end of a stream: bytes that never became a character show as U+FFFD.
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> String {
        let known = tokenizer.decode(&self.ids[self.context..self.emitted]);
        let all = tokenizer.decode(&self.ids[self.context..]);
        self.context = self.ids.len();
        self.emitted = self.ids.len();
        all.get(known.len()..).unwrap_or_default().to_string()
    }
}
