//! The fields of a request's body, taken one by one, so that every error names its field.

use crate::api_error::ApiError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Fields of OpenAI's requests that change no answer: for their bookkeeping, or for features that others have.
const WITHOUT_EFFECT: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "parallel_tool_calls",
    "cache_prompt",
];

/// What is left of a body.
pub struct Fields {
    left: Map<String, Value>,
    /// Names that were asked for, to name the nearest to a wrong one.
    known: Vec<&'static str>,
}

impl Fields {
    /// Parses a body.
    ///
    /// # Errors
    /// 400 if it is no JSON object in UTF-8.
    pub fn parse(body: &[u8]) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body).map_err(|error| {
            ApiError::invalid("", format!("the body is not UTF-8 at byte {}", error.valid_up_to()))
        })?;
        match serde_json::from_str(text) {
            Ok(Value::Object(left)) => Ok(Self { left, known: Vec::new() }),
            Ok(_) => Err(ApiError::invalid("", "the body is JSON, but no object; expected {\"model\": …}")),
            Err(error) => Err(ApiError::invalid("", format!("the body is not JSON: {error}"))),
        }
    }

    /// Takes a field; null is as good as absent.
    ///
    /// # Errors
    /// 400 naming the field if it is of another type.
    pub fn take<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>, ApiError> {
        self.known.push(name);
        match self.left.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value).map(Some).map_err(|error| {
                ApiError::invalid(name, format!("`{name}`: {}", in_json_words(&error.to_string())))
            }),
        }
    }

    /// Takes a field that must be there.
    ///
    /// # Errors
    /// 400 naming the field if it is absent, null or of another type.
    pub fn require<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<T, ApiError> {
        let absent = || ApiError::invalid(name, format!("`{name}` is missing; this route needs it"));
        self.take(name)?.ok_or_else(absent)
    }

    /// Refuses settings that this server does not have, unless their value changes nothing.
    ///
    /// # Errors
    /// 400 naming the field.
    pub fn refuse(&mut self, names: &[&'static str]) -> Result<(), ApiError> {
        for name in names {
            self.known.push(name);
            if let Some(value) = self.left.remove(*name)
                && !changes_nothing(name, &value)
            {
                return Err(ApiError::invalid(name, format!("`{name}` is not supported; leave it out")));
            }
        }
        Ok(())
    }

    /// Refuses whatever is left: a setting that is ignored without a word is worse than an error.
    ///
    /// # Errors
    /// 400 naming the first field that nothing took.
    pub fn finish(self) -> Result<(), ApiError> {
        let Some(name) = self.left.keys().find(|name| !WITHOUT_EFFECT.contains(&name.as_str())) else {
            return Ok(());
        };
        let nearest = self.known.iter().min_by_key(|known| distance(known, name));
        let hint = match nearest {
            Some(known) if distance(known, name) <= 3 => format!("; did you mean `{known}`?"),
            _ => "; leave it out".to_string(),
        };
        Err(ApiError::invalid(name, format!("`{name}` is no field of this route{hint}")))
    }
}

/// Whether a value of a field that is not supported is what everybody has anyway.
fn changes_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => {
            let neutral = if name == "best_of" || name == "repetition_penalty" { 1.0 } else { 0.0 };
            number.as_f64() == Some(neutral)
        }
        Value::String(text) => {
            text.is_empty() || (name == "tool_choice" && (text == "none" || text == "auto"))
        }
        Value::Array(items) => items.is_empty() || (name == "modalities" && items == &["text"]),
        Value::Object(map) => {
            map.is_empty() || (name == "response_format" && map.get("type") == Some(&"text".into()))
        }
        Value::Bool(true) => false,
    }
}

/// The library's message without the names of Rust's types.
fn in_json_words(message: &str) -> String {
    let mut message = message.to_string();
    for (rust, json) in [
        ("expected f32", "expected a number"),
        ("expected i64", "expected a whole number"),
        ("expected u32", "expected a token id"),
        ("a sequence", "a list"),
        ("struct ", ""),
    ] {
        message = message.replace(rust, json);
    }
    message
}

/// Edits between two names (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(outcome: Result<(), ApiError>) -> (Option<String>, String) {
        let error = outcome.unwrap_err();
        (error.param, error.message)
    }

    #[test]
    fn a_misspelt_field_is_refused_with_the_nearest_name() {
        let mut fields = Fields::parse(br#"{"temprature": 1}"#).unwrap();
        assert!(fields.take::<f32>("temperature").unwrap().is_none());
        let (param, message) = refused(fields.finish());
        assert_eq!(param.as_deref(), Some("temprature"));
        assert!(message.contains("`temperature`"), "{message}");
    }

    #[test]
    fn settings_without_effect_and_neutral_values_pass() {
        let body = br#"{"user": "me", "presence_penalty": 0, "tools": [], "best_of": 1}"#;
        let mut fields = Fields::parse(body).unwrap();
        fields.refuse(&["presence_penalty", "tools", "best_of"]).unwrap();
        fields.finish().unwrap();
    }

    #[test]
    fn a_setting_that_is_not_supported_is_refused_by_name() {
        let mut fields = Fields::parse(br#"{"presence_penalty": 0.5}"#).unwrap();
        assert_eq!(refused(fields.refuse(&["presence_penalty"])).0.as_deref(), Some("presence_penalty"));
    }
}
