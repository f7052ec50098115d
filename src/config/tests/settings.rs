//! Mistakes of `butlerd.toml`.

use super::*;

#[test]
fn each_mistake_of_the_settings_is_told_with_file_line_and_key() {
    let cases = [
        ("[daemons]", "1: daemons: unknown key (did you mean `daemon`?), expected one of `daemon`, `owner`"),
        ("daemon = 1", "1: daemon: found 1, expected a table"),
        ("[database]\nmax_connections = 10\npool_size = 20", "3: database.pool_size: found 20, more than the 10 of"),
        (
            "[admin]\nallowed_hosts = [\"ok.home\",\n\"https://x.home\"]",
            "3: admin.allowed_hosts[1]: found \"https://x.home\", expected a host name",
        ),
    ];
    for (toml, begin) in cases {
        only(&Scratch::of_settings(toml), &format!("config/butlerd.toml:{begin}"));
    }
    // A value, and what is told of its key.
    let cases = [
        ("daemon.datadir", "\"x\"", ": unknown key (did you mean `data_dir`?)"),
        ("daemon.listen", "\"x\"", ": unknown key here (did you mean `admin.listen`?)"),
        ("daemon.data_dir", "\"\"", ": found \"\", expected a path"),
        (
            "daemon.shutdown_timeout",
            "\"2h\"",
            ": found \"2h\", expected a duration such as \"30s\", \"10m\" \
             or \"2h\", at least 1s and at most 1h",
        ),
        ("owner.quiet_hours", "\"22-7\"", ": found \"22-7\", expected two different times"),
        ("owner.quiet_hours", "2026-01-01", ": found 2026-01-01, expected two different times"),
        ("owner.identities", "{ telegram = 1 }", ".telegram: found 1, expected a text"),
        ("owner.identities.Telegram", "\"1\"", ": found the key `Telegram`, expected a channel's name"),
        ("owner.notice_channel", "\"email\"\n", ": found \"email\", on which the owner has no identity"),
        ("database.max_connections", "5", ": found 5, expected a whole number 10-10000"),
        ("admin.listen", "\"localhost:40200\"", ": found \"localhost:40200\", expected an IP address and a port"),
        ("admin.allowed_hosts", "[\"*\"]", "[0]: found \"*\", expected a host name"),
        (
            "admin.allowed_origins",
            "[\"https://x.home/path\"]",
            "[0]: found \"https://x.home/path\", expected an origin",
        ),
        ("admin.allowed_origins", "[\"*\"]", "[0]: found \"*\", expected an origin"),
        ("admin.max_body", "\"4 potatoes\"", ": found \"4 potatoes\", expected a size such as"),
        ("admin.max_body", "12", ": found 12, expected a size"),
        ("spawner.child_user", "\"root\"", ": found \"root\", expected the name of a user of this system, not root"),
        ("spawner.keep_workspace_on_failure", "1", ": found 1, expected true or false"),
        ("spawner.limits.core", "-1", ": found -1, expected a size"),
        ("spawner.endpoints.anthropic", "\"ftp://x\"", ": found \"ftp://x\", expected an http or https address"),
        (
            "spawner.clis.claud",
            "\"/x\"",
            ": unknown key (did you mean `claude`?), expected one of `claude`, `codex`, `gemini`",
        ),
        ("telemetry.log", "\"butlerd=loud\"", ": found \"butlerd=loud\" ("),
        ("telemetry.log", "3", ": found 3, expected a level"),
        ("telemetry.format", "\"jsn\"", ": found \"jsn\" (did you mean \"json\"?), expected one of"),
    ];
    for (key, value, begin) in cases {
        let (table, name) = key.rsplit_once('.').unwrap();
        let told = Scratch::of_settings(&format!("[{table}]\n{name} = {value}"));
        only(&told, &format!("config/butlerd.toml:2: {key}{begin}"));
    }
}

#[test]
fn no_mistake_repeats_a_secret() {
    let secret = "hunter2geheim";
    let cases = [
        format!("[database]\nurl = [\"postgres://u:{secret}@h/butlers\"]\n"),
        format!("[database]\nurl = \"postgres:/u:{secret}@h/butlers\"\n"),
        format!("[database]\nurl = \"host=h pass {secret}\"\n"),
        format!("[database]\nurl = \"postgres://u:{secret}@h/butlers?{secret}=1\"\n"),
        format!("[database]\nurl = \"postgres://u:{secret}@h/butlers\n"),
        format!("[database]\nurl = postgres://u:{secret}@h/butlers\n"),
        format!("[database]\npassword = \"{secret}\"\n"),
        format!("[spawner.endpoints]\nopenai = \"https://u:{secret}@h/v1\"\n"),
        format!("[spawner.endpoints]\nopenai = \"https://u:{secret}@h/v 1\"\n"),
        format!("[spawner.endpoints]\nopenai = \"u:{secret}@h\"\n"),
        format!("[spawner.endpoints]\nopenai = \"https://u:a@{secret}@h/\"\n"),
    ];
    for toml in cases {
        let told = Scratch::of_settings(&toml).join("\n");
        assert!(!told.contains(secret) && !told.contains("hunter2"), "{told}");
        assert!(told.starts_with("config/butlerd.toml:2: "), "{told}");
    }
    only(
        &Scratch::of_settings("[database]\nurl = 4711\n"),
        "config/butlerd.toml:2: database.url: found a whole number,",
    );
    let mut scratch = Scratch::new();
    scratch.set("BUTLERD_DATABASE__URL", &format!("mysql://u:{secret}@h"));
    let told = scratch.mistakes();
    only(
        &told,
        "environment: BUTLERD_DATABASE__URL: found a text that can't be read as one (not shown), expected a PostgreSQL",
    );
    assert!(!format!("{:?}", scratch.environment).contains(secret));
}

#[test]
fn secrets_are_hidden_in_debug() {
    let mut scratch = Scratch::new();
    let url = "postgres://u:hunter2@h:5432/butlers";
    scratch.set("BUTLERD_DATABASE__URL", url);
    let household = scratch.household();
    assert_eq!(household.config.database.url.as_ref().unwrap().expose(), url);
    scratch.overrides.database_url = Some(url.to_owned().into());
    for shown in [format!("{household:?}"), format!("{:#?}", scratch.environment), format!("{:?}", scratch.overrides)] {
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn a_settings_file_that_was_asked_for_must_exist() {
    let mut scratch = Scratch::new();
    assert_eq!(scratch.household().config_file, None);
    scratch.overrides.config_file = Some(path("other.toml"));
    only(&scratch.mistakes(), "other.toml: can't be read: ");
    scratch.write("other.toml", "[spawner]\nmax_sessions = 2\n");
    let household = scratch.household();
    assert_eq!(household.config.spawner.max_sessions, 2);
    assert_eq!(household.config_file, Some(path("other.toml")));
    assert_eq!(household.sources[0], path("other.toml"));
    scratch.write("other.toml", b"\xef\xbb\xbf[spawner]\nmax_sessions = 4\n");
    assert_eq!(scratch.config().spawner.max_sessions, 4, "a byte order mark is no mistake");
}

#[test]
fn the_settings_load_without_a_roster() {
    let mut scratch = Scratch::new();
    scratch.overrides.roster = Some(path("nowhere"));
    let config = load_config(&scratch.overrides, &scratch.environment).unwrap();
    assert_eq!(config.daemon.roster, scratch.path().join("nowhere"));
    scratch.settings("[daemon]\nx = 1\n");
    assert_eq!(load_config(&scratch.overrides, &scratch.environment).unwrap_err().fatal.len(), 1);
}
