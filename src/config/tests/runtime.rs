//! What butlers take over from the household's `[runtime]`.

use super::*;

const OLLAMA: &str = "[runtime]\napi = \"openai\"\nendpoint = \"http://127.0.0.1:11434/v1\"\nmodel = \"qwen3:8b\"\n\
                      fallback = [\"codex\"]\nmodels = { codex = \"gpt-5\" }\n";

/// Type, protocol, address and model of `health`, whose file says this, in a household with these settings.
fn of(settings: &str, own: &str) -> (RuntimeKind, Api, Option<String>, Option<String>) {
    let scratch = Scratch::new();
    scratch.settings(settings);
    scratch.butler("health", &format!("{}{own}", butler_toml("health", 40103)));
    let household = scratch.household();
    let health = household.butler(&"health".parse().unwrap()).unwrap();
    let runtime = &health.runtime;
    (runtime.kind, runtime.api, runtime.endpoint.clone(), health.sessions.model.clone())
}

#[test]
fn a_butler_takes_over_what_it_does_not_say_and_what_belongs_together() {
    use RuntimeKind::{ClaudeCode, Codex, Native};
    let (local, other) = (|| Some("http://127.0.0.1:11434/v1".to_owned()), || Some("http://10.0.0.2/v1".to_owned()));
    let named = |name: &str| Some(name.to_owned());
    for (settings, own, expected) in [
        ("", "", (Native, Api::Anthropic, None, named("claude-sonnet-4-5"))),
        ("[runtime]\nmodel = \"claude-opus-4-1\"\n", "", (Native, Api::Anthropic, None, named("claude-opus-4-1"))),
        (OLLAMA, "", (Native, Api::Openai, local(), named("qwen3:8b"))),
        (OLLAMA, "[butler.runtime]\nmodel = \"tiny\"", (Native, Api::Openai, local(), named("tiny"))),
        (OLLAMA, "[runtime]\nendpoint = \"http://10.0.0.2/v1\"", (Native, Api::Openai, other(), named("qwen3:8b"))),
        // Another runtime or protocol: neither the address nor the models of this one.
        (OLLAMA, "[runtime]\ntype = \"claude-code\"", (ClaudeCode, Api::Anthropic, None, None)),
        (OLLAMA, "[runtime]\napi = \"anthropic\"", (Native, Api::Anthropic, None, named("claude-sonnet-4-5"))),
        ("[runtime]\ntype = \"codex\"\nmodel = \"gpt-5\"\n", "", (Codex, Api::Anthropic, None, named("gpt-5"))),
        (
            "[runtime]\ntype = \"codex\"\nmodel = \"gpt-5\"\n",
            "[runtime]\ntype = \"native\"",
            (Native, Api::Anthropic, None, named("claude-sonnet-4-5")),
        ),
        // A model server of one's own has other models than Anthropic.
        (
            "[runtime]\nendpoint = \"http://10.0.0.2\"\n",
            "",
            (Native, Api::Anthropic, Some("http://10.0.0.2".to_owned()), None),
        ),
    ] {
        assert_eq!(of(settings, own), expected, "{settings}{own}");
    }
    let scratch = Scratch::new();
    scratch.settings(OLLAMA);
    let messenger = scratch.household().butler(&"messenger".parse().unwrap()).unwrap().clone();
    assert_eq!(messenger.runtime.fallback, [RuntimeKind::Codex]);
    assert_eq!(messenger.runtime.models[&RuntimeKind::Codex], "gpt-5");
}

#[test]
fn a_butler_asks_for_a_model_by_its_size() {
    let settings = format!("{OLLAMA}tiers = {{ small = \"qwen3:1b\" }}\n");
    let model = |own: &str| of(&settings, own).3.unwrap_or_default();
    assert_eq!(model("[butler.runtime]\ntier = \"small\""), "qwen3:1b");
    assert_eq!(model("[butler.runtime]\ntier = \"large\""), "qwen3:8b", "none is named");
    assert_eq!(model("[butler.runtime]\ntier = \"small\"\nmodel = \"own\""), "own");
    let own = "[butler.runtime]\ntier = \"small\"\n[runtime.tiers]\nsmall = \"mine\"\nlarge = \"big\"";
    assert_eq!(model(own), "mine");
    assert_eq!(model("[butler.runtime]\ntier = \"small\"\n[runtime]\napi = \"anthropic\""), "claude-sonnet-4-5");
    let scratch = Scratch::new();
    scratch.settings(&settings);
    scratch.butler("health", &format!("{}[runtime.tiers]\nlarge = \"big\"", butler_toml("health", 40103)));
    let health = scratch.household().butler(&"health".parse().unwrap()).unwrap().runtime.tiers.clone();
    assert_eq!(health, ModelTiers { small: Some("qwen3:1b".into()), large: Some("big".into()) });
}

#[test]
fn another_runtime_of_the_household_is_another_butler() {
    let scratch = Scratch::new();
    let digest = || scratch.household().butler(&"messenger".parse().unwrap()).unwrap().digest.clone();
    let before = digest();
    assert_eq!(digest(), before);
    scratch.settings("[runtime]\nmodel = \"claude-opus-4-1\"\n");
    assert_ne!(digest(), before);
}

#[test]
fn mistakes_in_it_are_told_once_and_with_their_line() {
    for (runtime, line, begin) in [
        ("type = \"codex\"\nfallback = [\"codex\"]", 3, "fallback: found \"codex\" for the second time"),
        ("type = \"codex\"\napi = \"openai\"", 3, "api: found with type \"codex\""),
        ("type = \"codex\"\nendpoint = \"http://h/v1\"", 3, "endpoint: found with type \"codex\""),
        ("endpoint = \"h:1\"", 2, "endpoint: found \"h:1\", expected an http or https address"),
        ("type = \"olama\"", 2, "type: found \"olama\""),
    ] {
        let told = Scratch::of_settings(&format!("[runtime]\n{runtime}"));
        only(&told, &format!("config/butlerd.toml:{line}: runtime.{begin}"));
    }
    // A butler's own address with the household's runtime, which has no use for one.
    let scratch = Scratch::new();
    scratch.settings("[runtime]\ntype = \"codex\"\n");
    scratch.butler("health", &format!("{}[runtime]\nendpoint = \"http://h/v1\"", butler_toml("health", 40103)));
    let told = scratch.mistakes();
    assert!(told.len() == 1 && told[0].contains("runtime.endpoint: found with type \"codex\""), "{told:?}");
}
