//! `butlerd init`

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::doctor;
use super::out::Tone;
use super::problem::{FAILED, Problem};
use super::prompt;
use super::{Outcome, Place, runtime};
use base::Secret;
use config::{Environment, RuntimeKind, Zone, load_config};
use offline::setup::{
    Begun, Found, ROSTER, SETTINGS, Service, Start, begin, install, keep_key, key_name, look, obstacle, unit,
};

/// `init`
#[derive(Debug, Clone, Default, Args)]
pub struct InitArgs {
    /// Your name, as butlers call you
    #[arg(long, value_name = "NAME")]
    pub owner: Option<String>,
    /// Your time zone, such as Europe/Berlin [default: this machine's]
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// What runs the sessions: `claude-code`, `codex`, `gemini` or `native` [default: native]
    #[arg(long, value_name = "RUNTIME", value_parser = super::common::one_of::<RuntimeKind>())]
    pub runtime: Option<RuntimeKind>,
    /// Take the model's key from this variable of the environment
    #[arg(long, value_name = "VARIABLE", conflicts_with = "key_stdin")]
    pub key_from_env: Option<String>,
    /// Take the model's key from standard input
    #[arg(long)]
    pub key_stdin: bool,
    /// Which butlers, besides switchboard, messenger and general [default: all that are shipped]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub butlers: Option<Vec<String>>,
    /// Install and start it as a service of systemd; where that can't be, say what root would do
    #[arg(long)]
    pub service: bool,
    /// Print the unit file, and do nothing
    #[arg(long)]
    pub print_unit: bool,
}

pub fn run(mut place: Place, args: InitArgs) -> Outcome {
    let out = place.out.clone();
    if args.print_unit {
        out.line(unit().trim_end());
        return Ok(0);
    }
    let as_service = args.service && obstacle().is_none();
    if as_service {
        place.overrides.config_file.get_or_insert_with(|| SETTINGS.into());
        place.overrides.roster.get_or_insert_with(|| ROSTER.into());
    }
    let found = look(&place.overrides, &place.environment);
    refuse_changes(&found, &args)?;
    let asks = std::io::stdin().is_terminal() && !out.json && !args.key_stdin;
    let start = answers(&place.environment, &found, &args, asks)?;
    let name = key_name(start.runtime);
    let key = key(&args, name, asks && !(found.settings_there && found.roster_there))?;
    let begun = begin(&found, &place.overrides, &start)?;
    // From now on by the files that are there.
    place.overrides.config_file = Some(found.settings.clone());
    place.overrides.roster = Some(found.roster.clone());
    if !out.json {
        begun.made.iter().for_each(|file| out.line(&format!("{} {}", out.paint(Tone::Good, "made "), file.display())));
        begun
            .there
            .iter()
            .for_each(|file| out.line(&format!("{} {}", out.paint(Tone::Faint, "there"), file.display())));
    }
    if let (Some(key), false) = (&key, as_service) {
        let config = load_config(&place.overrides, &place.environment)?;
        runtime()?.block_on(keep_key(&config, name, key))?;
        if !out.json {
            out.line(&format!("{} {name}, encrypted in the database", out.paint(Tone::Good, "kept ")));
        }
    }
    let service = match args.service {
        true => Some(install(&found.settings, &found.roster, key.as_ref().map(|key| (name, key)))?),
        false => None,
    };
    finish(&place, &begun, key.is_some().then_some(name), service.as_ref(), &found)
}

/// What is there is not changed: a wish that would change it is refused before anything is written.
fn refuse_changes(found: &Found, args: &InitArgs) -> Result<(), Problem> {
    let mut there: Vec<String> = Vec::new();
    if found.settings_there && (args.owner.is_some() || args.zone.is_some()) {
        there.push(format!("{} is there, with owner and zone in it", found.settings.display()));
    }
    if found.roster_there && (args.butlers.is_some() || args.runtime.is_some()) {
        there.push(format!("{} is there, with its butlers", found.roster.display()));
    }
    if there.is_empty() {
        return Ok(());
    }
    let sentence = format!("{}; nothing was changed.", there.join("; "));
    let next =
        "Edit the files, add a butler with `butlerd new butler NAME`, or begin elsewhere with --config and --roster.";
    Err(Problem::new(FAILED, "there_already", sentence, next))
}

/// What the flags say, and where they don't, the person, or what is usual.
fn answers(environment: &Environment, found: &Found, args: &InitArgs, asks: bool) -> Result<Start, Problem> {
    let user = || std::env::var("USER").unwrap_or_default();
    let owner = match &args.owner {
        Some(owner) => owner.trim().to_owned(),
        None if found.settings_there => String::new(),
        None if asks => prompt::line("Your name", &user())?,
        None => return Err(Problem::usage("The household needs an owner.", "Give the name with --owner NAME.")),
    };
    if owner.is_empty() && !found.settings_there {
        return Err(Problem::usage("A household needs an owner's name.", "Give the name with --owner NAME."));
    }
    let usual = environment.zone.clone().or_else(|| Zone::named("UTC"));
    let usual_name = usual.as_ref().map_or("UTC", Zone::name).to_owned();
    let zone = match &args.zone {
        Some(zone) => zone.clone(),
        None if asks && !found.settings_there => prompt::line("Your time zone", &usual_name)?,
        None => usual_name,
    };
    let zone = Zone::named(&zone).ok_or_else(|| {
        Problem::usage(format!("`{zone}` is not a time zone."), "Write it as Europe/Berlin, America/New_York or UTC.")
    })?;
    let runtime = match args.runtime {
        Some(runtime) => runtime,
        None if asks && !found.roster_there => {
            let typed = prompt::line("What runs the sessions (native, claude-code, codex, gemini)", "native")?;
            typed.parse::<RuntimeKind>().map_err(|_| Problem::usage(format!("`{typed}` is not a runtime."), ""))?
        }
        None => RuntimeKind::Native,
    };
    let butlers = match &args.butlers {
        Some(butlers) => Some(butlers.clone()),
        None if asks && !found.roster_there => {
            let shipped = offline::setup::shipped_butlers().join(", ");
            let typed = prompt::line(&format!("Which butlers, of {shipped}"), "all")?;
            let chosen = typed.split([',', ' ']).map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned);
            (typed != "all").then(|| chosen.collect())
        }
        None => None,
    };
    Ok(Start { owner, zone, runtime, butlers })
}

/// The model's key, from where it was said to be; never from the command line.
fn key(args: &InitArgs, name: &str, asks: bool) -> Result<Option<Secret<String>>, Problem> {
    if let Some(variable) = &args.key_from_env {
        return match std::env::var(variable) {
            Ok(value) if !value.trim().is_empty() => Ok(Some(Secret::new(value.trim().to_owned()))),
            _ => Err(Problem::usage(format!("{variable} is not set, or is empty; nothing was changed."), "")),
        };
    }
    if args.key_stdin {
        return prompt::piped_secret().map(Some);
    }
    if !asks || prompt::line(&format!("Store {name} now (yes, no)"), "yes")? != "yes" {
        return Ok(None);
    }
    prompt::secret(&format!("{name} (not shown)")).map(Some)
}

/// Says what comes next, and lets the doctor look.
fn finish(place: &Place, begun: &Begun, key: Option<&str>, service: Option<&Service>, found: &Found) -> Outcome {
    let out = place.out.clone();
    let mut report = doctor::look(&place.overrides, &place.environment)?;
    if let Some(key) = key {
        // Without a daemon the doctor can't see what is stored; we have just stored it.
        report.settle("keys", key, format!("{key} is kept; the daemon finds it when it starts"));
    }
    let left = service.is_some_and(|service| !service.installed);
    let code = if left || report.problems > 0 { FAILED } else { 0 };
    if out.json {
        out.value(&json!({"made": begun.made, "there": begun.there, "key": key, "service": service, "doctor": report}));
        return Ok(code);
    }
    out.line("");
    doctor::show(&out, &report);
    out.line("");
    match service {
        Some(service) if service.installed => {
            out.line("The service runs. Write to your household: butlerd chat (as the user butlerd or root)");
        }
        Some(service) => {
            let why = service.why.as_deref().unwrap_or_default();
            out.line(&format!(
                "{} {why}. As root, where systemd runs:",
                out.paint(Tone::Warn, "No service was installed:")
            ));
            service.commands.iter().for_each(|command| out.line(&format!("  {command}")));
        }
        None => {
            let flags =
                match found.settings == PathBuf::from(&place.environment.working_dir).join("config/butlerd.toml") {
                    true => String::new(),
                    false => format!(" --config {}", found.settings.display()),
                };
            out.line(&format!("Now: butlerd serve{flags}, and in another terminal: butlerd chat{flags}"));
        }
    }
    Ok(code)
}
