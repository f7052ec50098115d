//! What a command has that talks to the daemon.

use jsonrpsee::core::ClientError;
use jsonrpsee_http_client::HttpClient;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::out::Out;
use super::problem::{FAILED, Problem};
use super::{Outcome, Place};
use admin::Client;
use admin::api::WorkApiClient;
use config::{Config, load_config};

/// The daemon, the settings, and where answers are printed.
pub struct Caller {
    pub client: Client,
    pub config: Config,
    pub out: Out,
}

impl Caller {
    /// Finds the daemon of these settings.
    pub fn find(place: Place) -> Result<Self, Problem> {
        let config = load_config(&place.overrides, &place.environment)?;
        let client = Client::find(&config.daemon.data_dir)?;
        let zone = config.owner.time_zone.time_zone().clone();
        Ok(Self { client, config, out: Out { zone, ..place.out } })
    }

    /// For calls that answer at once.
    pub fn quick(&self) -> Result<HttpClient, Problem> {
        Ok(self.client.quick()?)
    }

    /// For calls that last as long as what they start.
    pub fn patient(&self) -> Result<HttpClient, Problem> {
        Ok(self.client.patient()?)
    }

    /// An answer, or what its failure means.
    pub fn got<T>(&self, answer: Result<T, ClientError>) -> Result<T, Problem> {
        Ok(answer.map_err(|e| self.client.error(e))?)
    }

    /// Prints an answer: as JSON, or the way that `people` prints it.
    pub fn show<T: Serialize>(&self, answer: Result<T, ClientError>, people: impl FnOnce(&Out, &T)) -> Outcome {
        self.out.answer(&self.got(answer)?, people)
    }

    /// Prints a list: as JSON, or the way that `people` prints it.
    pub fn list<T: Serialize>(&self, answer: Result<Vec<T>, ClientError>, people: impl FnOnce(&Out, &[T])) -> Outcome {
        self.out.list(&self.got(answer)?, &[], people)
    }

    /// Calls a butler's tool with these arguments; those that are null are left out. A refusal of the tool is the
    /// command's end.
    pub async fn tool<T: DeserializeOwned>(&self, butler: &str, tool: &str, args: Value) -> Result<T, Problem> {
        let args = match args {
            Value::Object(args) => args.into_iter().filter(|(_, value)| !value.is_null()).collect(),
            _ => Map::new(),
        };
        // Some look through the whole house.
        let calls = self.patient()?;
        let answer = self.got(calls.tool_call(butler.to_owned(), tool.to_owned(), Some(args)).await)?;
        if answer.is_error || answer.result["status"] == "error" {
            let code = answer.result["code"].as_str().unwrap_or("failed");
            let said = answer.result["error"].as_str().map_or_else(|| answer.result.to_string(), str::to_owned);
            return Err(Problem::new(FAILED, code, said, ""));
        }
        serde_json::from_value(answer.result).map_err(|e| Problem::foreign(&e))
    }
}
