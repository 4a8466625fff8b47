//! Chat templates as Hugging Face checkpoints carry them: Jinja with their settings and functions.

use crate::error::TextError;
use enginewright_core::graph::Text;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::{Deserialize, Serialize};

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
        environment.add_template_owned(NAME, template.clone()).map_err(broken)?;
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
}
