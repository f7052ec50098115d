//! Why a call was refused: a stable name for programs, a sentence for people.

use jsonrpsee::types::ErrorObjectOwned;
use serde::{Deserialize, Serialize};

use access::TokenError;
use access::credentials::CredentialError;
use base::text::capital;
use sessions::TriggerError;

/// The number that JSON-RPC wants; what counts is the name in the error's data.
const NUMBER: i32 = -32000;

/// A refused or failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// `forbidden`, `not_found`, `no_model`, …
    pub code: String,
    pub message: String,
}

#[derive(Serialize, Deserialize)]
struct Data {
    code: String,
}

impl Failure {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }

    /// The token is right but not for this.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new("forbidden", message)
    }

    /// An argument that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid_arguments", message)
    }

    /// Something of the daemon's own broke: the log has the details, the caller a sentence.
    pub fn internal(step: &str, error: &dyn std::fmt::Display) -> Self {
        tracing::error!(step, %error, "an admin call failed");
        Self::new("internal", format!("{step} failed; the daemon's log says why."))
    }

    /// Reads a failure back from what the client got.
    pub fn of(error: &ErrorObjectOwned) -> Self {
        let data = error.data().and_then(|raw| serde_json::from_str::<Data>(raw.get()).ok());
        let code = match (data, error.code()) {
            (Some(data), _) => data.code,
            (None, -32602) => "invalid_arguments".to_owned(),
            (None, -32601) => "unknown_method".to_owned(),
            (None, _) => "internal".to_owned(),
        };
        Self { code, message: error.message().to_owned() }
    }
}

impl From<Failure> for ErrorObjectOwned {
    fn from(failure: Failure) -> Self {
        ErrorObjectOwned::owned(NUMBER, failure.message, Some(Data { code: failure.code }))
    }
}

impl From<supervisor::ReloadError> for Failure {
    fn from(e: supervisor::ReloadError) -> Self {
        use supervisor::ReloadError;
        match e {
            ReloadError::Config(refused) => {
                let told: Vec<String> = refused.mistakes().map(ToString::to_string).collect();
                let message =
                    format!("Nothing was reloaded, because the configuration has mistakes:\n{}", told.join("\n"));
                Self::new("configuration", message)
            }
            ReloadError::Ending => Self::new("stopping", "Nothing was reloaded: the household is being stopped."),
        }
    }
}

const DATABASE_AWAY: &str = "The database can't be reached. Nothing was changed; try again later.";
const MACHINE_FAILS: &str = "The database can't do this just now, because the machine is short of something (`butlerd status` \
                             and `butlerd doctor` say of what). Nothing was changed; try again later.";

impl From<store::StoreError> for Failure {
    fn from(e: store::StoreError) -> Self {
        match e.fault() {
            Some(_) if e.is_connection() => Self::new("unavailable", DATABASE_AWAY),
            Some(_) => Self::new("unavailable", MACHINE_FAILS),
            None => Self::internal("The database's part of this", &e),
        }
    }
}

impl From<CredentialError> for Failure {
    fn from(e: CredentialError) -> Self {
        match e {
            CredentialError::Store(e) => e.into(),
            // The name may be a value that was put in the wrong place, so it is not repeated.
            CredentialError::BadName(_) => Self::invalid(
                "That is not a name for a secret: use capital letters, digits and `_`, as in ANTHROPIC_API_KEY.",
            ),
            CredentialError::BadValue => Self::invalid(format!("{}.", capital(&e.to_string()))),
            CredentialError::WrongKey(_) => Self::new("wrong_key", format!("{}.", capital(&e.to_string()))),
            CredentialError::Entropy(_) => Self::internal("Storing the secret", &e),
        }
    }
}

impl From<TokenError> for Failure {
    fn from(e: TokenError) -> Self {
        match e {
            TokenError::Store(e) => e.into(),
            TokenError::Unknown(id) => {
                Self::new("not_found", format!("There is no live token {id}. See: butlerd token list"))
            }
            TokenError::Entropy(_) => Self::internal("Making the token", &e),
        }
    }
}

impl From<TriggerError> for Failure {
    fn from(e: TriggerError) -> Self {
        match e {
            TriggerError::Store(e) => e.into(),
            // These start with the butler's name.
            e @ (TriggerError::NoModel(_)
            | TriggerError::Budget(_)
            | TriggerError::Capacity { .. }
            | TriggerError::Stopping(_)
            | TriggerError::Unavailable(_)) => Self::new(e.code(), format!("{}.", e.to_string().trim_end_matches('.'))),
            e => Self::new(e.code(), format!("{}.", capital(e.to_string().trim_end_matches('.')))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_the_way_to_the_client() {
        let failure = Failure::forbidden("This token is for something else.");
        let object: ErrorObjectOwned = failure.clone().into();
        assert_eq!(Failure::of(&object), failure);
        let foreign = ErrorObjectOwned::owned(-32602, "Invalid params", None::<()>);
        assert_eq!(Failure::of(&foreign).code, "invalid_arguments");
    }

    #[test]
    fn a_name_that_may_be_a_value_is_not_repeated() {
        let failure = Failure::from(CredentialError::BadName("KEY=sk-very-secret".into()));
        assert!(!failure.message.contains("sk-very-secret"));
    }

    #[test]
    fn sentences_start_with_a_capital() {
        let failure = Failure::from(TriggerError::PromptEmpty);
        assert_eq!(failure.message, "The prompt is empty.");
        assert_eq!(failure.code, "invalid_prompt");
    }
}
