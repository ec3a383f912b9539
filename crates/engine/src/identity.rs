//! What a definition is known by.

use std::fmt;

use crate::digest::digest_of;
use crate::json::Json;

/// What a definition is known by: a digest of its content, or the version of the program that it is
/// built into; and the constants that it is configured with, since they change what is decided.
///
/// As a text it is what runs and consents keep of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    text: String,
    configured: bool,
}

impl Identity {
    /// The identity of this content, with these constants.
    pub fn new(content: String, constants: &[(String, Json)]) -> Identity {
        if constants.is_empty() {
            return Identity { text: content, configured: false };
        }
        let values = constants.iter();
        let values: Vec<String> =
            values.map(|(name, value)| format!("{name}={}", value.to_text(None))).collect();
        let values = digest_of(values.iter().map(String::as_bytes));
        Identity { text: format!("{content} with {values}"), configured: true }
    }

    /// Whether the configuration sets constants of the definition.
    pub fn is_configured(&self) -> bool {
        self.configured
    }

    /// The identity as it is stored.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_part_of_it_whatever_the_content_is_called() {
        let plain = Identity::new("done with it".into(), &[]);
        assert_eq!((plain.as_str(), plain.is_configured()), ("done with it", false));
        let limit = |n: i64| [("limit".to_string(), Json::from(n))];
        let configured = Identity::new("abc".into(), &limit(3));
        assert!(configured.is_configured());
        assert!(configured.as_str().starts_with("abc with "));
        assert_ne!(configured, Identity::new("abc".into(), &limit(4)));
    }
}
