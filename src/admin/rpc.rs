//! What every call on `/rpc` needs: who calls, with which right, and the butlers that it reaches.

use std::future::Future;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::failure::Failure;
use super::login_links::LoginLinks;
use super::rights;
use access::{Caller, Grant};
use base::{ButlerName, task};
use butler::Butler;
use supervisor::Supervisor;

/// How many rows to answer with: what was asked for, else what is `usual`; never more than `most`.
pub(super) fn limited(limit: Option<u32>, usual: u32, most: u32) -> Result<u32, Failure> {
    let limit = limit.unwrap_or(usual);
    match (1..=most).contains(&limit) {
        true => Ok(limit),
        false => Err(Failure::invalid(format!("The limit must be from 1 to {most}."))),
    }
}

/// Does `work` to its end even when the caller hangs up: what is committed is begun. `step` names it in the log.
pub(super) fn to_its_end<T, E, W>(
    name: &'static str,
    step: &'static str,
    work: W,
) -> impl Future<Output = Result<T, Failure>> + use<T, E, W>
where
    W: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Into<Failure> + Send + 'static,
{
    let running = task::spawn(task::Kind::Request, name, work);
    async move { running.await.map_err(|e| Failure::internal(step, &e))?.map_err(E::into) }
}

/// A row that another room shows as JSON, as the struct that this room declares for it.
pub(super) fn typed<T: DeserializeOwned>(row: Value) -> Result<T, Failure> {
    serde_json::from_value(row).map_err(|e| Failure::internal("Reading a row", &e))
}

/// A butler that could not be asked.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Unavailable {
    pub butler: String,
    /// Why, in a sentence.
    pub reason: String,
}

impl Unavailable {
    pub fn new(butler: &Butler, reason: &impl ToString) -> Self {
        Self { butler: butler.name().to_string(), reason: reason.to_string() }
    }
}

/// Nothing was found; `unavailable` could not be asked.
pub(super) fn not_found(message: &str, unavailable: &[Unavailable]) -> Failure {
    let mut message = message.to_owned();
    if !unavailable.is_empty() {
        let names: Vec<&str> = unavailable.iter().map(|u| u.butler.as_str()).collect();
        message.push_str(&format!(" (but {} could not be asked)", names.join(", ")));
    }
    Failure::new("not_found", message)
}

/// The daemon's side of the calls: all that can be asked of a household, with the rights of whoever asks.
#[derive(Clone)]
pub struct Rpc {
    pub(super) supervisor: Supervisor,
    /// The channel under which its callers' calls are on record.
    channel: &'static str,
    links: LoginLinks,
}

impl Rpc {
    pub(super) fn new(supervisor: Supervisor) -> Self {
        Self { supervisor, channel: "cli", links: LoginLinks::default() }
    }

    /// The same, for callers that come over another channel.
    pub fn over(&self, channel: &'static str) -> Self {
        Self { channel, ..self.clone() }
    }

    pub fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// The links by which browsers sign in.
    pub fn links(&self) -> &LoginLinks {
        &self.links
    }

    /// A caller's identity for work on a butler.
    pub fn caller(&self, grant: &Arc<Grant>) -> Caller {
        Caller::of(grant.clone(), &self.supervisor.services().clock, self.channel)
    }

    /// The butler, if the grant reaches it and it is up.
    pub async fn butler(&self, grant: &Grant, name: &str) -> Result<Butler, Failure> {
        rights::check_butler(grant, name)?;
        match self.supervisor.butler(name) {
            Ok(butler) => Ok(butler),
            Err(why) => {
                self.known(name).await?;
                Err(Failure::new("butler_unavailable", format!("{}.", why.to_string().trim_end_matches('.'))))
            }
        }
    }

    /// The name of a butler of this household, up or not.
    pub async fn known(&self, name: &str) -> Result<ButlerName, Failure> {
        let status = self.supervisor.status().await;
        let known = status.butlers.iter().any(|b| b.name == name).then(|| ButlerName::new(name).ok()).flatten();
        known.ok_or_else(|| {
            let names: Vec<&str> = status.butlers.iter().map(|b| b.name.as_str()).collect();
            Failure::new("unknown_butler", format!("There is no butler `{name}`; there are: {}.", names.join(", ")))
        })
    }

    /// The butler of this name, or without a name all that the grant reaches: those that can be asked, and why the
    /// others can't.
    pub async fn butlers(&self, grant: &Grant, name: Option<&str>) -> Result<(Vec<Butler>, Vec<Unavailable>), Failure> {
        if let Some(name) = name {
            return Ok((vec![self.butler(grant, name).await?], Vec::new()));
        }
        let butlers = self.supervisor.status().await.butlers.into_iter();
        let names = butlers.filter(|b| !b.removed).map(|b| b.name);
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for name in names.filter(|name| rights::reaches(grant, name)) {
            match self.supervisor.butler(&name) {
                Ok(butler) => up.push(butler),
                Err(e) => down.push(Unavailable { butler: name, reason: e.to_string() }),
            }
        }
        Ok((up, down))
    }
}
