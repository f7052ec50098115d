//! A secret on its way through a call: it travels in bodies, and prints itself nowhere.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use base::Secret;

/// A secret text as a call's parameter or answer.
#[derive(Clone, Debug)]
pub struct Sealed(Secret<String>);

impl Sealed {
    /// The text itself.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The secret without its travelling clothes.
    pub fn secret(&self) -> &Secret<String> {
        &self.0
    }
}

impl From<Secret<String>> for Sealed {
    fn from(secret: Secret<String>) -> Self {
        Self(secret)
    }
}

impl From<String> for Sealed {
    fn from(text: String) -> Self {
        Self(Secret::new(text))
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        // Whatever is no text is refused without being repeated in the error.
        String::deserialize(d).map(Self::from).map_err(|_| serde::de::Error::custom("a text was expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_travels_but_does_not_print() {
        let sealed: Sealed = serde_json::from_str("\"s3cret\"").unwrap();
        assert_eq!(sealed.expose(), "s3cret");
        assert_eq!(serde_json::to_string(&sealed).unwrap(), "\"s3cret\"");
        assert!(!format!("{sealed:?}").contains("s3cret"));
        let wrong = serde_json::from_str::<Sealed>("{\"key\": \"s3cret\"}").unwrap_err();
        assert!(!wrong.to_string().contains("s3cret"), "{wrong}");
    }
}
