//! Mistakes of the roster.

use super::*;

/// One line after the least file: line 4 of the result.
fn health(more: &str) -> String {
    format!("{}{more}\n", butler_toml("health", 40103))
}

/// How a mistake is told whose key is below another: `told` says line, key and what is wrong.
fn begin_of(above: &str, told: &str) -> String {
    let (line, begin) = told.split_once(' ').unwrap();
    format!("roster/health/butler.toml:{line} {above}{begin}")
}

/// What is told where the least file, which has three lines, goes on with a header and one of these texts.
fn each(header: &str, above: &str, cases: &[(&str, &str)]) {
    for (more, told) in cases {
        only(&Scratch::of_health(&health(&format!("{header}{more}"))), &begin_of(above, told));
    }
}

#[test]
fn each_mistake_of_a_butler_is_told_with_file_line_and_key() {
    let cases = [
        ("prot = 1", "4: butler.prot: unknown key (did you mean `port`?), expected one of `name`, `port`,"),
        ("model = \"x\"", "4: butler.model: unknown key here (did you mean `butler.runtime.model`?)"),
        ("colour = 1", "4: butler.colour: unknown key, expected one of"),
        ("description = 5", "4: butler.description: found 5, expected a text"),
        ("description = \"a\\u0000b\"", "4: butler.description: found a text with a NUL character"),
        (
            "[[butler.schedule]]\nname = \"a\"\ncron = \"@daily\"\nprompt = \"p\"\n\
             [[butler.schedule]]\nname = \"a\"\ncron = \"@daily\"\nprompt = \"p\"",
            "9: butler.schedule[1].name: found \"a\" for the second time",
        ),
        ("schedule = {}", "4: butler.schedule: found a table, expected a list of tables"),
        ("schedule = [1]", "4: butler.schedule[0]: found 1, expected a table"),
        ("[buffer]\nworker_count = 2", "4: buffer: found in `health`, expected it in the switchboard only"),
        (
            "[modules.telegraf]",
            "4: modules.telegraf: a module that this build does not have, expected a module of this build, or `health`",
        ),
        ("[modules.health]\nx = 1", "4: modules.health: found settings, expected an empty table"),
        ("[module.memory]", "4: module: unknown key (did you mean `modules`?)"),
        ("port = 40109", "4: no valid TOML: duplicate key `port`"),
        ("description = \"open", "4: no valid TOML: invalid basic string"),
        (
            "[butler.runtime]\nsession_timeout = \"5m\"\nsession_timeout_s = 300",
            "6: butler.runtime.session_timeout_s: found beside `session_timeout`, expected only one",
        ),
        ("[runtime]\nargs = [\n  \"-a\",\n  7,\n]", "7: runtime.args[1]: found 7, expected a text that is not empty"),
        (
            "[runtime]\ntype = \"claude-code\"\napi = \"openai\"",
            "6: runtime.api: found with type \"claude-code\", expected it only where",
        ),
        (
            "[butler.env]\nrequired = [\"A\"]\noptional = [\"B\", \"A\"]",
            "6: butler.env.optional[1]: found \"A\" for the second time",
        ),
        (
            "[butler.switchboard]\nroute_contract_min = 3\nroute_contract_max = 2",
            "5: butler.switchboard.route_contract_min: found 3, above route_contract_max (2)",
        ),
    ];
    each("", "", &cases);
}

#[test]
fn each_mistake_of_a_value_is_told_with_file_line_and_key() {
    for (key, value, begin) in [
        ("butler.runtime.max_queued", "-1", ": found -1, expected a whole number 0-100000"),
        ("butler.runtime.max_turns", "\"many\"", ": found \"many\", expected a whole number 1-"),
        ("butler.runtime.model", "\"\"", ": found \"\", expected a text that is not empty"),
        ("butler.runtime.session_timeout", "\"10 apples\"", ": found \"10 apples\", expected a duration such as"),
        ("butler.runtime.session_timeout", "\"0s\"", ": found \"0s\", expected a duration"),
        ("butler.runtime.session_timeout_s", "\"10m\"", ": found \"10m\", expected whole seconds"),
        ("butler.runtime.session_timeout_s", "1.5", ": found 1.5, expected whole seconds"),
        ("runtime.type", "\"claud-code\"", ": found \"claud-code\" (did you mean \"claude-code\"?)"),
        (
            "runtime.fallback",
            "[\"gemini\", \"opencode\"]",
            "[1]: found \"opencode\", expected one of \"claude-code\", \"codex\", \"gemini\", \"native\"",
        ),
        ("runtime.fallback", "[\"claude-code\", \"native\"]", "[1]: found \"native\" for the second time"),
        ("runtime.args", "\"-a\"", ": found \"-a\", expected a list"),
        ("runtime.endpoint", "\"localhost:11434\"", ": found \"localhost:11434\", expected an http or https address"),
        (
            "runtime.endpoint",
            "\"http://u:geheim@host/\"",
            ": found \"http://…@host/\" (keys and passwords don't belong",
        ),
        ("butler.db.name", "\"mine\"", ": found \"mine\", expected \"butlers\""),
        ("butler.db.schema", "\"Health\"", ": found \"Health\", expected a schema of the butler's own"),
        ("butler.db.schema", "\"pg_health\"", ": found \"pg_health\" (reserved), expected a schema"),
        ("butler.db.schema", "\"shared\"", ": found \"shared\" (reserved)"),
        ("butler.env.required", "[\"lower\"]", "[0]: found \"lower\", expected the name of an environment variable"),
        ("butler.env.required", "[\"PATH\"]", "[0]: found \"PATH\" (butlerd makes this one itself"),
        ("butler.shutdown.timeout", "true", ": found true, expected a duration"),
        ("butler.switchboard.liveness_ttl_s", "-3", ": found -3, expected whole seconds"),
        ("modules.memory", "3", ": found 3, expected a table"),
        (
            "modules.memory.consolidation.interval_hours",
            "\"often\"",
            ": found \"often\", expected a whole number of hours",
        ),
        ("modules.memory.weight", "nan", ": found a number without a value"),
    ] {
        let (table, name) = key.rsplit_once('.').unwrap();
        let told = Scratch::of_health(&health(&format!("[{table}]\n{name} = {value}")));
        only(&told, &format!("roster/health/butler.toml:5: {key}{begin}"));
    }
}

#[test]
fn each_mistake_of_a_schedule_is_told_with_file_line_and_key() {
    let cases = [
        ("cron = \"61 * * * *\"\nprompt = \"p\"", "6: cron: found \"61 * * * *\" ("),
        ("cron = \"* * *\"\nprompt = \"p\"", "6: cron: found \"* * *\" (3 fields), expected five cron fields"),
        ("prompt = \"p\"", "4: cron: missing, expected one of cron, every and at"),
        (
            "every = \"2h\"\ncron = \"@daily\"\nprompt = \"p\"",
            "6: every: found beside cron, expected only one of cron, every and at",
        ),
        ("at = \"soon\"\nprompt = \"p\"", "6: at: found \"soon\", expected a moment such as"),
        ("every = \"2h\"\npriority = 4\nprompt = \"p\"", "7: priority: found 4, expected a whole number 1-3"),
        ("every = \"2h\"\nmissed = \"all\"\nprompt = \"p\"", "7: missed: found \"all\""),
        ("cron = \"@daily\"", "4: prompt: missing, expected it where dispatch_mode is \"prompt\""),
        (
            "cron = \"@daily\"\ndispatch_mode = \"job\"",
            "4: job_name: missing, expected it where dispatch_mode is \"job\"",
        ),
        ("cron = \"@daily\"\ndispatch_mode = \"jobs\"", "7: dispatch_mode: found \"jobs\" (did you mean \"job\"?)"),
        ("cron = \"@daily\"\nprompt = \"p\"\njob_args = {x = 1}", "8: job_args: found with dispatch_mode \"prompt\""),
        (
            "cron = \"@daily\"\nprompt = \"p\"\ntimezone = \"Europe/Bern\"",
            "8: timezone: found \"Europe/Bern\", expected an IANA time zone",
        ),
        ("cron = \"@daily\"\nprompt = \"p\"\nenabled = \"yes\"", "8: enabled: found \"yes\", expected true or false"),
    ];
    each("[[butler.schedule]]\nname = \"a\"\n", "butler.schedule[0].", &cases);
}

#[test]
fn each_mistake_of_identity_is_told() {
    let cases = [
        ("port = 1\n", "1: name: missing"),
        ("name = \"health\"\n", "1: port: missing, expected a port number 1-65535"),
        ("name = \"health\"\nport = 0\n", "3: port: found 0, expected a port number 1-65535"),
        ("name = \"health\"\nport = 70000\n", "3: port: found 70000, expected a port"),
        ("name = \"health\"\nport = \"x\"\n", "3: port: found \"x\", expected a port number 1-65535"),
        ("name = \"Health\"\nport = 1\n", "2: name: found \"Health\", expected a lower-case letter"),
        ("name = \"wealth\"\nport = 1\n", "2: name: found \"wealth\", expected the name of the directory"),
        ("name = \"health\"\nport = 40200\n", "3: port: found 40200, the port of admin.listen"),
    ];
    for (toml, told) in cases {
        let (found, begin) = (Scratch::of_health(&format!("[butler]\n{toml}")), begin_of("butler.", told));
        assert!(found[0].starts_with(&begin), "\n found {found:#?}\nwanted {begin}");
    }
    let found = Scratch::of_health("");
    assert_eq!(found.len(), 2, "name and port are both missing");
    let begin = "roster/health/butler.toml: butler.name: missing, expected a lower-case letter";
    assert!(found[0].starts_with(begin), "{found:#?}");
    let no_utf8 = Scratch::new();
    no_utf8.butler("health", "");
    no_utf8.write("roster/health/butler.toml", b"name = \"\xff\"");
    only(&no_utf8.mistakes(), "roster/health/butler.toml: bytes that are no UTF-8, expected a TOML file");
}

#[test]
fn the_switchboard_does_not_register_with_itself() {
    let scratch = Scratch::new();
    let toml = |more: &str| format!("{}[butler.switchboard]\n{more}", butler_toml("switchboard", 40100));
    scratch.butler("switchboard", &toml(""));
    only(
        &scratch.mistakes(),
        "roster/switchboard/butler.toml:4: butler.switchboard: found in the switchboard itself, expected",
    );
    scratch.butler("switchboard", &toml("advertise = false\n"));
    assert!(scratch.mistakes().is_empty());
}

#[test]
fn the_switchboard_of_another_household_is_refused() {
    let url = |url: &str| health(&format!("[butler.switchboard]\nurl = \"{url}\""));
    for other in ["http://127.0.0.1:9/mcp", "http://192.0.2.7:40100/mcp", "http://127.0.0.1:40100/sse"] {
        only(
            &Scratch::of_health(&url(other)),
            &format!(
                "roster/health/butler.toml:5: butler.switchboard.url: found \"{other}\", expected this household's \
                 switchboard, http://127.0.0.1:40100/mcp, or nothing: it is taken anyway"
            ),
        );
    }
    for own in ["http://127.0.0.1:40100/mcp", "http://localhost:40100/mcp/", "http://[::1]:40100/mcp"] {
        let scratch = Scratch::new();
        scratch.butler("health", &url(own));
        assert_eq!(scratch.mistakes(), Vec::<String>::new(), "{own}");
    }
}

#[test]
fn cron_expressions_are_checked_whole() {
    let entry = |cron: &str| health(&format!("[[butler.schedule]]\nname = \"a\"\nprompt = \"p\"\ncron = \"{cron}\""));
    let bad = [
        "",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "a * * * *",
        "* * * FOO *",
        "*/0 * * * *",
        "5-1-2 * * * *",
        "@sometimes",
        "0 0 30 2 *",
    ];
    for cron in bad {
        only(
            &Scratch::of_health(&entry(cron)),
            &format!("roster/health/butler.toml:7: butler.schedule[0].cron: found \"{cron}\""),
        );
    }
    let good = [
        "* * * * *",
        "*/15 0-6 1,15 * *",
        "0 8 * * MON",
        "0 8 * JAN-MAR sun",
        "30 0 8 * * 1-5",
        "@hourly",
        "0 0 29 2 *",
        "0 9 L * *",
        "0 9 * * FRI#2",
    ];
    let scratch = Scratch::new();
    for cron in good {
        scratch.butler("health", &entry(cron));
        assert_eq!(scratch.mistakes(), Vec::<String>::new(), "{cron}");
    }
}

#[test]
fn names_that_make_a_reserved_schema_need_one_of_their_own() {
    let scratch = Scratch::new();
    scratch.butler("public", &butler_toml("public", 40110));
    only(
        &scratch.mistakes(),
        "roster/public/butler.toml:2: butler.db.schema: missing, and the schema made of the name, \
         \"public\", is reserved",
    );
    scratch.butler("public", &format!("{}[butler.db]\nschema = \"open_house\"\n", butler_toml("public", 40110)));
    assert!(scratch.mistakes().is_empty());
}

#[test]
fn every_mistake_is_told_at_once() {
    let scratch = Scratch::new();
    scratch.settings("[daemon]\nports = \"free\"\nshutdown_timeout = \"soon\"\n\n[owner]\ntime_zone = \"Mars\"\n");
    scratch.butler("health", &health("prot = 1\n[butler.runtime]\nmax_queued = -1\n[runtime]\ntype = \"opencode\""));
    scratch.butler("general", "[butler\n");
    std::fs::remove_file(scratch.path().join("roster/general/AGENTS.md")).unwrap();
    let refused = scratch.load().unwrap_err();
    let told: Vec<String> = refused.mistakes().map(Mistake::to_string).collect();
    let begins = [
        "config/butlerd.toml:2: daemon.ports: found \"free\", expected one of \"roster\", \"auto\"",
        "config/butlerd.toml:3: daemon.shutdown_timeout: found \"soon\", expected a duration",
        "config/butlerd.toml:6: owner.time_zone: found \"Mars\", expected an IANA time zone",
        "roster/general/AGENTS.md: missing, expected a file: the butler's identity and rules",
        "roster/general/butler.toml:1: no valid TOML: ",
        "roster/health/butler.toml:4: butler.prot: unknown key",
        "roster/health/butler.toml:6: butler.runtime.max_queued: found -1",
        "roster/health/butler.toml:8: runtime.type: found \"opencode\"",
    ];
    assert_eq!(told.len(), begins.len(), "{told:#?}");
    for (mistake, begin) in told.iter().zip(begins) {
        assert!(mistake.starts_with(begin), "\n found {mistake}\nwanted {begin}");
    }
    assert_eq!(refused.fatal.len(), 3);
    assert_eq!(refused.broken.len(), 2);
    assert_eq!(refused.to_string().lines().count(), 8);
}

#[test]
fn one_broken_butler_stops_no_other() {
    let scratch = Scratch::new();
    scratch.butler("health", "port = ");
    scratch.butler("general", &butler_toml("general", 40101));
    scratch.write("roster/README.md", "no butler");
    scratch.write("roster/.git/config", "no butler");
    scratch.write("roster/shared/AGENTS.md", "no butler");
    scratch.write("roster/empty/notes.txt", "a directory without anything");
    let household = scratch.household();
    let names: Vec<&str> = household.butlers.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["general", "messenger", "switchboard"]);
    let broken: Vec<&str> = household.broken.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(broken, ["empty", "health"]);
    assert_eq!(household.broken[0].mistakes.len(), 4, "{:#?}", household.broken[0]);
    assert_eq!(household.broken[1].dir, scratch.path().join("roster/health"));
    assert_eq!(household.broken[1].mistakes[0].file, path("roster/health/butler.toml"));
    assert!(household.butler(&"general".parse().unwrap()).is_some());
    assert_eq!(household.sources.len(), 4, "no butlerd.toml, four butler.toml: {:?}", household.sources);
}

#[test]
fn one_port_for_two_breaks_the_later_and_names_both() {
    let scratch = Scratch::new();
    scratch.butler("alpha", &butler_toml("alpha", 40104));
    scratch.butler("beta", &butler_toml("beta", 40150));
    scratch.butler("gamma", &butler_toml("gamma", 40150));
    let household = scratch.household();
    let names: Vec<&str> = household.butlers.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["beta", "messenger", "switchboard"], "the core butler wins over the earlier name");
    let told: Vec<String> = household.mistakes().map(Mistake::to_string).collect();
    let wanted = [
        ("alpha", 40104, "messenger"),
        ("messenger", 40104, "alpha"),
        ("gamma", 40150, "beta"),
        ("beta", 40150, "gamma"),
    ];
    let wanted = wanted.map(|(at, port, other)| {
        let place = format!("roster/{at}/butler.toml:3: butler.port");
        format!("{place}: found {port}, which `{other}` has too, expected a value of the butler's own")
    });
    assert_eq!(told, wanted);
    // Free ports are no excuse for a wrong file.
    let mut auto = scratch;
    auto.set("BUTLERD_DAEMON__PORTS", "auto");
    assert_eq!(auto.mistakes().len(), 4);
}

#[test]
fn a_butler_that_is_broken_anyway_takes_nothing_from_another() {
    let scratch = Scratch::new();
    scratch.butler("alpha", &format!("{}x = 1\n", butler_toml("alpha", 40150)));
    scratch.butler("beta", &butler_toml("beta", 40150));
    let household = scratch.household();
    assert!(household.butler(&"beta".parse().unwrap()).is_some());
    assert_eq!(household.broken.len(), 1);
    assert_eq!(household.broken[0].mistakes.len(), 3, "its own, and the port at both places");
}

#[test]
fn one_schema_for_two_is_a_mistake_also_where_a_name_makes_it() {
    let scratch = Scratch::new();
    scratch.butler("home-care", &butler_toml("home-care", 40150));
    scratch.butler("home_care", &butler_toml("home_care", 40151));
    scratch.butler("zeta", &format!("{}[butler.db]\nschema = \"home_care\"\n", butler_toml("zeta", 40152)));
    let told = scratch.mistakes();
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(
        told[0].starts_with("roster/home_care/butler.toml:2: butler.db.schema: found home_care, which `home-care` has")
    );
    assert!(
        told[1].starts_with("roster/home-care/butler.toml:2: butler.db.schema: found home_care, which `home_care` has")
    );
    assert!(told[2].starts_with("roster/zeta/butler.toml:5: butler.db.schema: found home_care, which `home-care` has"));
}

#[test]
fn the_core_butlers_and_the_roster_must_exist() {
    let scratch = Scratch::new();
    std::fs::remove_dir_all(scratch.path().join("roster/messenger")).unwrap();
    only(&scratch.mistakes(), "roster: no `messenger` in it, expected the butlers without which no message");
    assert!(scratch.load().is_err());
    std::fs::remove_dir_all(scratch.path().join("roster/switchboard")).unwrap();
    only(&scratch.mistakes(), "roster: no butler in it, expected the roster, with one directory for each butler");
    std::fs::remove_dir_all(scratch.path().join("roster")).unwrap();
    only(&scratch.mistakes(), "roster: can't be read: ");
    // A settings file that can't be understood may have named another roster.
    scratch.settings("[daemon\n");
    only(&scratch.mistakes(), "config/butlerd.toml:1: no valid TOML");
}

#[test]
fn a_broken_core_butler_is_parked_like_any_other() {
    let scratch = Scratch::new();
    scratch.butler("switchboard", "[butler]\nname = 3\n");
    let household = scratch.household();
    assert_eq!(household.broken.len(), 1);
    assert_eq!(household.broken[0].name, "switchboard");
}

/// Every section, in the specification's words.
pub(super) const FULL: &str = r#"
[butler]
name = "home-care"
port = 40107
description = "Plants and pipes"
[butler.runtime]
model = "m"
max_concurrent_sessions = 1
max_queued = 0
session_timeout_s = 90
max_turns = 5
[butler.db]
name = "butlers"
[butler.env]
required = ["A_KEY"]
optional = ["_B2"]
[butler.shutdown]
shutdown_timeout_s = 12
[[butler.schedule]]
name = "water"
cron = "30 7 * * MON-FRI"
prompt = "Run the watering workflow."
[[butler.schedule]]
name = "count"
cron = "15 30 7 1 JAN *"
dispatch_mode = "job"
job_name = "count"
job_args = { days = 14, rooms = ["a"] }
timezone = "America/New_York"
enabled = false
[butler.switchboard]
advertise = true
url = "http://localhost:40100/mcp"
liveness_ttl_s = 120
route_contract_max = 2
[runtime]
type = "native"
args = ["-v"]
fallback = ["claude-code"]
api = "openai"
endpoint = "http://[::1]:11434/v1"
tools = ["WebSearch"]
[modules.home-care]
[modules.memory.consolidation]
interval_hours = 24
since = 2026-01-02
"#;

#[test]
fn a_full_file_in_the_specifications_words_is_read() {
    let scratch = Scratch::new();
    scratch.butler("home-care", FULL);
    scratch.butler(
        "switchboard",
        &format!("{}[buffer]\nscanner_interval_s = 7\nscanner_grace = \"3s\"\n", butler_toml("switchboard", 40100)),
    );
    assert_eq!(scratch.mistakes(), Vec::<String>::new());
    let household = scratch.household();
    let butler = household.butler(&"home-care".parse().unwrap()).unwrap();
    assert_eq!((butler.name.as_str(), butler.port, butler.db.schema.as_str()), ("home-care", 40107, "home_care"));
    assert_eq!(butler.dir, scratch.path().join("roster/home-care"));
    assert_eq!(butler.sessions.session_timeout.0.as_secs(), 90);
    assert_eq!((butler.sessions.max_queued, butler.sessions.max_turns), (0, 5));
    assert_eq!(butler.shutdown.timeout.0.as_secs(), 12);
    assert_eq!(butler.env.required, ["A_KEY"]);
    assert_eq!((butler.runtime.kind, butler.runtime.api), (RuntimeKind::Native, Api::Openai));
    assert_eq!(butler.runtime.fallback, [RuntimeKind::ClaudeCode]);
    assert_eq!(butler.schedules.len(), 2);
    assert!(butler.schedules[0].enabled && butler.schedules[0].timezone.is_none());
    assert_eq!(butler.schedules[0].dispatch_mode, DispatchMode::Prompt);
    assert_eq!(butler.schedules[1].job_args, Some(serde_json::json!({"days": 14, "rooms": ["a"]})));
    assert_eq!(butler.schedules[1].timezone.as_ref().unwrap().name(), "America/New_York");
    assert!(butler.advertises());
    let registration = butler.switchboard.as_ref().unwrap();
    assert_eq!((registration.liveness_ttl.0.as_secs(), registration.route_contract_max), (120, 2));
    assert!(butler.buffer.is_none());
    assert_eq!(butler.modules["memory"]["consolidation"]["since"], "2026-01-02");
    assert_eq!(butler.modules["home-care"], serde_json::json!({}));
    let switchboard = household.butler(&"switchboard".parse().unwrap()).unwrap();
    let buffer = switchboard.buffer.as_ref().unwrap();
    assert_eq!((buffer.scanner_interval.0.as_secs(), buffer.scanner_grace.0.as_secs()), (7, 3));
    assert_eq!(buffer.queue_capacity, 100);
}

#[test]
fn the_messenger_has_the_channel_whose_way_in_the_switchboard_has() {
    let scratch = Scratch::new();
    let plain = scratch.household();
    let messenger = |household: &Household| household.butler(&"messenger".parse().unwrap()).unwrap().clone();
    scratch.butler("switchboard", &format!("{}[modules.webhook.inbound.a]\n", butler_toml("switchboard", 40100)));
    let shared = scratch.household();
    assert_eq!(messenger(&shared).modules["webhook"], serde_json::json!({"endpoints": {}}));
    assert_ne!(messenger(&shared).digest, messenger(&plain).digest, "a reload sees it");
    // Its own ways out are its own.
    let own = format!("{}[modules.webhook.endpoints.b]\n", butler_toml("messenger", 40104));
    scratch.butler("messenger", &own);
    assert_eq!(messenger(&scratch.household()).modules["webhook"], serde_json::json!({"endpoints": {"b": {}}}));
}

#[test]
fn the_least_file_has_the_defaults() {
    let scratch = Scratch::new();
    let household = scratch.household();
    let messenger = household.butler(&"messenger".parse().unwrap()).unwrap();
    assert_eq!(messenger.sessions.max_concurrent_sessions, 3);
    assert_eq!(messenger.sessions.max_queued, 20);
    assert_eq!(messenger.sessions.session_timeout.0.as_secs(), 600);
    assert_eq!((messenger.sessions.max_turns, messenger.sessions.max_tool_calls), (20, 200));
    assert!(messenger.budgets.session_usd.is_none() && messenger.budgets.day_tokens.is_none());
    assert_eq!(messenger.sessions.model.as_deref(), Some("claude-sonnet-4-5"));
    assert_eq!(messenger.runtime.kind, RuntimeKind::Native);
    assert!(messenger.runtime.args.is_empty() && messenger.runtime.tools.is_empty());
    assert_eq!((messenger.db.name.as_str(), messenger.db.schema.as_str()), ("butlers", "messenger"));
    assert!(!messenger.advertises() && messenger.buffer.is_none() && messenger.modules.is_empty());
    let switchboard = household.butler(&"switchboard".parse().unwrap()).unwrap();
    assert_eq!(switchboard.buffer.as_ref().unwrap().worker_count, 3, "the switchboard has a buffer without asking");
}

#[test]
fn a_file_that_ends_anywhere_is_at_most_broken() {
    let scratch = Scratch::new();
    for end in (0..FULL.len()).step_by(3) {
        scratch.butler("home-care", &FULL[..end]);
        let household = scratch.household();
        assert_eq!(household.butlers.len() + household.broken.len(), 3, "cut at {end}");
    }
}
