//! `butlerd init`: the first files of a household, and its key.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::SetupError;
use super::place::{is_there, whole_directory, write_new};
use super::shipped::{names, unpack};
use admin::api::SecretsApiClient;
use admin::{Client, Sealed};
use base::{Clock, Secret, TenantId};
use config::{Api, CORE_BUTLERS, Config, Environment, Overrides, RuntimeKind, Zone};
use inbox::FALLBACK;
use sessions::adapters::key_names;
use supervisor::{on_ground, with_causes};

/// What is to run the sessions of the household.
#[derive(Debug, Clone)]
pub struct StartRuntime {
    pub kind: RuntimeKind,
    /// The protocol that `native` speaks.
    pub api: Api,
    /// The owner's own model server, or another one than the vendor's.
    pub endpoint: Option<String>,
    /// `None` leaves it to the defaults.
    pub model: Option<String>,
}

impl StartRuntime {
    /// A runtime that speaks to its vendor, with the model that it is used with.
    pub fn of_vendor(kind: RuntimeKind) -> Self {
        Self { kind, api: Api::Anthropic, endpoint: None, model: None }
    }

    /// As the table `[runtime]` of the settings says it.
    fn lines(&self) -> String {
        let text = |s: &str| serde_json::Value::from(s).to_string();
        let mut lines = format!("type = \"{}\"\n", self.kind);
        if self.api != Api::Anthropic {
            lines.push_str(&format!("api = \"{}\"\n", self.api));
        }
        for (key, value) in [("endpoint", &self.endpoint), ("model", &self.model)] {
            lines.extend(value.iter().map(|value| format!("{key} = {}\n", text(value))));
        }
        lines
    }
}

/// What a person says of the household that is to be.
#[derive(Debug, Clone)]
pub struct Start {
    pub owner: String,
    pub zone: Zone,
    pub runtime: StartRuntime,
    /// The butlers besides those that every household has; `None`: all that are shipped.
    pub butlers: Option<Vec<String>>,
}

/// Where the files of a household belong, and what is there.
#[derive(Debug, Serialize)]
pub struct Found {
    pub settings: PathBuf,
    pub roster: PathBuf,
    pub settings_there: bool,
    pub roster_there: bool,
}

/// What was made, and what was there before.
#[derive(Debug, Default, Serialize)]
pub struct Begun {
    pub made: Vec<PathBuf>,
    pub there: Vec<PathBuf>,
}

/// Where the flags, and without them the defaults, put things. Relative paths start at the working directory.
pub fn look(overrides: &Overrides, environment: &Environment) -> Found {
    let at = |given: &Option<PathBuf>, usual: &str| {
        environment.working_dir.join(given.clone().unwrap_or_else(|| PathBuf::from(usual)))
    };
    let settings = at(&overrides.config_file, "config/butlerd.toml");
    let roster = at(&overrides.roster, "roster");
    Found { settings_there: is_there(&settings), roster_there: is_there(&roster), settings, roster }
}

/// Whether all of these butlers are shipped.
pub fn check_butlers(chosen: &[String]) -> Result<(), SetupError> {
    let shipped = names();
    let Some(unknown) = chosen.iter().find(|name| !shipped.contains(&name.as_str())) else { return Ok(()) };
    let sentence = format!("No butler `{unknown}` is shipped; there are: {}.", shipped.join(", "));
    Err(SetupError::request(sentence, "One of your own: butlerd new butler NAME, afterwards."))
}

/// Writes settings and roster where there are none yet; what is there stays.
pub fn begin(found: &Found, overrides: &Overrides, start: &Start) -> Result<Begun, SetupError> {
    // Whatever no other butler answers for goes to one of them.
    let mut wanted: Vec<&str> = CORE_BUTLERS.into_iter().chain([FALLBACK]).collect();
    match &start.butlers {
        None => wanted = names(),
        Some(chosen) => {
            check_butlers(chosen)?;
            let chosen = chosen.iter().map(String::as_str);
            wanted.extend(chosen.filter(|name| !CORE_BUTLERS.contains(name) && *name != FALLBACK));
        }
    }
    let mut begun = Begun::default();
    if found.roster_there {
        begun.there.push(found.roster.clone());
    } else {
        let parent = found.roster.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent)
            .map_err(|e| SetupError::failed(format!("{} can't be created: {e}.", parent.display()), ""))?;
        whole_directory(&found.roster, |at| unpack(at, |name| wanted.contains(&name)))?;
        begun.made.push(found.roster.clone());
    }
    if found.settings_there {
        begun.there.push(found.settings.clone());
    } else {
        write_new(&found.settings, &settings(found, overrides, start), 0o644)
            .map_err(|e| SetupError::failed(format!("{} can't be written: {e}.", found.settings.display()), ""))?;
        begun.made.push(found.settings.clone());
    }
    Ok(begun)
}

fn settings(found: &Found, overrides: &Overrides, start: &Start) -> String {
    let text = |s: &str| serde_json::Value::from(s).to_string();
    let path = |p: &Path| text(&p.display().to_string());
    let mut daemon = format!("roster = {}\n", path(&found.roster));
    if let Some(dir) = &overrides.data_dir {
        let base = found.roster.parent().unwrap_or(Path::new("/"));
        let dir = std::path::absolute(dir).unwrap_or_else(|_| base.join(dir));
        daemon.push_str(&format!("data_dir = {}\n", path(&dir)));
    }
    format!(
        "# The settings of this household. `butlerd config` prints every key with its default and its meaning.\n\n\
         [daemon]\n{daemon}\n\
         [owner]\nname = {}\ntime_zone = {}\n\
         # Who you are on other channels, so that your messages from there are known as yours:\n\
         # identities = {{ telegram = \"4711\" }}\n\n\
         # What runs the sessions of all butlers; one of them may have a [runtime] of its own in its butler.toml.\n\
         [runtime]\n{}",
        text(&start.owner),
        text(start.zone.name()),
        start.runtime.lines(),
    )
}

/// The name under which the runtime looks for its key.
pub fn key_name(runtime: &StartRuntime) -> &'static str {
    key_names(runtime.kind, runtime.api).first().copied().unwrap_or_default()
}

/// Stores a key, encrypted, in the household's database, which is made for it if there is none. No daemon may run.
async fn store_key(config: &Config, name: &'static str, key: &Secret<String>) -> Result<(), SetupError> {
    let clock = Clock::of_environment();
    let stored = on_ground(config, &clock, async |credentials| {
        let known = credentials.list(&TenantId::owner()).await?;
        if known.iter().any(|secret| secret.name == name) {
            return Ok(false);
        }
        credentials.set(&TenantId::owner(), name, key).await.map(|()| true)
    });
    let failed = |why: String| {
        let sentence = format!("The key can't be stored: {}.", why.trim_end_matches('.'));
        SetupError::failed(sentence, format!("Once the daemon runs: butlerd secret set {name}"))
    };
    match stored.await {
        Ok(Ok(true)) => Ok(()),
        Ok(Ok(false)) => Err(known_key(name)),
        Ok(Err(e)) => Err(failed(with_causes(&e))),
        Err(e) => Err(failed(with_causes(&e))),
    }
}

/// Stores the key: through the daemon where one runs, else without.
pub async fn keep_key(config: &Config, name: &'static str, key: &Secret<String>) -> Result<(), SetupError> {
    let Ok(client) = Client::find(&config.daemon.data_dir) else { return store_key(config, name, key).await };
    let calls = client.quick()?;
    let known = calls.secret_list().await.map_err(|e| client.error(e))?;
    if known.iter().any(|secret| secret.name == name) {
        return Err(known_key(name));
    }
    calls.secret_set(name.to_owned(), Sealed::from(key.clone())).await.map_err(|e| client.error(e))?;
    Ok(())
}

/// A key of this name is stored, and stays.
fn known_key(name: &str) -> SetupError {
    SetupError::failed(
        format!("{name} is stored already, and stays as it is."),
        format!("Replace it: butlerd secret set {name}"),
    )
}
