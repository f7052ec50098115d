//! Precedence, the environment's variables, paths.

use super::*;

#[test]
fn the_command_line_wins_over_environment_file_and_default() {
    let mut scratch = Scratch::new();
    assert_eq!(scratch.config().telemetry.log, "info");
    scratch.settings("[telemetry]\nlog = \"warn\"\n[daemon]\nports = \"auto\"\ndata_dir = \"from-file\"\n");
    assert_eq!(scratch.config().telemetry.log, "warn");
    scratch.set("BUTLERD_TELEMETRY__LOG", "debug");
    scratch.set("BUTLERD_DAEMON__DATA_DIR", "from-environment");
    let config = scratch.config();
    assert_eq!((config.telemetry.log.as_str(), config.daemon.ports), ("debug", Ports::Auto));
    assert_eq!(config.daemon.data_dir, scratch.path().join("from-environment"));
    scratch.overrides = Overrides {
        log: Some("trace".to_owned()),
        data_dir: Some(path("/from/flag")),
        ports: Some(Ports::Roster),
        listen: Some("[::1]:0".to_owned()),
        pg_bin: Some(path("bin")),
        pg_bundle: Some(path("/b.tgz")),
        set: vec![("spawner.endpoints.anthropic".to_owned(), "http://127.0.0.1:9".to_owned())],
        ..Overrides::default()
    };
    let config = scratch.config();
    assert_eq!((config.telemetry.log.as_str(), config.daemon.ports), ("trace", Ports::Roster));
    assert_eq!(config.daemon.data_dir, path("/from/flag"));
    assert_eq!(config.admin.listen, "[::1]:0".parse().unwrap());
    assert_eq!(config.database.pg_bin, Some(scratch.path().join("bin")));
    assert_eq!(config.database.pg_bundle, Some(path("/b.tgz")));
    assert_eq!(config.spawner.endpoints.anthropic, "http://127.0.0.1:9");
    assert_eq!(config.spawner.endpoints.openai, "https://api.openai.com/v1");
}

#[test]
fn an_address_that_is_set_holds_and_one_that_is_not_moves_with_the_ports() {
    let mut scratch = Scratch::new();
    let listen = |scratch: &Scratch| scratch.config().admin.listen.to_string();
    scratch.overrides.ports = Some(Ports::Auto);
    assert_eq!(listen(&scratch), "127.0.0.1:0");
    scratch.overrides.listen = Some("127.0.0.1:4711".to_owned());
    assert_eq!(listen(&scratch), "127.0.0.1:4711");
    (scratch.overrides.ports, scratch.overrides.listen) = (None, None);
    let ports = |scratch: &Scratch| {
        let household = scratch.household();
        household.butlers.iter().map(|b| b.port).collect::<Vec<u16>>()
    };
    let shipped = ports(&scratch);
    scratch.settings("[daemon]\nport_base = 50100\n");
    assert_eq!(ports(&scratch), shipped.iter().map(|port| port + 10_000).collect::<Vec<u16>>());
    assert_eq!(listen(&scratch), "127.0.0.1:50200");
    scratch.settings("[daemon]\nport_base = 50100\n\n[admin]\nlisten = \"127.0.0.1:4712\"\n");
    assert_eq!(listen(&scratch), "127.0.0.1:4712");
    scratch.settings("[daemon]\nport_base = 65000\n");
    scratch.butler("health", &butler_toml("health", 60000));
    let wrong =
        "roster/health/butler.toml:3: butler.port: found 60000, which daemon.port_base = 65000 moves out of range";
    only(&scratch.mistakes(), wrong);
}

#[test]
fn another_roster_can_be_named() {
    let mut scratch = Scratch::new();
    std::fs::rename(scratch.path().join("roster"), scratch.path().join("staff")).unwrap();
    scratch.settings("[daemon]\nroster = \"staff\"\n");
    assert_eq!(scratch.config().daemon.roster, scratch.path().join("staff"));
    scratch.write("staff/health/butler.toml", "");
    assert!(scratch.mistakes()[0].starts_with("staff/health/CLAUDE.md: missing"), "{:?}", scratch.mistakes());
    scratch.overrides.roster = Some(scratch.path().join("else"));
    let told = scratch.mistakes();
    only(&told, &format!("{}/else: can't be read", scratch.path().display()));
}

#[test]
fn the_environment_gives_every_sort_of_value() {
    let mut scratch = Scratch::new();
    for (name, value) in [
        ("BUTLERD_SPAWNER__MAX_SESSIONS", "9"),
        ("BUTLERD_SPAWNER__KEEP_WORKSPACE_ON_FAILURE", "true"),
        ("BUTLERD_SPAWNER__LIMITS__MEMORY", "2 GiB"),
        ("BUTLERD_SPAWNER__LIMITS__CORE", "1024"),
        ("BUTLERD_SPAWNER__KILL_GRACE_S", "7"),
        ("BUTLERD_DAEMON__SHUTDOWN_TIMEOUT", "1m30s"),
        ("BUTLERD_OWNER__NAME", "42"),
        ("BUTLERD_OWNER__IDENTITIES__TELEGRAM", "123456"),
        ("BUTLERD_OWNER__IDENTITIES__EMAIL", "a@b.example"),
        ("BUTLERD_OWNER__NOTICE_CHANNEL", "email"),
        ("BUTLERD_OWNER__QUIET_HOURS", "22:00-07:00"),
        ("BUTLERD_ADMIN__ALLOWED_HOSTS", "a.home, b.home:40200"),
        ("BUTLERD_ADMIN__ALLOWED_ORIGINS", "[\"https://a.home\"]"),
        ("BUTLERD_DATABASE__PG_BIN", ""),
        // None of these is configuration.
        ("BUTLERD_CRASH_POINT", "x:3"),
        ("BUTLERD_LOG", "loud"),
        ("BUTLERD_OWNER", "x"),
        ("BUTLERD_TEST__THING", "x"),
    ] {
        scratch.set(name, value);
    }
    scratch.settings("[owner.identities]\nsms = \"1\"\n");
    let config = scratch.config();
    assert_eq!(config.spawner.max_sessions, 9);
    assert!(config.spawner.keep_workspace_on_failure);
    assert_eq!((config.spawner.limits.memory.0, config.spawner.limits.core.0), (2 << 30, 1024));
    assert_eq!(config.spawner.kill_grace.0.as_secs(), 7);
    assert_eq!(config.daemon.shutdown_timeout.0.as_secs(), 90);
    assert_eq!(config.owner.name.as_deref(), Some("42"));
    let identities: Vec<_> = config.owner.identities.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(identities, [("email", "a@b.example"), ("sms", "1"), ("telegram", "123456")]);
    assert!(config.owner.quiet_hours.unwrap().contains(jiff::civil::time(23, 0, 0, 0)));
    assert_eq!(config.admin.allowed_hosts, ["a.home", "b.home:40200"]);
    assert_eq!(config.admin.allowed_origins, ["https://a.home"]);
    assert_eq!(config.database.pg_bin, None, "an empty variable is as good as none");
}

#[test]
fn each_mistake_of_the_environment_names_its_variable() {
    let cases = [
        ("BUTLERD_DATABASE__URLL", "x", "unknown key (did you mean `url`?), expected one of `url`,"),
        ("BUTLERD_SPAWNER__LIMITS__MEMROY", "1", "unknown key (did you mean `memory`?)"),
        (
            "BUTLERD_SPAWNER__LIMITS",
            "{}",
            "found a text for a whole table, expected single keys, such as BUTLERD_SPAWNER__LIMITS__FILE_SIZE",
        ),
        ("BUTLERD_SPAWNER__MAX_SESSIONS", "many", "found \"many\", expected a whole number 1-1000"),
        ("BUTLERD_SPAWNER__MAX_SESSIONS", "0", "found 0, expected a whole number 1-1000"),
        ("BUTLERD_DAEMON__PORTS__X", "1", "unknown key: `daemon.ports` has no `x`"),
        ("BUTLERD_ADMIN__ALLOWED_HOSTS", "a.home,/b", "found \"/b\", expected a host name"),
        ("BUTLERD_OWNER__IDENTITIES", "x", "found \"x\", expected a table"),
        ("BUTLERD_OWNER__NOTICE_CHANNEL", "sms", "found \"sms\", on which the owner has no identity"),
        ("BUTLERD_DAEMON__DATA_DIR", "\0", "found a text with a NUL character"),
    ];
    for (name, value, begin) in cases {
        let mut scratch = Scratch::new();
        scratch.set(name, value);
        only(&scratch.mistakes(), &format!("environment: {name}: {begin}"));
    }
    let mut scratch = Scratch::new();
    scratch.set("BUTLERD_SPAWNER__KILL_GRACE", "5s");
    scratch.set("BUTLERD_SPAWNER__KILL_GRACE_S", "6");
    only(&scratch.mistakes(), "environment: BUTLERD_SPAWNER__KILL_GRACE_S: found beside BUTLERD_SPAWNER__KILL_GRACE");
    let mut scratch = Scratch::new();
    scratch.environment.unreadable = vec!["BUTLERD_OWNER__NAME".to_owned(), "BUTLERD_LOG".to_owned()];
    only(&scratch.mistakes(), "environment: BUTLERD_OWNER__NAME: found bytes that are no UTF-8, expected a text");
}

#[test]
fn each_mistake_of_the_command_line_names_its_flag() {
    let mut scratch = Scratch::new();
    scratch.overrides.listen = Some("here".to_owned());
    scratch.overrides.log = Some("butlerd=loud".to_owned());
    scratch.overrides.set = vec![("spawner.max_session".to_owned(), "1".to_owned())];
    let told = scratch.mistakes();
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(told[0].starts_with("command line: --listen: found \"here\", expected an IP address and a port"));
    assert!(told[1].starts_with("command line: --log: found \"butlerd=loud\" ("));
    assert!(told[2].starts_with("command line: spawner.max_session: unknown key (did you mean `max_sessions`?)"));
    let mut scratch = Scratch::new();
    scratch.overrides.data_dir = Some(path(""));
    only(&scratch.mistakes(), "command line: --data-dir: found \"\", expected a path");
    scratch.overrides.data_dir = Some(path("~/b"));
    scratch.environment.variables.clear();
    only(&scratch.mistakes(), "command line: --data-dir: found \"~/b\", but the environment has no HOME");
}

#[test]
fn the_data_directory_is_where_the_system_wants_it() {
    let mut scratch = Scratch::new();
    assert_eq!(scratch.config().daemon.data_dir, path("/home/ada/.local/share/butlerd"));
    scratch.set("XDG_DATA_HOME", "/home/ada/data");
    assert_eq!(scratch.config().daemon.data_dir, path("/home/ada/data/butlerd"));
    scratch.set("XDG_DATA_HOME", "relative/is/ignored");
    assert_eq!(scratch.config().daemon.data_dir, path("/home/ada/.local/share/butlerd"));
    scratch.set("XDG_DATA_HOME", "/home/ada/data");
    scratch.environment.root = true;
    assert_eq!(
        scratch.config().daemon.data_dir,
        path("/var/lib/butlerd"),
        "root's home is closed to PostgreSQL's user"
    );
    scratch.set("STATE_DIRECTORY", "/var/lib/private/butlerd:/var/lib/other");
    assert_eq!(scratch.config().daemon.data_dir, path("/var/lib/private/butlerd"));
    scratch.settings("[daemon]\ndata_dir = \"~/b\"\n");
    assert_eq!(scratch.config().daemon.data_dir, path("/home/ada/b"));
}

#[test]
fn without_a_home_the_data_directory_must_be_said() {
    let mut scratch = Scratch::new();
    scratch.environment.variables.clear();
    only(
        &scratch.mistakes(),
        "config/butlerd.toml: daemon.data_dir: not set, and the environment has no HOME, expected a path here",
    );
    scratch.settings("[daemon]\ndata_dir = \"~/b\"\n");
    only(&scratch.mistakes(), "config/butlerd.toml:2: daemon.data_dir: found \"~/b\", but the environment has no HOME");
    scratch.settings("[daemon]\ndata_dir = \"/b\"\n");
    assert_eq!(scratch.config().daemon.data_dir, path("/b"));
}

#[test]
fn the_zone_is_the_systems_or_utc() {
    let mut scratch = Scratch::new();
    assert_eq!(scratch.config().owner.time_zone.name(), "Europe/Vienna");
    scratch.environment.zone = None;
    assert_eq!(scratch.config().owner.time_zone.name(), "UTC");
    scratch.set("BUTLERD_OWNER__TIME_ZONE", "Asia/Tokyo");
    assert_eq!(scratch.config().owner.time_zone.name(), "Asia/Tokyo");
}

#[test]
fn the_process_has_an_environment() {
    let environment = Environment::of_process();
    assert!(environment.working_dir.is_absolute());
    assert_eq!(environment.variables.get("HOME").map(String::as_str), std::env::var("HOME").ok().as_deref());
    assert!(!environment.variables.contains_key("PATH"));
}
