//! Small tokenizers of the two kinds that decoders have.

use crate::tokenizer::Tokenizer;
use serde_json::json;

/// Byte-level as GPT-2's: token n is byte n; 256 is the special token `<end>`.
pub fn byte_level() -> Tokenizer {
    let printable = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 256;
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..256u32 {
        let code = if printable(byte) {
            byte
        } else {
            next += 1;
            next - 1
        };
        vocabulary.insert(char::from_u32(code).unwrap().to_string(), json!(byte));
    }
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let end = json!({"id": 256, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
                     "normalized": false, "special": true});
    read(&json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [end], "normalizer": null,
        "pre_tokenizer": byte_level, "post_processor": null, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }))
}

/// As SentencePiece's: token n is `<0xn>`; 256 is `hello` at the start of a word, 257 `world`.
pub fn byte_fallback() -> Tokenizer {
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..256 {
        vocabulary.insert(format!("<0x{byte:02X}>"), json!(byte));
    }
    vocabulary.insert("\u{2581}hello".into(), json!(256));
    vocabulary.insert("\u{2581}world".into(), json!(257));
    let pieces: Vec<serde_json::Value> = {
        let mut all: Vec<_> = vocabulary.iter().collect();
        all.sort_by_key(|(_, id)| id.as_u64());
        all.into_iter().map(|(piece, _)| json!([piece, -1.0])).collect()
    };
    read(&json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"}]},
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": true},
    }))
}

fn read(document: &serde_json::Value) -> Tokenizer {
    Tokenizer::from_bytes("tokenizer.json", document.to_string().as_bytes()).unwrap()
}
