//! `butlerd init`

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::doctor;
use super::init_model::{self, Chosen};
use super::init_try::{Tried, tried};
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::prompt;
use super::{Outcome, Place, runtime};
use base::Secret;
use config::{Api, Overrides, RuntimeKind, SpawnerConfig, Zone, load_config};
use offline::setup::{
    Begun, Found, ROSTER, SETTINGS, Service, Start, StartRuntime, begin, check_butlers, install, keep_key, key_name,
    look, obstacle, unit,
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
    refuse_changes(&place, &found, &args)?;
    let asks = std::io::stdin().is_terminal() && !out.json && !args.key_stdin;
    let (start, typed) = answers(&place, &found, &args, asks)?;
    let (name, key) = match typed {
        Some((name, key)) => (name, Some(key)),
        None => (key_name(&start.runtime), key(&args)?),
    };
    let tries = match found.settings_there || asks && !by_flags(&args) {
        // It was tried where it was typed, or nobody has said anything new.
        true => Vec::new(),
        false => {
            let settings = spawner(&place, &found)?;
            runtime()?.block_on(tried(&settings, &start.runtime, key.as_ref().map(|key| (name, key))))
        }
    };
    if !out.json {
        tries.iter().for_each(|tried| tried.print(&out, (Tone::Warn, "warning:")));
    }
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
    finish(&place, &begun, (key.is_some().then_some(name), &tries), service.as_ref(), &found)
}

/// What is there is not changed: a wish that would change it is refused before anything is written.
fn refuse_changes(place: &Place, found: &Found, args: &InitArgs) -> Result<(), Problem> {
    let mut there: Vec<String> = Vec::new();
    let of_settings = args.owner.is_some() || args.zone.is_some() || by_flags(args);
    // A sample with nothing but comments is no household's. As a service it may have its reasons.
    let unowned = found.settings_there
        && !args.service
        && load_config(&place.overrides, &place.environment)?.owner.name.is_none();
    if unowned {
        let next = "Set [owner] name and [runtime] in it, or begin in an empty directory: butlerd init";
        let sentence = format!("{} is there, and sets no owner; nothing was changed.", found.settings.display());
        return Err(Problem::new(FAILED, "there_already", sentence, next));
    }
    if found.settings_there && of_settings {
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

/// Whether the flags say what runs the sessions.
fn by_flags(args: &InitArgs) -> bool {
    args.runtime.is_some() || args.endpoint.is_some() || args.api.is_some() || args.model.is_some()
}

/// What the flags say, and where they don't, the person, or what is usual.
fn answers(place: &Place, found: &Found, args: &InitArgs, asks: bool) -> Result<(Start, TypedKey), Problem> {
    // Before anything is typed.
    args.butlers.as_deref().map_or(Ok(()), check_butlers)?;
    let asks_settings = asks && !found.settings_there;
    let owner = owner(&place.out, found, args, asks)?;
    let zone = zone(place, args, asks_settings)?;
    let chosen = match asks_settings && !by_flags(args) {
        true => init_model::ask(&place.out, &spawner(place, found)?)?,
        false if found.settings_there => Chosen { runtime: runtime_there(place)?, key: None },
        false => Chosen { runtime: runtime_of(args)?, key: None },
    };
    let butlers = match &args.butlers {
        None if asks && !found.roster_there => butlers(&place.out)?,
        given => given.clone(),
    };
    Ok((Start { owner, zone, runtime: chosen.runtime, butlers }, chosen.key))
}

/// Where models and programs are, before there is a file that says it.
fn spawner(place: &Place, found: &Found) -> Result<SpawnerConfig, Problem> {
    let named = place.overrides.config_file.clone().filter(|_| found.settings_there);
    let overrides = Overrides { config_file: named, ..place.overrides.clone() };
    Ok(load_config(&overrides, &place.environment)?.spawner)
}

/// Asks until the answer can be read.
fn asked<T>(out: &Out, question: &str, usual: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Problem> {
    loop {
        match read(&prompt::line(question, usual)?) {
            Ok(answer) => return Ok(answer),
            Err(why) => init_model::complain(out, &why),
        }
    }
}

fn owner(out: &Out, found: &Found, args: &InitArgs, asks: bool) -> Result<String, Problem> {
    let next = "Give the name with --owner NAME.";
    match args.owner.as_deref().map(str::trim) {
        Some("") => Err(Problem::usage("A household needs an owner's name.", next)),
        Some(owner) => Ok(owner.to_owned()),
        None if found.settings_there => Ok(String::new()),
        None if asks => {
            let user = std::env::var("USER").unwrap_or_default();
            asked(out, "Your name", &user, |typed| match typed {
                "" => Err("a household needs an owner's name".to_owned()),
                owner => Ok(owner.to_owned()),
            })
        }
        None => Err(Problem::usage("The household needs an owner.", next)),
    }
}

fn zone(place: &Place, args: &InitArgs, asks: bool) -> Result<Zone, Problem> {
    let usual = place.environment.zone.as_ref().map_or("UTC", Zone::name);
    let form = "write it as Europe/Berlin, America/New_York or UTC";
    let named = |name: &str| Zone::named(name).ok_or_else(|| format!("`{name}` is not a time zone; {form}"));
    match &args.zone {
        None if asks => asked(&place.out, "Your time zone", usual, named),
        given => named(given.as_deref().unwrap_or(usual)).map_err(|why| Problem::usage(format!("{why}."), "")),
    }
}

/// Which butlers; `None`: all that are shipped.
fn butlers(out: &Out) -> Result<Option<Vec<String>>, Problem> {
    let question = format!("Which butlers, of {}", offline::setup::shipped_butlers().join(", "));
    asked(out, &question, "all", |typed| {
        let chosen: Vec<String> = typed.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if typed == "all" {
            return Ok(None);
        }
        check_butlers(&chosen).map_err(|e| e.to_string().trim_end_matches('.').to_owned())?;
        Ok(Some(chosen))
    })
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
fn finish(
    place: &Place,
    begun: &Begun,
    (key, tries): (Option<&str>, &[Tried]),
    service: Option<&Service>,
    found: &Found,
) -> Outcome {
    let out = place.out.clone();
    // What was said of models was tried already.
    let mut report = doctor::look(&place.overrides, &place.environment, false)?;
    if let Some(key) = key {
        // Without a daemon the doctor can't see what is stored; we have just stored it.
        report.settle("keys", key, format!("{key} is kept; the daemon finds it when it starts"));
    }
    let left = service.is_some_and(|service| !service.installed);
    let code = if left || report.problems > 0 { FAILED } else { 0 };
    if out.json {
        out.value(&json!({"made": begun.made, "there": begun.there, "key": key, "tried": tries, "service": service,
                          "doctor": report}));
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
