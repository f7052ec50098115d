//! `butlerd init`

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::doctor;
use super::init_model::{self, Chosen};
use super::out::Tone;
use super::problem::{FAILED, Problem};
use super::prompt;
use super::{Outcome, Place, runtime};
use base::Secret;
use config::{Api, RuntimeKind, Zone, load_config};
use offline::setup::{
    Begun, Found, ROSTER, SETTINGS, Service, Start, StartRuntime, begin, install, keep_key, key_name, look, obstacle,
    unit,
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
    /// The address of a model server of your own, such as http://127.0.0.1:11434/v1, for `native`
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// What it speaks: `openai` or `anthropic` [default: openai with --endpoint, else anthropic]
    #[arg(long, value_name = "API", value_parser = super::common::one_of::<Api>())]
    pub api: Option<Api>,
    /// The model [default: the runtime's own]
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
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
    let (start, typed) = answers(&place, &found, &args, asks)?;
    let (name, key) = match typed {
        Some((name, key)) => (name, Some(key)),
        None => (key_name(&start.runtime), key(&args)?),
    };
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
    let of_settings = [&args.owner, &args.zone, &args.endpoint, &args.model].iter().any(|flag| flag.is_some());
    if found.settings_there && (of_settings || args.runtime.is_some() || args.api.is_some()) {
        there.push(format!("{} is there, with owner, zone and runtime in it", found.settings.display()));
    }
    if found.roster_there && args.butlers.is_some() {
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

/// A key that was typed, with the name under which sessions look for it.
type TypedKey = Option<(&'static str, Secret<String>)>;

/// What the flags say, and where they don't, the person, or what is usual.
fn answers(place: &Place, found: &Found, args: &InitArgs, asks: bool) -> Result<(Start, TypedKey), Problem> {
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
    let usual = place.environment.zone.clone().or_else(|| Zone::named("UTC"));
    let usual_name = usual.as_ref().map_or("UTC", Zone::name).to_owned();
    let zone = match &args.zone {
        Some(zone) => zone.clone(),
        None if asks && !found.settings_there => prompt::line("Your time zone", &usual_name)?,
        None => usual_name,
    };
    let zone = Zone::named(&zone).ok_or_else(|| {
        Problem::usage(format!("`{zone}` is not a time zone."), "Write it as Europe/Berlin, America/New_York or UTC.")
    })?;
    let said = args.runtime.is_some() || args.endpoint.is_some() || args.api.is_some() || args.model.is_some();
    let chosen = match asks && !said && !found.settings_there {
        true => init_model::ask(&place.out)?,
        false if found.settings_there => Chosen { runtime: runtime_there(place)?, key: None },
        false => Chosen { runtime: runtime_of(args)?, key: None },
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
    Ok((Start { owner, zone, runtime: chosen.runtime, butlers }, chosen.key))
}

/// The runtime of the settings that are there.
fn runtime_there(place: &Place) -> Result<StartRuntime, Problem> {
    let there = load_config(&place.overrides, &place.environment)?.runtime;
    Ok(StartRuntime { kind: there.kind, api: there.api, endpoint: there.endpoint, model: there.model })
}

/// The runtime that the flags say.
fn runtime_of(args: &InitArgs) -> Result<StartRuntime, Problem> {
    let kind = args.runtime.unwrap_or(RuntimeKind::Native);
    if kind != RuntimeKind::Native && (args.endpoint.is_some() || args.api.is_some()) {
        let sentence = format!("--endpoint and --api are for `native`; {kind} finds its model by itself.");
        return Err(Problem::usage(sentence, "Leave them out, or take --runtime native."));
    }
    let usual = if args.endpoint.is_some() { Api::Openai } else { Api::Anthropic };
    let api = args.api.unwrap_or(usual);
    if api == Api::Openai && args.model.is_none() {
        return Err(Problem::usage("OpenAI's protocol needs a model's name.", "Give it with --model NAME."));
    }
    Ok(StartRuntime { kind, api, endpoint: args.endpoint.clone(), model: args.model.clone() })
}

/// The model's key, from where it was said to be; never from the command line.
fn key(args: &InitArgs) -> Result<Option<Secret<String>>, Problem> {
    if let Some(variable) = &args.key_from_env {
        return match std::env::var(variable) {
            Ok(value) if !value.trim().is_empty() => Ok(Some(Secret::new(value.trim().to_owned()))),
            _ => Err(Problem::usage(format!("{variable} is not set, or is empty; nothing was changed."), "")),
        };
    }
    if args.key_stdin { prompt::piped_secret().map(Some) } else { Ok(None) }
}

/// Says what comes next, and lets the doctor look.
fn finish(place: &Place, begun: &Begun, key: Option<&str>, service: Option<&Service>, found: &Found) -> Outcome {
    let out = place.out.clone();
    // What was typed was tried already.
    let mut report = doctor::look(&place.overrides, &place.environment, false)?;
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
