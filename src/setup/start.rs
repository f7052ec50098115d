//! `butlerd init`: the first files of a household, and its key.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::SetupError;
use super::place::{is_there, whole_directory, write_new};
use super::shipped::{names, unpack};
use base::{Clock, Secret, TenantId};
use config::{Api, CORE_BUTLERS, Config, Environment, Overrides, RuntimeKind, Zone};
use inbox::FALLBACK;
use sessions::adapters::key_names;
use supervisor::{on_ground, with_causes};

/// What a person says of the household that is to be.
#[derive(Debug, Clone)]
pub struct Start {
    pub owner: String,
    pub zone: Zone,
    pub runtime: RuntimeKind,
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

/// Writes settings and roster where there are none yet; what is there stays.
pub fn begin(found: &Found, overrides: &Overrides, start: &Start) -> Result<Begun, SetupError> {
    // Whatever no other butler answers for goes to one of them.
    let mut wanted: Vec<&str> = CORE_BUTLERS.into_iter().chain([FALLBACK]).collect();
    let shipped = names();
    match &start.butlers {
        None => wanted = shipped.clone(),
        Some(chosen) => {
            for name in chosen {
                let Some(known) = shipped.iter().find(|s| *s == name) else {
                    let sentence = format!("No butler `{name}` is shipped; there are: {}.", shipped.join(", "));
                    return Err(SetupError::refused(sentence, "One of your own: butlerd new butler NAME, afterwards."));
                };
                if !wanted.contains(known) {
                    wanted.push(known);
                }
            }
        }
    }
    let mut begun = Begun::default();
    if found.roster_there {
        begun.there.push(found.roster.clone());
    } else {
        let parent = found.roster.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent)
            .map_err(|e| SetupError::failed(format!("{} can't be made: {e}.", parent.display()), ""))?;
        whole_directory(&found.roster, |at| {
            unpack(at, |name| wanted.contains(&name))?;
            wanted.iter().try_for_each(|name| set_runtime(&at.join(name).join("butler.toml"), start.runtime))
        })?;
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
         # identities = {{ telegram = \"4711\" }}\n",
        text(&start.owner),
        text(start.zone.name()),
    )
}

/// Has a butler run another runtime than it is shipped with; the model is then the program's own choice.
fn set_runtime(file: &Path, runtime: RuntimeKind) -> io::Result<()> {
    if runtime == RuntimeKind::Native {
        return Ok(());
    }
    let before = fs::read_to_string(file)?;
    let lines = before.lines().filter(|line| !line.starts_with("model ")).map(|line| match line {
        "type = \"native\"" => format!("type = \"{runtime}\""),
        other => other.to_owned(),
    });
    fs::write(file, lines.collect::<Vec<_>>().join("\n") + "\n")
}

/// The name under which the runtime looks for its key.
pub fn key_name(runtime: RuntimeKind) -> &'static str {
    key_names(runtime, Api::Anthropic).first().copied().unwrap_or_default()
}

/// Stores a key, encrypted, in the household's database, which is made for it if there is none. No daemon may run.
pub async fn store_key(config: &Config, name: &'static str, key: &Secret<String>) -> Result<(), SetupError> {
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

/// A key of this name is stored, and stays.
pub fn known_key(name: &str) -> SetupError {
    SetupError::failed(
        format!("{name} is stored already, and stays as it is."),
        format!("Replace it: butlerd secret set {name}"),
    )
}
