//! What pages tell a reader to write or to answer, done as they say.

use std::path::Path;

use serde_json::Value;
use toml_edit::DocumentMut;

use super::commands::{Shown, shown};
use super::pages::{Page, pages};
use crate::support::Household;

fn page(name: &str) -> Page {
    let page = pages().into_iter().find(|page| page.path == Path::new(name));
    page.unwrap_or_else(|| panic!("there is no {name}"))
}

/// What stands behind a flag.
fn value<'a>(command: &'a Shown, flag: &str) -> Option<&'a str> {
    command.words.iter().skip_while(|word| *word != flag).nth(1).map(String::as_str)
}

/// Runs an `init` in an empty directory, and says what is not as its flags say.
fn begun(command: &Shown) -> Vec<String> {
    // Of these vendors the doctor asks nothing, and of a server at home it asks in vain.
    let nobody = "http://127.0.0.1:9";
    let mut household = Household::bare()
        .env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", nobody)
        .env("BUTLERD_SPAWNER__ENDPOINTS__OPENAI", nobody)
        .env("BUTLERD_SPAWNER__ENDPOINTS__GEMINI", nobody);
    let variable = value(command, "--key-from-env");
    if let Some(variable) = variable {
        household = household.env(variable, "sk-key-of-a-reader");
    }
    std::fs::remove_dir_all(household.roster()).expect("no roster");
    std::fs::remove_dir_all(household.path().join("config")).expect("no settings");
    let words: Vec<&str> = command.words.iter().map(String::as_str).chain(["--json"]).collect();
    let (code, out, err) = household.cli(&words);
    let done: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{}: {e}: {out}{err}", command.line()));
    let settings = std::fs::read_to_string(household.path().join("config/butlerd.toml")).unwrap_or_default();
    let settings: DocumentMut = settings.parse().expect("TOML");
    let mut wrong = Vec::new();
    let mut holds = |what: &str, is: Option<&str>, wanted: Option<&str>| {
        if is != wanted {
            wrong.push(format!("{}: {}: {what} is {is:?}, not {wanted:?}", command.at, command.line()));
        }
    };
    let set = |section: &str, key: &str| settings.get(section)?.get(key)?.as_str().map(str::to_owned);
    holds("the owner", set("owner", "name").as_deref(), value(command, "--owner"));
    let endpoint = value(command, "--endpoint");
    let runtime = value(command, "--runtime").unwrap_or("native");
    // A server of one's own speaks OpenAI's protocol. Anthropic's is the usual one, and need not be named.
    let api = value(command, "--api").or(endpoint.map(|_| "openai"));
    holds("type", set("runtime", "type").as_deref(), Some(runtime));
    holds("endpoint", set("runtime", "endpoint").as_deref(), endpoint);
    holds("api", set("runtime", "api").as_deref(), api);
    if let Some(model) = value(command, "--model") {
        holds("model", set("runtime", "model").as_deref(), Some(model));
    }
    // The page says under which name the key of another server is kept.
    let kept = variable.map(|name| if name == "MY_KEY" { "OPENAI_API_KEY" } else { name });
    holds("the key", done["key"].as_str(), kept);
    let as_the_doctor = code == i32::from(done["doctor"]["problems"] != 0);
    holds("its end", (!as_the_doctor).then_some(err.as_str()), None);
    wrong
}

#[test]
fn each_init_of_the_quick_start_writes_the_runtime_that_it_names() {
    let mut wrong = Vec::new();
    let commands = shown(&page("docs/quick-start.md"), &mut wrong);
    let inits: Vec<&Shown> = commands.iter().filter(|c| c.words.first().is_some_and(|word| word == "init")).collect();
    assert!(inits.len() >= 9, "{inits:?}");
    // Side by side: most of the time they wait for a server that is not there.
    std::thread::scope(|scope| {
        let all: Vec<_> = inits.iter().map(|command| scope.spawn(move || begun(command))).collect();
        wrong.extend(all.into_iter().flat_map(|one| one.join().expect("an end")));
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The page's table, tool, schedules and scenario, in the butler that its first command makes.
#[test]
fn the_butler_that_the_page_writes_is_right_and_its_scenario_passes() {
    let page = page("docs/writing-a-butler.md");
    let blocks = |language: Option<&str>, mark: &str| -> String {
        let of = page.blocks.iter().filter(|block| block.language.as_deref() == language);
        let mut found = of.map(|block| block.lines.join("\n") + "\n").filter(|text| text.contains(mark));
        let (one, more) = (found.next(), found.next());
        one.filter(|_| more.is_none()).unwrap_or_else(|| panic!("not one block with {mark}: {more:?}"))
    };
    let household = Household::bare();
    let ran = |args: &[&str]| {
        let (code, out, err) = household.cli(args);
        assert_eq!(code, 0, "{args:?}: {out}{err}");
    };
    ran(&["new", "butler", "garden"]);
    let write = |file: &str, text: &str| {
        std::fs::write(household.roster().join("garden").join(file), text).expect("the file is written");
    };
    write("migrations/002_plants.sql", &blocks(Some("sql"), "CREATE TABLE plants"));
    write("tools/plant_count.sql", &blocks(Some("sql"), "count(*) AS plants"));
    write("tests/page.toml", &blocks(None, "[[scenario]]"));
    let toml = std::fs::read_to_string(household.roster().join("garden/butler.toml")).expect("the settings");
    // The butler that is made has the page's second schedule already, and its job.
    let made = |line: &str| toml.lines().any(|there| there.split('#').next().unwrap_or_default().trim() == line);
    assert!(blocks(None, "job_name").lines().filter(|line| !line.starts_with("cron")).all(made), "{toml}");
    write("butler.toml", &format!("{toml}\n{}", blocks(None, "weekly-review")));
    std::fs::create_dir(household.roster().join("garden/skills/weekly-review")).expect("a directory");
    write(
        "skills/weekly-review/SKILL.md",
        "---\nname: weekly-review\ndescription: What the week brought.\nversion: 1.0.0\n---\n# Weekly review\n\n\
         1. Look at what is due.\n2. With nothing due, say nothing.\n",
    );
    ran(&["check"]);
    // It fails because the page's tool has no scenarios; those that there are pass, the page's among them.
    let (_, out, err) = household.cli(&["test", "garden"]);
    let told = out + &err;
    assert!(told.contains("4 scenarios, 11 steps") && !told.contains(" failed"), "{told}");
}
