//! Rules of the house that the compiler doesn't know: who may use whom, and what is done in one place only.
//!
//! Each finding names file, line and rule. A rule that stands in the way of something right is changed here, with the
//! reason; it is not gone around.

mod baseline;
mod circles;
mod crates;
mod frozen;
mod lines;
mod names;
mod owners;
mod results;
mod source;
mod sql;

use std::path::Path;

use source::{Named, Source, rust_files};

const LIMIT_RUST: usize = 600;
const LIMIT_ARCHITECTURE: usize = 300;

/// Where things happen that happen in one place only.
const CLOCK: &[&str] = &["src/base/clock.rs"];
const TASKS: &[&str] = &["src/base/task.rs"];
/// Children of sessions, the database server, a look at the machine, systemd for root, and `psql` for the owner.
const PROCESSES: &[&str] = &[
    "src/process/",
    "src/store/cluster/",
    "src/offline/doctor",
    "src/offline/setup/service.rs",
    "src/cli/",
    // Runs as the developer, outside the daemon, and waits for what it starts.
    "src/project/git.rs",
    "src/project/init/",
    // A real server of calendars, for tests.
    "src/dav/tests/radicale.rs",
];
/// Who knows vendors: what speaks to them, what plays them, and what reads or shows an owner's choice of runtime.
const VENDORS: &[&str] = &[
    "src/sessions/adapters",
    "src/sessions/gateway/login/",
    "src/llm-api/",
    // Answers lose all names by which a model could be known.
    "src/council/anonymous.rs",
    "src/agent/",
    "src/testkit/",
    "src/demo/",
    "src/offline/demo/",
    "src/offline/doctor",
    "src/config/",
    "src/cli/",
    "src/project/",
    "src/main.rs",
];
const VENDOR_NAMES: &[&str] = &["claude", "codex", "gemini"];

/// What is wrong where: `src/a.rs:3: why`.
type Findings = Vec<String>;

#[test]
fn a_module_uses_no_other_module() {
    demand_nothing(check(&["src"], modules));
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
    // Each queue has its own three.
    for text in texts(&["src"]) {
        let names = text.split("\n    const NAME: &'static str = \"").skip(1).filter_map(|rest| rest.split_once('"'));
        let of = |name: &str| ["claimed", "tried", "settled"].map(|point| format!("{name}.{point}"));
        points.extend(names.flat_map(|(name, _)| of(name)));
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

/// A module of butlers gets a context and never imports another module.
fn modules(source: &Source) -> Findings {
    let Some(rest) = source.path.strip_prefix("src/modules/") else { return Vec::new() };
    let Some((own, _)) = rest.split_once('/') else { return Vec::new() };
    let others = |named: &&Named| {
        named.segments.first().is_some_and(|s| s == "crate")
            && named.segments.get(1).is_some_and(|m| m != own && root().join("src/modules").join(m).is_dir())
    };
    let say = |n: &Named| {
        format!("{}:{}: the module `{own}` must not import the module `{}`", source.path, n.line, n.segments[1])
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
    demand(PROCESSES, "processes are started by the child supervisor (src/process)", &|named| {
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
    fn a_module_that_uses_another_is_found() {
        let text = "use crate::contract::Module;\nuse crate::vcard::Card;\n";
        let want = "src/modules/memory/mod.rs:2: the module `memory` must not import the module `vcard`";
        assert_eq!(at("src/modules/memory/mod.rs", text, modules), [want]);
        assert_eq!(at("src/modules/catalog.rs", text, modules), [] as [&str; 0]);
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
        assert_eq!(at("src/sessions/adapters/a.rs", "let a = \"codex\";", vendors), [] as [&str; 0]);
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(at("src/a.rs", &"\n".repeat(LIMIT_RUST), size), [] as [&str; 0]);
        assert_eq!(at("src/a.rs", &"\n".repeat(LIMIT_RUST + 1), size).len(), 1);
    }
}
