//! Log probabilities in the two shapes that OpenAI has for them.

use enginewright_core::sampling::{Scored, TokenScore};
use enginewright_text::Tokenizer;
use serde_json::{Map, Value, json};

/// The `logprobs` of a completion: lists by token.
#[derive(Debug, Default)]
pub struct CompletionScores {
    tokens: Vec<String>,
    logprobs: Vec<Option<f32>>,
    top: Vec<Option<Value>>,
    offsets: Vec<usize>,
    /// Characters of text before the next token.
    pub offset: usize,
}

impl CompletionScores {
    /// The first token of a prompt: nothing predicts it.
    pub fn push_first(&mut self, tokenizer: &Tokenizer, id: u32) {
        self.push_name(tokenizer, id);
        self.logprobs.push(None);
        self.top.push(None);
    }

    /// A scored token.
    pub fn push(&mut self, tokenizer: &Tokenizer, score: &TokenScore) {
        self.push_name(tokenizer, score.token.id);
        self.logprobs.push(Some(score.token.logprob));
        let mut top = Map::new();
        for scored in &score.top {
            // Two ids may have one text; the likelier came first and stays.
            top.entry(name(tokenizer, scored.id)).or_insert_with(|| json!(scored.logprob));
        }
        self.top.push(if score.top.is_empty() { None } else { Some(Value::Object(top)) });
    }

    fn push_name(&mut self, tokenizer: &Tokenizer, id: u32) {
        self.offsets.push(self.offset);
        // A character counts where it begins.
        self.offset += tokenizer.bytes(id).iter().filter(|byte| !(0x80..0xc0).contains(*byte)).count();
        self.tokens.push(name(tokenizer, id));
    }

    /// As the answer has it; the next call starts anew behind it.
    pub fn take(&mut self) -> Value {
        let taken = std::mem::take(self);
        self.offset = taken.offset;
        json!({
            "tokens": taken.tokens,
            "token_logprobs": taken.logprobs,
            "top_logprobs": taken.top,
            "text_offset": taken.offsets,
        })
    }
}

/// A token's text, or as OpenAI writes part of a character: `bytes:\xe2\x82`.
fn name(tokenizer: &Tokenizer, id: u32) -> String {
    String::from_utf8(tokenizer.bytes(id)).unwrap_or_else(|error| {
        let digits: Vec<String> = error.as_bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("bytes:{}", digits.concat())
    })
}

/// The `logprobs` of a chat: a list of tokens with their rivals.
pub fn chat_scores(tokenizer: &Tokenizer, scores: &[TokenScore]) -> Value {
    let entry = |scored: &Scored| {
        let (name, bytes) = (tokenizer.name(scored.id), tokenizer.bytes(scored.id));
        json!({"token": name, "logprob": scored.logprob, "bytes": bytes})
    };
    let content: Vec<Value> = scores
        .iter()
        .map(|score| {
            let mut token = entry(&score.token);
            token["top_logprobs"] = score.top.iter().map(entry).collect();
            token
        })
        .collect();
    json!({"content": content})
}
