//! Chat templates as Hugging Face checkpoints carry them: Jinja with their settings and functions.

use crate::error::TextError;
use enginewright_core::graph::Text;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::{Deserialize, Serialize};
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};
use std::fmt::Write;
use std::io;

const NAME: &str = "chat";

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub role: String,
    pub content: String,
}

/// A checked template with the model's own tokens.
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos_token: String,
    eos_token: String,
}

impl ChatTemplate {
    /// The model's template, or None if it has none.
    ///
    /// # Errors
    /// [`TextError::Template`] if it cannot be parsed.
    pub fn new(text: &Text) -> Result<Option<Self>, TextError> {
        let Some(template) = &text.chat_template else { return Ok(None) };
        let mut environment = Environment::new();
        let broken = |error: Error| TextError::Template { reason: error.to_string() };
        // As `apply_chat_template` of transformers sets them.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(broken)?;
        environment.set_syntax(syntax);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |reason: String| -> Result<String, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, reason))
        });
        environment.add_function("strftime_now", |format: String| now_as(&format));
        environment.add_filter("tojson", as_json);
        environment.add_template_owned(NAME, without_generation_tags(template)).map_err(broken)?;
        let token = |token: &Option<String>| token.clone().unwrap_or_default();
        Ok(Some(Self { environment, bos_token: token(&text.bos_token), eos_token: token(&text.eos_token) }))
    }

    /// The prompt for a conversation, ready for the assistant's answer.
    ///
    /// # Errors
    /// [`TextError::Messages`] if the template refuses it.
    pub fn render(&self, messages: &[Message]) -> Result<String, TextError> {
        let refuse = |error: Error| TextError::Messages {
            reason: error.detail().map_or_else(|| error.to_string(), str::to_string),
        };
        let template = self.environment.get_template(NAME).map_err(refuse)?;
        let values = context! {
            messages => Value::from(messages.iter().map(as_value).collect::<Vec<_>>()),
            // As there: given, but none.
            tools => Value::from(()),
            documents => Value::from(()),
            add_generation_prompt => true,
            bos_token => self.bos_token.as_str(),
            eos_token => self.eos_token.as_str(),
        };
        template.render(values).map_err(refuse)
    }
}

fn as_value(message: &Message) -> Value {
    context! { role => message.role.as_str(), content => message.content.as_str() }
}

/// The local time in a format of strftime(3).
fn now_as(format: &str) -> Result<String, Error> {
    let mut text = String::new();
    write!(text, "{}", chrono::Local::now().format(format)).map_err(|_| {
        Error::new(ErrorKind::InvalidOperation, format!("strftime_now does not know the format {format:?}"))
    })?;
    Ok(text)
}

/// JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: no HTML escapes, a space after `,` and `:`.
fn as_json(value: &Value, arguments: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = arguments.get("indent")?;
    let escapes: Option<bool> = arguments.get("ensure_ascii")?;
    arguments.assert_all_used()?;
    if escapes == Some(true) {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson cannot escape to ASCII"));
    }
    let mut bytes = Vec::new();
    let written = match indent {
        Some(width) => {
            let spaces = " ".repeat(width);
            let pretty = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut bytes, pretty))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut bytes, Spaced)),
    };
    let refuse = |reason: String| Error::new(ErrorKind::BadSerialization, reason);
    written.map_err(|error| refuse(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| refuse(error.to_string()))
}

/// Python's separators.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// The template with `{% generation %}` blocks, which mark the assistant's words for training, as plain blocks.
fn without_generation_tags(template: &str) -> String {
    let mut plain = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{%") {
        let Some(end) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + end];
        let name = tag[2..].trim_matches(['-', '+', ' ', '\t', '\n']);
        plain.push_str(&rest[..start]);
        match name {
            "generation" => plain.push_str(&tag.replacen(name, "if true", 1)),
            "endgeneration" => plain.push_str(&tag.replacen(name, "endif", 1)),
            _ => plain.push_str(tag),
        }
        rest = &rest[start + end..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(source: &str) -> Result<Option<ChatTemplate>, TextError> {
        ChatTemplate::new(&Text { chat_template: Some(source.into()), ..Text::default() })
    }

    fn messages(roles: &[&str]) -> Vec<Message> {
        roles.iter().map(|role| Message { role: (*role).into(), content: format!("from {role}") }).collect()
    }

    #[test]
    fn messages_are_rendered_with_the_generation_prompt() {
        let source = "{% for m in messages %}<{{ m['role'] }}>{{ m.content.strip() }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
        let text = template(source).unwrap().unwrap().render(&messages(&["system", "user"])).unwrap();
        assert_eq!(text, "<system>from system\n<user>from user\n<assistant>");
    }

    #[test]
    fn a_template_that_refuses_says_why() {
        let source =
            "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}";
        let error = template(source).unwrap().unwrap().render(&messages(&["system"])).unwrap_err();
        assert!(error.to_string().contains("no system role"), "{error}");
    }

    #[test]
    fn a_broken_template_is_an_error_at_load() {
        assert!(matches!(template("{% for %}"), Err(TextError::Template { .. })));
    }

    fn rendered(source: &str) -> String {
        template(source).unwrap().unwrap().render(&messages(&["user"])).unwrap()
    }

    #[test]
    fn json_is_written_as_python_writes_it() {
        let source = r#"{{ {"b": [1, "<é>"], "a": messages[0].content} | tojson }}"#;
        assert_eq!(rendered(source), r#"{"b": [1, "<é>"], "a": "from user"}"#);
        assert_eq!(rendered("{{ [1] | tojson(indent=4) }}"), "[\n    1\n]");
    }

    #[test]
    fn the_date_can_be_told_and_a_wrong_format_is_an_error() {
        assert_eq!(rendered("{{ strftime_now('%Y') }}").len(), 4);
        let wrong = template("{{ strftime_now('%!') }}").unwrap().unwrap();
        assert!(wrong.render(&messages(&["user"])).unwrap_err().to_string().contains("%!"));
    }

    #[test]
    fn marks_for_training_are_left_out() {
        let source = "{% generation %}said{%- endgeneration -%} {{ 'x' if tools is none }}";
        assert_eq!(rendered(source), "saidx");
    }

    #[test]
    fn loops_can_be_left_and_methods_of_python_are_there() {
        let source = "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{% endfor %}\
                      {{ 'a,b'.split(',')[-1] ~ ' c '.strip() ~ messages[0].get('none', 'd') }}";
        assert_eq!(rendered(source), "bcd");
    }
}
