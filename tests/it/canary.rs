//! Twenty secrets, quoted by everybody who can quote them, in every encoding: none is anywhere afterwards.

use std::path::{Path, PathBuf};

use access::credentials::MasterKey;
use aho_corasick::AhoCorasick;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::{Value, json};

use crate::support::{Daemon, FAKE, Household, eventually, model};

/// Secrets, and how to find them.
#[derive(Default)]
pub struct Canaries {
    known: Vec<(String, Vec<u8>)>,
}

/// Each encoding, and what of it depends on the secret alone.
fn needles(secret: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let hex = |upper: bool| {
        let one = |b: &u8| if upper { format!("{b:02X}") } else { format!("{b:02x}") };
        secret.iter().map(one).collect::<String>().into_bytes()
    };
    let percent = |kept: &[u8], upper: bool| {
        let one = |b: &u8| match b {
            b if b.is_ascii_alphanumeric() && !kept.is_empty() || kept.contains(b) => char::from(*b).to_string(),
            b if upper => format!("%{b:02X}"),
            b => format!("%{b:02x}"),
        };
        secret.iter().map(one).collect::<String>()
    };
    let mut all = vec![("clear", secret.to_vec()), ("hex", hex(false)), ("hex", hex(true))];
    for kept in [&b""[..], b"-._~", b"-_.!~*'()"] {
        all.extend([true, false].map(|upper| ("URL", percent(kept, upper).into_bytes())));
    }
    if let Ok(text) = std::str::from_utf8(secret) {
        let quoted = Value::String(text.to_owned()).to_string();
        all.push(("clear", quoted.as_bytes()[1..quoted.len() - 1].to_vec()));
    }
    for before in 0..3 {
        let bytes = [&[0; 2][..before], secret].concat();
        let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for engine in [STANDARD.encode(&bytes), URL_SAFE.encode(&bytes)] {
            all.push(("base64", engine.as_bytes()[from..to].to_vec()));
        }
    }
    all.retain(|(_, needle)| needle.len() >= 8);
    all
}

impl Canaries {
    pub fn add(&mut self, name: &str, secret: impl AsRef<[u8]>) {
        self.known.push((name.to_owned(), secret.as_ref().to_vec()));
    }

    pub fn search(&self) -> Search {
        let named = self.known.iter().flat_map(|(name, secret)| {
            needles(secret).into_iter().map(move |(encoding, needle)| (format!("{name} in {encoding}"), needle))
        });
        let (names, needles): (Vec<String>, Vec<Vec<u8>>) = named.unzip();
        Search { find: AhoCorasick::new(needles).expect("a search"), names }
    }

    /// Those that are text, one a line.
    fn lines(&self) -> String {
        self.known.iter().filter_map(|(_, s)| std::str::from_utf8(s).ok()).map(|s| format!("{s}\n")).collect()
    }
}

pub struct Search {
    find: AhoCorasick,
    names: Vec<String>,
}

impl Search {
    /// What is found where, each once.
    fn hits(&self, place: &str, hay: &[u8]) -> Vec<String> {
        let found = self.find.find_overlapping_iter(hay);
        let mut hits: Vec<String> = found
            .map(|m| {
                let around = &hay[m.start().saturating_sub(60)..(m.end() + 20).min(hay.len())];
                format!("{place}: {} …{}…", self.names[m.pattern().as_usize()], String::from_utf8_lossy(around))
            })
            .collect();
        hits.sort();
        hits.dedup();
        hits
    }

    pub fn none(&self, place: &str, hay: impl AsRef<[u8]>) {
        let hits = self.hits(place, hay.as_ref());
        assert!(hits.is_empty(), "{} hits:\n{}", hits.len(), hits.join("\n"));
    }

    /// Every file below `dir`, and its name.
    pub fn files(&self, dir: &Path, except: &[&Path]) -> Vec<String> {
        let mut hits = Vec::new();
        let mut left: Vec<PathBuf> = vec![dir.to_owned()];
        while let Some(path) = left.pop() {
            let place = path.display().to_string();
            hits.extend(self.hits("a name", place.as_bytes()));
            let meta = path.symlink_metadata().expect("a file");
            if meta.is_dir() {
                left.extend(std::fs::read_dir(&path).expect("a directory").flatten().map(|e| e.path()));
            } else if meta.is_file() && !except.contains(&path.as_path()) {
                hits.extend(self.hits(&place, &std::fs::read(&path).expect("a file")));
            }
        }
        hits
    }
}

/// A value as JSON, and each text in it as it is, for that may be JSON again.
fn spell_out(value: &Value, copy: &mut String) {
    copy.push_str(&value.to_string());
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) => copy.push_str(&format!(" {text}")),
            Value::Array(items) => left.extend(items),
            Value::Object(members) => left.extend(members.values()),
            _ => {}
        }
    }
}

/// Every row of every table of every schema but the server's own, as the owner of all sees it.
pub async fn every_table(household: &Household, butler: &str) -> String {
    let (code, out, err) = household.cli(&["db", "url", "--butler", butler, "--json"]);
    assert_eq!(code, 0, "{err}");
    let login: Value = serde_json::from_str(&out).expect("JSON");
    let key = MasterKey::load(None, &household.data()).expect("the master key");
    let password = supervisor::owner_login(&key);
    let mut config = tokio_postgres::Config::new();
    config.host(login["host"].as_str().expect("a host")).user("butlerd").password(password.expose());
    config.dbname(login["dbname"].as_str().expect("a name"));
    config.port(u16::try_from(login["port"].as_u64().expect("a port")).expect("a port"));
    let (client, connection) = config.connect(tokio_postgres::NoTls).await.expect("the owner may log in");
    tokio::spawn(connection);
    let sql = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
               WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1";
    let tables: Vec<String> = client.query(sql, &[]).await.expect("tables").iter().map(|r| r.get(0)).collect();
    assert!(tables.iter().any(|t| t.ends_with(".session_events")) && tables.len() > 60, "{tables:?}");
    let mut copy = String::new();
    for table in tables {
        let rows = client.query(&format!("SELECT to_jsonb(t) FROM {table} t"), &[]).await.expect("rows");
        for row in rows {
            copy.push_str(&format!("{table} "));
            spell_out(&row.get(0), &mut copy);
            copy.push('\n');
        }
    }
    copy
}

/// A process's whole command line or environment.
fn of_process(pid: i32, what: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', "\n")
}

pub fn command_lines() -> String {
    let entries = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.map(|pid| of_process(pid, "cmdline")).collect()
}

/// The token that a session's child was given.
fn token_of(pid: i32) -> Option<String> {
    let env = of_process(pid, "environ");
    let servers: Value = serde_json::from_str(env.lines().find_map(|l| l.strip_prefix("MCP_SERVERS="))?).ok()?;
    let header = servers["mcpServers"]["butler"]["headers"]["Authorization"].as_str()?;
    header.strip_prefix("Bearer ").map(str::to_owned)
}

const ANTHROPIC: &str = "sk-ant-api03-kanarienvogel/Zw3i+one=\"~A";
const OPENAI: &str = "sk-proj-kanari_envogel-two-8f31";
const GEMINI: &str = "AIzaKanarienvogel-3_three";
const PROBE: &str = "probe credential with spaces & ümläuts <four>";
const DECLARED: [(&str, &str); 6] = [
    ("CANARY_BOT_TOKEN", "1234567890:AAkanarienvogel-five_0"),
    ("CANARY_IMAP_PASSWORD", "p@ss/w0rd\\six?&kanari"),
    ("CANARY_OAUTH_SECRET", "seven.7c1d9e0b5a"),
    ("CANARY_FEED_KEY", "eighteight88"),
    ("CANARY_COOKIE", "sid=ninth; kanari=9"),
    ("CANARY_PRIVATE_KEY", "-----BEGIN KEY-----+ten/10=="),
];

/// A household that knows the fixed secrets, and a model that quotes keys.
async fn household() -> (Household, testkit::model::ScriptedModel) {
    let written = |secret: &str| {
        let needles = needles(secret.as_bytes()).into_iter();
        needles.map(|(_, n)| String::from_utf8_lossy(&n).into_owned()).collect::<Vec<_>>().join(" ")
    };
    let all = format!("{} {} {}", written(ANTHROPIC), written(OPENAI), written(PROBE));
    let model = model(json!([
        {"when": "quote", "steps": [
            {"say": all, "call": {"tool": "state_set", "arguments": {"key": "quoted", "value": {"all": all}}}},
            {"say": format!("as I said: {all}")}]},
        {"when": "rejected", "steps": [{"fail": {"status": 401, "body": format!("invalid x-api-key: {ANTHROPIC} {all}")}}]},
    ]))
    .await;
    let names: Vec<String> = DECLARED.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let mut household = Household::new()
        .with_fake()
        .replace(
            "faker/butler.toml",
            "[modules.probe]",
            &format!("[butler.env]\noptional = [{}]\n\n[modules.probe]", names.join(", ")),
        )
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &model.base_url())
        .env("BUTLERD_SPAWNER__KEEP_WORKSPACE_ON_FAILURE", "true")
        // The children shall get at all that they can: among it the list of what they spill.
        .env("BUTLERD_SPAWNER__SANDBOX", "off")
        .env("BUTLERD_LOG", "debug")
        .env("ANTHROPIC_API_KEY", ANTHROPIC)
        .env("PROBE_CREDENTIAL", PROBE);
    for (name, value) in DECLARED {
        household = household.env(name, value);
    }
    (household, model)
}

/// The secrets that are there before any session.
fn first_canaries(household: &Household, daemon: &Daemon) -> Canaries {
    let mut canaries = Canaries::default();
    for (name, value) in [("ANTHROPIC_API_KEY", ANTHROPIC), ("PROBE_CREDENTIAL", PROBE)].into_iter().chain(DECLARED) {
        canaries.add(name, value);
    }
    for (name, value) in [("OPENAI_API_KEY", OPENAI), ("GEMINI_API_KEY", GEMINI)] {
        let (code, out, err) = household.cli_with_input(&["secret", "set", name], value);
        assert_eq!(code, 0, "{out}{err}");
        canaries.add(name, value);
    }
    let key = std::fs::read_to_string(household.data().join("master.key")).expect("the master key");
    canaries.add("the master key", STANDARD.decode(key.trim()).expect("base64"));
    canaries.add("the master key's text", key.trim());
    canaries.add("the operator's token", daemon.token());
    for scope in ["admin", "tools", "read"] {
        let (_, out, err) = household.cli(&["token", "new", "--scope", scope, "--json"]);
        let made: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        canaries.add(&format!("a token for {scope}"), made["token"].as_str().expect("a token"));
    }
    let (_, out, _) = household.cli(&["db", "url", "--butler", "general", "--json"]);
    let login: Value = serde_json::from_str(&out).expect("JSON");
    canaries.add("a role's password", login["password"].as_str().expect("a password"));
    canaries
}

/// What the daemon answers whoever asks for anything.
async fn answers(household: &Household, daemon: &Daemon) -> String {
    let mut all = String::new();
    for path in ["/metrics", "/readyz", "/healthz"] {
        all.push_str(&daemon.get(path).await.1);
    }
    let cli = |args: &[&str]| {
        let (_, out, err) = household.cli(args);
        format!("{args:?}\n{out}{err}")
    };
    for args in [&["status", "--json"][..], &["secret", "list", "--json"], &["token", "list", "--json"]] {
        all.push_str(&cli(args));
    }
    let (_, out, _) = household.cli(&["sessions", "list", "--limit", "200", "--json"]);
    all.push_str(&out);
    let page: Value = serde_json::from_str(&out).expect("JSON");
    for row in page["items"].as_array().expect("sessions") {
        let id = row["id"].as_str().expect("an id");
        for args in [
            &["sessions", "show", id][..],
            &["sessions", "show", id, "--json"],
            &["sessions", "tail", id, "--json"],
            &["timeline", id, "--json"],
        ] {
            all.push_str(&cli(args));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_found_anywhere() {
    let (household, model) = household().await;
    let mut daemon = household.start().await;
    let mut canaries = first_canaries(&household, &daemon);
    let list = household.roster().join("faker/canaries.txt");
    std::fs::write(&list, canaries.lines()).expect("the list");

    // Three children that spill all they can get, and stay.
    let spill = format!("do start\ndo spill {}\ndo hang", list.display());
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let faker = daemon.mcp(FAKE);
        let spill = spill.clone();
        sessions.push(tokio::spawn(async move { faker.ok("trigger", json!({"prompt": spill})).await }));
    }
    let tokens = eventually("three children have their tokens", || async {
        let tokens: Vec<String> = household.fakes().into_iter().filter_map(token_of).collect();
        if tokens.len() == 3 { Ok(tokens) } else { Err(format!("{} tokens", tokens.len())) }
    })
    .await;
    for (n, token) in tokens.iter().enumerate() {
        canaries.add(&format!("the token of session {n}"), token);
    }
    assert_eq!(canaries.known.len(), 20);
    let search = canaries.search();

    // Whoever calls quotes them too: in a prompt, its context, and a tool's arguments.
    let quoted = format!("quote {}", canaries.lines());
    let (code, out, err) = household.cli_with_input(&["trigger", "general", "-", "--json"], &quoted);
    assert_eq!(code, 0, "{out}{err}");
    search.none("the answer to a trigger", out + &err);
    let general = daemon.mcp("general");
    let context = json!({"prompt": "rejected", "context": canaries.lines()});
    search.none("a failed trigger", general.ok("trigger", context).await.to_string());
    let arguments = json!({"key": canaries.lines(), "value": [canaries.lines()]}).to_string();
    let (code, out, err) = household.cli_with_input(&["tool", "call", "general", "state_set", "-"], &arguments);
    assert_eq!(code, 0, "{out}{err}");

    // While the children run: all have spilled once their last call is on record.
    let total = tokens.len() * 4 * (canaries.lines().lines().count() - 3 + 1 + DECLARED.len());
    eventually("everything is spilled", || async {
        let list = daemon.mcp(FAKE).ok("sessions_list", json!({})).await;
        let calls: u64 = list.as_array().expect("a list").iter().filter_map(|s| s["tool_call_count"].as_u64()).sum();
        if calls >= total as u64 { Ok(()) } else { Err(format!("{calls} calls of {total}")) }
    })
    .await;
    search.none("command lines", command_lines());
    for pid in household.fakes() {
        let own = token_of(pid).expect("its token");
        let others = of_process(pid, "environ").replace(&own, "");
        let declared: Vec<&str> = DECLARED.iter().map(|(_, value)| *value).collect();
        let rest = others.lines().filter(|l| !declared.iter().any(|d| l.ends_with(d))).collect::<Vec<_>>().join("\n");
        search.none("an environment", rest);
    }
    search.none("the log", daemon.log());
    for row in daemon.mcp(FAKE).ok("sessions_list", json!({})).await.as_array().expect("a list") {
        household.cli(&["sessions", "cancel", row["id"].as_str().expect("an id")]);
    }
    for session in sessions {
        let ended = session.await.expect("an end");
        search.none("the answer of a session", ended.to_string());
    }

    search.none("answers", answers(&household, &daemon).await);
    let tables = every_table(&household, FAKE).await;
    assert!(tables.matches("[hidden]").count() > 1000, "it was spilled: {} times", tables.matches("[hidden]").count());
    search.none("tables", tables);
    assert_eq!(daemon.stop_blocking(), 0);
    search.none("the log", daemon.log());
    let kept = std::fs::read_dir(household.data().join("work/kept")).expect("kept workspaces").count();
    assert!(kept >= 3, "{kept} workspaces are kept");
    // The server's own files among them: tables, indexes, its log of all writes.
    let hits = search.files(&household.data(), &[&household.data().join("master.key")]);
    assert!(hits.is_empty(), "{} hits:\n{}", hits.len(), hits.join("\n"));
    drop(model);
}

/// The search finds what is there: each secret in each encoding, in rows and in files.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_search_finds_what_is_there() {
    let household = Household::new().with_fake();
    let daemon = household.start().await;
    let mut canaries = first_canaries(&household, &daemon);
    for n in 0..3 {
        canaries.add(&format!("the token of session {n}"), format!("token-of-session-{n}"));
    }
    let search = canaries.search();
    let client = household.role(FAKE).await;
    client.batch_execute("SET butlerd.tenant = 'owner'").await.expect("a setting");
    for (number, (name, secret)) in canaries.known.iter().enumerate() {
        let escaped = Value::String(String::from_utf8_lossy(secret).into_owned()).to_string();
        let hex: String = secret.iter().map(|b| format!("{b:02x}")).collect();
        let percent: String = secret.iter().map(|b| format!("%{b:02X}")).collect();
        let base64 = STANDARD.encode([b"x", secret.as_slice()].concat());
        for (encoding, text) in [("hex", hex), ("URL", percent), ("base64", base64), ("clear", escaped)] {
            if encoding == "clear" && std::str::from_utf8(secret).is_err() {
                continue;
            }
            let says = format!("{name} in {encoding}");
            assert!(search.hits("x", text.as_bytes()).iter().any(|h| h.contains(&says)), "{says}: {text}");
            // Behind the daemon's back.
            let key = format!("{number}-{encoding}");
            let sql = "INSERT INTO state (key, value) VALUES ($1, to_jsonb($2::text))";
            client.execute(sql, &[&key, &text]).await.expect("a row");
            std::fs::write(household.data().join(&key), &text).expect("a file");
        }
    }
    let (tables, files) = (every_table(&household, FAKE).await, household.data());
    for hits in [search.hits("tables", tables.as_bytes()), search.files(&files, &[])] {
        for (name, secret) in &canaries.known {
            let encodings: &[&str] = match std::str::from_utf8(secret) {
                Ok(_) => &["hex", "URL", "base64", "clear"],
                Err(_) => &["hex", "URL", "base64"],
            };
            for encoding in encodings {
                let says = format!("{name} in {encoding}");
                assert!(hits.iter().any(|h| h.contains(&says)), "{says} is not found among {} hits", hits.len());
            }
        }
    }
}
