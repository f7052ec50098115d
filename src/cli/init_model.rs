//! `butlerd init`: what runs the sessions, asked of a person, and tried before it is written down.

use std::time::Duration;

use futures_util::future::join_all;

use super::init_try::tried;
use super::out::{Out, Tone};
use super::problem::Problem;
use super::{prompt, runtime};
use agent::{Endpoint, served_models};
use base::Secret;
use config::{Api, RuntimeKind, SpawnerConfig};
use offline::setup::StartRuntime;

/// What was chosen, with the key for it: the name under which sessions look for it, and its value.
pub struct Chosen {
    pub runtime: StartRuntime,
    pub key: Option<(&'static str, Secret<String>)>,
}

/// How models come to a household.
struct Way {
    /// What is typed for it.
    word: &'static str,
    /// What it is, in a list.
    what: &'static str,
    via: Via,
}

enum Via {
    /// A server of one's own, which is usually at this address. It speaks OpenAI's protocol.
    Server { usual: &'static str, key: bool },
    /// A vendor's own API, with a key, through butlerd's agent.
    Vendor { api: Api, key: &'static str },
    /// A vendor's program, with a key or a subscription.
    Program { kind: RuntimeKind, key: &'static str, hint: &'static str },
}

const WAYS: [Way; 9] = [
    Way { word: "ollama", what: "Ollama", via: Via::Server { usual: "http://127.0.0.1:11434/v1", key: false } },
    Way { word: "vllm", what: "vLLM", via: Via::Server { usual: "http://127.0.0.1:8000/v1", key: false } },
    Way {
        word: "llama.cpp",
        what: "llama.cpp's server",
        via: Via::Server { usual: "http://127.0.0.1:8080/v1", key: false },
    },
    Way {
        word: "compatible",
        what: "another server that speaks OpenAI's protocol",
        via: Via::Server { usual: "", key: true },
    },
    Way {
        word: "anthropic",
        what: "Anthropic, with an API key",
        via: Via::Vendor { api: Api::Anthropic, key: "ANTHROPIC_API_KEY" },
    },
    Way {
        word: "openai",
        what: "OpenAI, with an API key",
        via: Via::Vendor { api: Api::Openai, key: "OPENAI_API_KEY" },
    },
    Way {
        word: "google",
        what: "Google, with an API key, through the Gemini CLI",
        via: Via::Program { kind: RuntimeKind::Gemini, key: "GEMINI_API_KEY", hint: "" },
    },
    Way {
        word: "claude",
        what: "a Claude subscription, through Claude Code",
        via: Via::Program {
            kind: RuntimeKind::ClaudeCode,
            key: "CLAUDE_CODE_OAUTH_TOKEN",
            hint: "`claude setup-token` prints it",
        },
    },
    Way {
        word: "chatgpt",
        what: "a ChatGPT subscription, through Codex",
        via: Via::Program {
            kind: RuntimeKind::Codex,
            key: "CODEX_AUTH_JSON",
            hint: "the content of ~/.codex/auth.json after `codex login`",
        },
    },
];

/// A server that runs on this machine.
struct Local {
    word: &'static str,
    url: String,
    models: Vec<String>,
}

/// Asks until something answers, or the person takes it as it is.
pub fn ask(out: &Out, settings: &SpawnerConfig) -> Result<Chosen, Problem> {
    let runtime = runtime()?;
    let local = runtime.block_on(look_around());
    out.line("What runs the sessions?");
    for (n, way) in WAYS.iter().enumerate() {
        let here = local.iter().find(|l| l.word == way.word);
        let here = here.map(|l| format!(", which runs here with {}", models(l.models.len()))).unwrap_or_default();
        out.line(&format!("  {}  {:11} {}{here}", n + 1, way.word, way.what));
    }
    let usual = local.first().map_or("anthropic", |l| l.word);
    loop {
        let typed = prompt::line("Its number or word", usual)?;
        let by_number = typed.parse::<usize>().ok().and_then(|n| WAYS.get(n.checked_sub(1)?));
        let Some(way) = by_number.or_else(|| WAYS.iter().find(|way| way.word == typed.to_lowercase())) else {
            complain(out, &format!("`{typed}` is not in the list; type a number from 1 to {}", WAYS.len()));
            continue;
        };
        let chosen = match way.via {
            Via::Server { usual, key } => {
                let here = local.iter().find(|l| l.word == way.word).map_or(usual, |l| l.url.as_str());
                runtime.block_on(server(out, here, key))?
            }
            Via::Vendor { api, key } => Some(vendor(api, key)?),
            Via::Program { kind, key, hint } => Some(program(kind, key, hint)?),
        };
        let Some(chosen) = chosen else { continue };
        let key = chosen.key.as_ref().map(|(name, key)| (*name, key));
        let all = runtime.block_on(tried(settings, &chosen.runtime, key));
        all.iter().for_each(|tried| tried.print(out, (Tone::Bad, "no:")));
        let well = !all.iter().any(|tried| tried.failed());
        if well || prompt::line("Take it all the same (yes), or choose again (no)", "no")? == "yes" {
            return Ok(chosen);
        }
    }
}

/// What was typed can't be.
pub fn complain(out: &Out, why: &str) {
    out.line(&format!("{} {why}.", out.paint(Tone::Bad, "no:")));
}

fn models(n: usize) -> String {
    format!("{n} model{}", if n == 1 { "" } else { "s" })
}

/// Which of the usual servers answer here. `OLLAMA_HOST` is where Ollama's own programs look.
async fn look_around() -> Vec<Local> {
    let ask = |way: &'static Way| async move {
        let Via::Server { usual, key: false } = way.via else { return None };
        let named = std::env::var("OLLAMA_HOST").ok().filter(|host| way.word == "ollama" && !host.is_empty());
        let url = named.map_or_else(|| usual.to_owned(), |host| address(&host));
        let endpoint = Endpoint { api: agent::Api::Openai, base_url: url.clone(), key: None };
        let models = tokio::time::timeout(Duration::from_secs(1), served_models(&endpoint)).await.ok()?.ok()?;
        Some(Local { word: way.word, url, models })
    };
    join_all(WAYS.iter().map(ask)).await.into_iter().flatten().collect()
}

/// What a person types for an address: the scheme and the usual `/v1` may be left out.
fn address(typed: &str) -> String {
    let typed = typed.trim().trim_end_matches('/');
    let with_scheme = if typed.contains("://") { typed.to_owned() } else { format!("http://{typed}") };
    let after_scheme = with_scheme.split_once("://").map_or("", |(_, rest)| rest);
    if after_scheme.contains('/') { with_scheme } else { format!("{with_scheme}/v1") }
}

/// A server of one's own; `None`: choose anew.
async fn server(out: &Out, usual: &str, may_have_key: bool) -> Result<Option<Chosen>, Problem> {
    let base_url = address(&prompt::line("Its address", usual)?);
    let key = match may_have_key {
        true => prompt::optional_secret("Its key (not shown; Enter if it wants none)")?,
        false => None,
    };
    let named = key.map(|key| ("OPENAI_API_KEY", key));
    let endpoint = Endpoint {
        api: agent::Api::Openai,
        base_url: base_url.clone(),
        key: named.as_ref().map(|(name, key)| ((*name).to_owned(), key.clone())),
    };
    let there = match served_models(&endpoint).await {
        Ok(there) => there,
        Err(e) => {
            complain(out, &e.to_string());
            return Ok(None);
        }
    };
    let Some(model) = model_of(out, &there)? else { return Ok(None) };
    let runtime =
        StartRuntime { kind: RuntimeKind::Native, api: Api::Openai, endpoint: Some(base_url), model: Some(model) };
    Ok(Some(Chosen { runtime, key: named }))
}

/// One of the models that a server has.
fn model_of(out: &Out, there: &[String]) -> Result<Option<String>, Problem> {
    const SHOWN: usize = 20;
    for model in there.iter().take(SHOWN) {
        out.line(&format!("  {model}"));
    }
    if there.len() > SHOWN {
        out.line(&format!("  and {} more", there.len() - SHOWN));
    }
    let usual = there.first().map_or("", String::as_str);
    let model = prompt::line("Which model", usual)?;
    if model.is_empty() || !(there.is_empty() || there.contains(&model)) {
        complain(out, &format!("the server has no model `{model}`"));
        return Ok(None);
    }
    Ok(Some(model))
}

/// A vendor's own API.
fn vendor(api: Api, key: &'static str) -> Result<Chosen, Problem> {
    let value = prompt::optional_secret(&format!("{key} (not shown; Enter to store it later)"))?;
    let usual = match api {
        Api::Anthropic => "claude-sonnet-4-5",
        Api::Openai => "gpt-5",
    };
    let model = prompt::line("Which model", usual)?;
    let runtime = StartRuntime { kind: RuntimeKind::Native, api, endpoint: None, model: Some(model) };
    Ok(Chosen { runtime, key: value.map(|value| (key, value)) })
}

/// A vendor's program.
fn program(kind: RuntimeKind, key: &'static str, hint: &str) -> Result<Chosen, Problem> {
    let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
    let value = prompt::optional_secret(&format!("{key} (not shown{hint}; Enter to store it later)"))?;
    Ok(Chosen { runtime: StartRuntime::of_vendor(kind), key: value.map(|value| (key, value)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_completed_where_people_leave_things_out() {
        for (typed, whole) in [
            ("127.0.0.1:11434", "http://127.0.0.1:11434/v1"),
            ("http://box.lan:8000/", "http://box.lan:8000/v1"),
            ("https://host/openai/v1", "https://host/openai/v1"),
            ("box/api ", "http://box/api"),
        ] {
            assert_eq!(address(typed), whole);
        }
    }
}
