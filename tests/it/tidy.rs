//! Rules of the house that the compiler doesn't know: who may use whom, and what is done in one place only.
//!
//! Each finding names file, line and rule. A rule that stands in the way of something right is changed here, with the
//! reason; it is not gone around.

mod baseline;
mod circles;
mod crates;
mod lines;
mod names;
mod owners;
mod results;
mod source;
mod sql;

use std::path::Path;

use source::{Named, Source, rust_files};

/// The rooms from low to high. A room may use those of the lines above its own.
const ROOMS: &[&[&str]] = &[
    &["base"],
    &["config"],
    &["telemetry"],
    &["store"],
    &["credentials"],
    &["backup"],
    &["access"],
    &["tools"],
    &["approvals"],
    &["mcp"],
    &["scheduler"],
    &["spawner"],
    &["switchboard"],
    &["messenger"],
    &["modules"],
    &["butler"],
    &["supervisor"],
    &["admin"],
    &["scenario"],
    &["setup"],
    // It has a household of its own, as the scenarios do.
    &["demo"],
    // It asks a running daemon.
    &["doctor"],
    &["cli"],
];

/// What may be used beside lower rooms. A part of a room is named with `/`.
const ALLOWED: &[(&str, &str)] = &[
    // The agent is a process of its own, which knows the daemon by its protocol only.
    ("agent", "base"),
    ("cli", "agent"),
    // The scripted model is what the agent's tests talk to.
    ("agent/tests/", "demo"),
    // So do those of the gateway.
    ("spawner/gateway/tests", "demo"),
    ("spawner/gateway/wire/tests", "demo"),
];

/// What the order alone would allow, and why it may not be.
const FORBIDDEN: &[(&str, &str, &str)] = &[("messenger", "switchboard", "they meet only through rows and tool calls")];

const LIMIT_RUST: usize = 600;
const LIMIT_ARCHITECTURE: usize = 300;

/// Where things happen that happen in one place only.
const CLOCK: &[&str] = &["src/base/clock.rs"];
const TASKS: &[&str] = &["src/base/task.rs"];
/// Children of sessions, the database server, a look at the machine, systemd for root, and `psql` for the owner.
const PROCESSES: &[&str] = &[
    "src/spawner/child/",
    "src/spawner/child.rs",
    "src/store/cluster/",
    "src/doctor",
    "src/setup/service.rs",
    "src/cli/",
];
/// Who knows vendors: what speaks to them, what plays them, and what reads or shows an owner's choice of runtime.
const VENDORS: &[&str] = &[
    "src/spawner/adapters",
    "src/spawner/gateway/wire/",
    "src/agent/",
    "src/demo/",
    "src/doctor",
    "src/config/",
    "src/cli/",
    "src/main.rs",
];
const VENDOR_NAMES: &[&str] = &["claude", "codex", "gemini"];

/// What is wrong where: `src/a.rs:3: why`.
type Findings = Vec<String>;

#[test]
fn a_room_uses_lower_rooms_only() {
    demand_nothing(check(&["src"], |source| {
        let mut found = rooms(source);
        found.extend(modules(source));
        found
    }));
}

#[test]
fn some_things_are_done_in_one_place_only() {
    demand_nothing(check(&["src"], one_place));
}

#[test]
fn nothing_is_left_half_done() {
    demand_nothing(check(&["src", "tests", "benches"], half_done));
}

#[test]
fn only_adapters_name_vendors() {
    demand_nothing(check(&["src"], vendors));
}

#[test]
fn files_stay_of_a_size_that_can_be_read() {
    let mut found = check(&["src", "tests", "benches"], size);
    if let Ok(text) = std::fs::read_to_string(root().join("ARCHITECTURE.md")) {
        let lines = text.lines().count();
        if lines >= LIMIT_ARCHITECTURE {
            found.push(format!("ARCHITECTURE.md: {lines} lines; it stays under {LIMIT_ARCHITECTURE}"));
        }
    }
    demand_nothing(found);
}

#[test]
fn every_crash_point_is_killed_at_by_some_test() {
    let texts = |dirs: &[&str]| -> Vec<String> {
        let files = dirs.iter().flat_map(|dir| rust_files(&root().join(dir)));
        files.map(|file| std::fs::read_to_string(file).expect("a file")).collect()
    };
    let tests = texts(&["tests"]).concat();
    let mut points: Vec<String> = Vec::new();
    for text in texts(&["src"]) {
        points
            .extend(text.split("crash::point(\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    assert!(points.len() > 50, "{points:?}");
    // A test that takes all points of a room names them without the room.
    let named = |name: &str| tests.contains(&format!("\"{name}\"")) || tests.contains(&format!("\"{name}:"));
    let all_of = |room: &str| tests.contains(&format!("\"{room}.{{point}}\""));
    let killed =
        |point: &String| named(point) || point.split_once('.').is_some_and(|(room, of)| all_of(room) && named(of));
    points.retain(|point| !killed(point));
    assert!(points.is_empty(), "no test lets the process die at {points:?}");
}

/// Lock files must not say from where somebody's npm fetched: what counts is the checksum.
#[test]
fn lock_files_of_npm_name_no_host() {
    let clients = root().join("tests/clients");
    let mut found = Vec::new();
    for directory in std::fs::read_dir(&clients).unwrap() {
        let file = directory.unwrap().path().join("package-lock.json");
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let lines = text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("\"resolved\""));
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        found.extend(lines.map(|(n, _)| {
            format!("{name}:{}: `npm install --omit-lockfile-registry-resolved` makes it without hosts", n + 1)
        }));
    }
    demand_nothing(found);
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn check(dirs: &[&str], rule: impl Fn(&Source) -> Findings) -> Findings {
    let files: Vec<_> = dirs.iter().flat_map(|dir| rust_files(&root().join(dir))).collect();
    assert!(!files.is_empty(), "no Rust files in {dirs:?} of {}", root().display());
    files.iter().flat_map(|file| rule(&Source::read(root(), file))).collect()
}

fn demand_nothing(found: Findings) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// The room of a file: `store` of `src/store/pool.rs` and of `src/store.rs`; none of `src/main.rs` and `src/lib.rs`.
fn room_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("src/")?;
    let room = rest.split('/').next()?;
    match room.strip_suffix(".rs") {
        Some("main" | "lib") => None,
        Some(single_file) => Some(single_file),
        None => Some(room),
    }
}

fn height(room: &str) -> Option<usize> {
    ROOMS.iter().position(|floor| floor.contains(&room))
}

fn known(room: &str) -> bool {
    height(room).is_some() || ALLOWED.iter().any(|(from, _)| *from == room)
}

/// Why code in `path` may not use the room `to`; none if it may.
fn forbidden(path: &str, to: &str) -> Option<String> {
    let from = room_of(path)?;
    if from == to {
        return None;
    }
    if !known(from) {
        return Some(format!("`{from}` is not in the order of rooms; say in tests/it/tidy.rs where it stands"));
    }
    if !known(to) {
        return Some(format!("`{to}` is not a room; name things by the room they live in"));
    }
    let here = |part: &str| part == from || part.contains('/') && path["src/".len()..].starts_with(part);
    if ALLOWED.iter().any(|(part, room)| *room == to && here(part)) {
        return None;
    }
    if let Some((.., why)) = FORBIDDEN.iter().find(|(part, room, _)| *room == to && here(part)) {
        return Some(format!("`{from}` must not use `{to}`: {why}"));
    }
    let lower = height(to).zip(height(from)).is_some_and(|(to, from)| to < from);
    (!lower).then(|| format!("`{from}` must not use `{to}`: a room uses lower rooms only"))
}

fn rooms(source: &Source) -> Findings {
    let refused = |named: &Named| {
        let to = target(source, named)?;
        forbidden(&source.path, to).map(|why| format!("{}:{}: {why}", source.path, named.line))
    };
    source.paths.iter().filter_map(refused).collect()
}

/// The room that a path leads to, if it leaves its own.
fn target<'a>(source: &Source, named: &'a Named) -> Option<&'a str> {
    let first = named.segments.first()?;
    if first == "crate" {
        return named.segments.get(1).map(String::as_str).filter(|room| *room != "*");
    }
    // `super::super::store`: another room by the back stairs, unless that is a file beside this one.
    let name = named.segments.iter().find(|segment| *segment != "super")?;
    let file = root().join(&source.path);
    let mut around = file.ancestors().skip(1).take_while(|dir| *dir != root().join("src"));
    let beside = around.any(|dir| dir.join(format!("{name}.rs")).exists() || dir.join(name).is_dir());
    (first == "super" && !beside && known(name) && room_of(&source.path)? != name).then_some(name)
}

/// A module of butlers gets a context and never imports another module.
fn modules(source: &Source) -> Findings {
    let Some(rest) = source.path.strip_prefix("src/modules/") else { return Vec::new() };
    let Some((own, _)) = rest.split_once('/') else { return Vec::new() };
    let others = |named: &&Named| {
        named.segments.first().is_some_and(|s| s == "crate")
            && named.segments.get(1).is_some_and(|s| s == "modules")
            && named.segments.get(2).is_some_and(|m| m != own && root().join("src/modules").join(m).is_dir())
    };
    let say = |n: &Named| {
        format!("{}:{}: the module `{own}` must not import the module `{}`", source.path, n.line, n.segments[2])
    };
    source.paths.iter().filter(others).map(say).collect()
}

fn one_place(source: &Source) -> Findings {
    let mut found = Vec::new();
    let mut demand = |allowed: &[&str], rule: &str, what: &dyn Fn(&Named) -> bool| {
        if !allowed.iter().any(|place| source.path.starts_with(place)) {
            let lines = source.paths.iter().filter(|named| what(named)).map(|named| named.line);
            found.extend(lines.map(|line| format!("{}:{line}: {rule}", source.path)));
        }
    };
    demand(CLOCK, "ask base::Clock what time it is (it can be moved by tests)", &|named| {
        ["Timestamp", "Zoned", "SystemTime", "Utc", "Local"].iter().any(|clock| named.ends_with(&[clock, "now"]))
    });
    demand(TASKS, "start tasks with base::task::spawn, which gives them a kind and a name", &|named| {
        named.is(&["tokio", "spawn"])
            // Imported whole, `task::spawn` would not show whose it is.
            || named.is(&["tokio", "task"])
            || named.is(&["tokio", "task", "*"])
            || named.is(&["tokio", "task", "spawn"])
            || named.is(&["tokio", "task", "spawn_local"])
    });
    demand(PROCESSES, "processes are started by the child supervisor (src/spawner/child)", &|named| {
        named.ends_with(&["Command", "new"]) || named.ends_with(&["process", "Command"])
    });
    found
}

fn half_done(source: &Source) -> Findings {
    let mut found = Vec::new();
    for name in ["todo", "unimplemented", "dbg"] {
        let lines = source.find(&[name, "!"]);
        found.extend(lines.iter().map(|line| format!("{}:{line}: {name}! is not finished work", source.path)));
    }
    for line in source.find(&["#", "[", "ignore"]) {
        // The one good reason: another test starts it as a process of its own.
        if !source.spoken[line - 1].contains("#[ignore = \"run by other tests") {
            found.push(format!("{}:{line}: a test that nobody runs shows nothing", source.path));
        }
    }
    found
}

fn vendors(source: &Source) -> Findings {
    if VENDORS.iter().any(|place| source.path.starts_with(place)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (number, line) in source.spoken.iter().enumerate() {
        // A prompt's file is called so in every roster, whatever the model.
        let line = line.replace("CLAUDE.md", "").to_lowercase();
        for name in VENDOR_NAMES.iter().filter(|name| line.contains(**name)) {
            found.push(format!("{}:{}: only adapters name a vendor ({name})", source.path, number + 1));
        }
    }
    found
}

fn size(source: &Source) -> Findings {
    if source.lines <= LIMIT_RUST {
        return Vec::new();
    }
    vec![format!("{}: {} lines; past {LIMIT_RUST} a file is two things", source.path, source.lines)]
}

/// The rules find what they forbid, and nothing else.
mod rules {
    use super::*;

    fn at(path: &str, text: &str, rule: fn(&Source) -> Findings) -> Findings {
        rule(&Source::parse(path, text))
    }

    #[test]
    fn a_lower_room_that_uses_a_higher_one_is_found() {
        let text = "use crate::base::Clock;\nuse crate::{\n    store::Store,\n    butler::Handle,\n};\n";
        let want = "src/access/edge.rs:4: `access` must not use `butler`: a room uses lower rooms only";
        assert_eq!(at("src/access/edge.rs", text, rooms), [want]);
        let inline = "fn f() -> crate::cli::Args { crate::access::f() }";
        assert_eq!(at("src/access/mod.rs", inline, rooms).len(), 1);
        assert_eq!(at("src/supervisor/tree.rs", text, rooms), [] as [&str; 0]);
        assert_eq!(at("src/main.rs", "use crate::cli::run;", rooms), [] as [&str; 0]);
    }

    #[test]
    fn exceptions_hold_where_they_say_and_nowhere_else() {
        let demo = "use crate::demo::model;";
        assert_eq!(at("src/agent/tests/servers.rs", demo, rooms), [] as [&str; 0]);
        assert_eq!(at("src/agent/talk.rs", demo, rooms).len(), 1);
        assert_eq!(at("src/agent/talk.rs", "use crate::store::Store;", rooms).len(), 1);
        assert_eq!(at("src/supervisor/tree.rs", "use crate::agent::run;", rooms).len(), 1);
        assert_eq!(at("src/cli/mod.rs", "use crate::agent::run;", rooms), [] as [&str; 0]);
        assert_eq!(at("src/admin/mod.rs", demo, rooms).len(), 1);
        let why = at("src/messenger/outbox.rs", "use crate::switchboard::Inbox;", rooms);
        assert!(why[0].ends_with("they meet only through rows and tool calls"), "{why:?}");
    }

    #[test]
    fn back_stairs_and_unknown_rooms_are_found() {
        assert_eq!(at("src/base/ids.rs", "use super::super::store::Store;", rooms).len(), 1);
        assert_eq!(at("src/base/ids.rs", "use super::text::cut;", rooms), [] as [&str; 0]);
        assert!(at("src/cellar/mod.rs", "use crate::base::Clock;", rooms)[0].contains("`cellar` is not in the order"));
        assert!(at("src/store/mod.rs", "use crate::Shortcut;", rooms)[0].contains("`Shortcut` is not a room"));
    }

    #[test]
    fn second_places_are_found() {
        let text = "use jiff::Timestamp;\nfn f() { Timestamp::now(); tokio::spawn(x); std::process::Command::new(y) }";
        assert_eq!(at("src/store/pool.rs", text, one_place).len(), 3);
        assert_eq!(at("src/base/clock.rs", "let a = Timestamp::now();", one_place), [] as [&str; 0]);
        assert_eq!(at("src/store/pool.rs", "use tokio::{net, task};", one_place).len(), 1);
        assert_eq!(at("src/store/pool.rs", "use tokio::task::JoinHandle;", one_place), [] as [&str; 0]);
        assert_eq!(at("src/store/pool.rs", "use tokio::process::Command;", one_place).len(), 1);
        assert_eq!(at("src/store/pool.rs", "std::time::Instant::now();", one_place), [] as [&str; 0]);
    }

    #[test]
    fn half_done_work_and_vendors_are_found() {
        // In pieces, so that this file is clean itself.
        let text = format!("fn f() {{ {}!() }}\n#[{}]\nfn g() {{}}\n", "todo", "ignore");
        assert_eq!(at("src/a.rs", &text, half_done).len(), 2);
        assert_eq!(at("src/store/pool.rs", "// claude\nlet a = \"CLAUDE.md\";", vendors), [] as [&str; 0]);
        assert_eq!(at("src/store/pool.rs", "let a = Kind::ClaudeCode;", vendors).len(), 1);
        assert_eq!(at("src/spawner/adapters/a.rs", "let a = \"codex\";", vendors), [] as [&str; 0]);
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(at("src/a.rs", &"\n".repeat(LIMIT_RUST), size), [] as [&str; 0]);
        assert_eq!(at("src/a.rs", &"\n".repeat(LIMIT_RUST + 1), size).len(), 1);
    }
}
