//! A household on disk: a roster that tests may change, a data directory whose database was made once for all tests.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use serde_json::json;
use testkit::model::{Script, ScriptedModel};

use super::{Daemon, butlerd};

/// A household that is not running yet.
pub struct Household {
    dir: Arc<tempfile::TempDir>,
    env: BTreeMap<String, String>,
}

/// Where households are: in memory, where the system has room for programs and some dozens of databases there. Each is
/// copied from a template, which takes several times as long on a disk, and a fifth of the suite's processor time.
/// `BUTLERD_TEST_GROUND` names another directory, for tests that measure a disk.
fn ground() -> &'static Path {
    static GROUND: OnceLock<&Path> = OnceLock::new();
    GROUND.get_or_init(|| {
        if let Some(asked) = std::env::var_os("BUTLERD_TEST_GROUND") {
            return Box::leak(PathBuf::from(asked).into_boxed_path());
        }
        let memory = Path::new("/dev/shm");
        let fits = nix::sys::statvfs::statvfs(memory).is_ok_and(|fs| {
            let runs_programs = !fs.flags().contains(nix::sys::statvfs::FsFlags::ST_NOEXEC);
            runs_programs && fs.blocks_available() * fs.fragment_size() > ROOM
        });
        if fits && tempfile::tempfile_in(memory).is_ok() { memory } else { Path::new("/tmp") }
    })
}

/// What the households of a run of all tests may take, in bytes.
const ROOM: u64 = 4 << 30;

/// A scratch directory that unprivileged users may pass through, with a short path for sockets.
fn scratch() -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("bt-").tempdir_in(ground()).expect("a scratch directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).expect("its mode");
    dir
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(status.success(), "cp -a {} {}", from.display(), to.display());
}

/// Which of the shipped butlers a household has.
#[derive(Clone, Copy)]
enum Staff {
    /// Switchboard and messenger.
    Core,
    /// These and two others, with whom most of what butlers do can be seen: each more costs every start.
    Usual,
    All,
}

impl Staff {
    fn has(self, butler: &str) -> bool {
        let core = ["switchboard", "messenger", "shared"].contains(&butler);
        match self {
            Self::Core => core,
            Self::Usual => core || ["general", "health"].contains(&butler),
            Self::All => true,
        }
    }

    /// Those of this roster.
    fn of(roster: &Path) -> Self {
        let has = |butler: &str| roster.join(butler).exists();
        match (has("general"), has("travel")) {
            (false, _) => Self::Core,
            (true, false) => Self::Usual,
            (true, true) => Self::All,
        }
    }
}

/// The data directory of such a household that was started and stopped once.
fn template(staff: Staff) -> &'static Path {
    static TEMPLATES: [OnceLock<PathBuf>; 3] = [const { OnceLock::new() }; 3];
    TEMPLATES[staff as usize].get_or_init(|| started_once(Household::bare().only(staff)))
}

fn started_once(household: Household) -> PathBuf {
    let mut daemon = household.start_blocking();
    daemon.stop_blocking();
    let path = household.data();
    // Kept for the whole test run; the system's cleaning of /tmp removes it, as it does for killed runs.
    let _kept = Arc::into_inner(household.dir).map(tempfile::TempDir::keep);
    path
}

/// The evening on which the households of [`Household::moved`] were set up, long before or after the real one.
pub const SET_UP: &str = "2027-02-28T20:00:00+01:00";

/// As [`template`], of all butlers and set up on the evening of [`SET_UP`]: what is due is counted from then.
fn template_of_then() -> &'static Path {
    static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let household = Household::bare().with_clock();
        household.set_clock(SET_UP);
        started_once(household)
    })
}

/// The owner's time zone: one in which it is between 11 and 12 now. Before three in the afternoon no schedule of the
/// shipped butlers asks a model, and they tidy at night. Were it a real place's, the suite would pass one of these
/// times on some days: each household that is started afterwards would make up for it, with a session that no test
/// expects.
pub fn owners_zone() -> &'static str {
    static ZONE: OnceLock<String> = OnceLock::new();
    ZONE.get_or_init(|| {
        let hour = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).hour();
        // The sign is POSIX's: `Etc/GMT+3` is three hours behind.
        format!("Etc/GMT{:+}", hour - 11)
    })
}

/// The scripted model is on this machine, where no price holds but those that the owner sets.
fn set_prices(dir: &Path) {
    std::fs::create_dir_all(dir.join("config")).expect("the directory");
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/pricing.toml");
    std::fs::copy(list, dir.join("config/pricing.toml")).expect("the prices");
}

impl Household {
    /// As [`Household::whole_with_model`], with a clock that [`Household::set_clock`] moves while the daemon runs. It
    /// was set up on the evening of [`SET_UP`], and shows that.
    pub fn moved(model: &ScriptedModel) -> Self {
        // No script of a day expects sessions that work its conversations into the journal.
        let by_hand = "[modules.journal]\nsync = \"by_hand\"\n";
        let household =
            Self::bare().asking(model).with_clock().replace("general/butler.toml", "[modules.journal]\n", by_hand);
        copy(template_of_then(), &household.data());
        household.set_clock(SET_UP);
        household
    }

    fn with_clock(self) -> Self {
        let file = self.path().join("clock").to_string_lossy().into_owned();
        self.env("BUTLERD_CLOCK_FILE", &file).env("BUTLERD_OWNER__TIME_ZONE", "Europe/Berlin")
    }

    /// Sets the clock of the running daemon and of the next ones to this time, such as `2027-03-01T08:00:00+01:00`.
    pub fn set_clock(&self, at: &str) {
        let at: jiff::Timestamp = at.parse().unwrap_or_else(|e| panic!("{at}: {e}"));
        let by = at.duration_since(jiff::Timestamp::now()).as_secs() + 1;
        // Whole or not at all: the daemon looks at any moment.
        let (new, file) = (self.path().join("clock.new"), self.path().join("clock"));
        std::fs::write(&new, format!("{by}s")).expect("the clock's file");
        std::fs::rename(new, file).expect("the clock is set");
    }

    /// The shipped roster and an empty data directory.
    pub fn bare() -> Self {
        let dir = scratch();
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("roster"), &dir.path().join("roster"));
        set_prices(dir.path());
        let env = BTreeMap::from([
            ("BUTLERD_DAEMON__PORTS".to_owned(), "auto".to_owned()),
            ("BUTLERD_OWNER__TIME_ZONE".to_owned(), owners_zone().to_owned()),
            // Whom the messages of most tests are from.
            ("BUTLERD_OWNER__IDENTITIES__TELEGRAM".to_owned(), "4711".to_owned()),
            ("BUTLERD_LOG".to_owned(), "info".to_owned()),
            // Where databases are that commands and reloads try SQL on.
            ("TMPDIR".to_owned(), ground().to_string_lossy().into_owned()),
            // The kernel counts the children of all households that run beside this one.
            ("BUTLERD_SPAWNER__LIMITS__PROCESSES".to_owned(), "4096".to_owned()),
        ]);
        Self { dir: Arc::new(dir), env }
    }

    /// Four of the shipped butlers (switchboard, messenger, general and health), and a data directory whose database is
    /// migrated already.
    pub fn new() -> Self {
        Self::with(Staff::Usual)
    }

    /// As [`Household::new`], with all shipped butlers.
    pub fn whole() -> Self {
        Self::with(Staff::All)
    }

    /// As [`Household::new`], with the two core butlers alone: for tests that start it often, and for those that wait
    /// for what no schedule of the shipped butlers may come before.
    pub fn few() -> Self {
        Self::with(Staff::Core)
    }

    fn with(staff: Staff) -> Self {
        let household = Self::bare().only(staff);
        copy(template(staff), &household.data());
        household
    }

    /// As [`Household::few`], with a model that follows `script` and a key for it.
    pub fn few_with_model(model: &ScriptedModel) -> Self {
        Self::few().asking(model)
    }

    fn only(self, staff: Staff) -> Self {
        for entry in std::fs::read_dir(self.roster()).expect("the roster").flatten() {
            let path = entry.path();
            if path.is_dir() && !staff.has(&entry.file_name().to_string_lossy()) {
                std::fs::remove_dir_all(&path).expect("the butler goes");
            }
        }
        self
    }

    /// As [`Household::new`], with a model that follows `script` and a key for it.
    pub fn with_model(model: &ScriptedModel) -> Self {
        Self::new().asking(model)
    }

    /// As [`Household::with_model`], with all shipped butlers.
    pub fn whole_with_model(model: &ScriptedModel) -> Self {
        Self::whole().asking(model)
    }

    fn asking(self, model: &ScriptedModel) -> Self {
        self.env("BUTLERD_SPAWNER__ENDPOINTS__ANTHROPIC", &model.base_url())
            .env("BUTLERD_SPAWNER__ENDPOINTS__OPENAI", &model.openai_base_url())
            .env("BUTLERD_SPAWNER__ENDPOINTS__GEMINI", &model.base_url())
            .env("ANTHROPIC_API_KEY", "sk-test-key-of-the-scripted-model")
    }

    /// Another household with the same roster and environment and the data directory of its template.
    pub fn clone_of(other: &Household) -> Self {
        let dir = scratch();
        copy(&other.roster(), &dir.path().join("roster"));
        set_prices(dir.path());
        let household = Self { dir: Arc::new(dir), env: other.env.clone() };
        copy(template(Staff::of(&household.roster())), &household.data());
        household
    }

    /// The same household, whose next daemon has another variable in its environment.
    pub fn again(other: &Household, name: &str, value: &str) -> Self {
        Self { dir: other.dir.clone(), env: other.env.clone() }.env(name, value)
    }

    /// Sets a variable of the daemon's environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Takes a variable out of the daemon's environment, so that its default holds.
    pub fn without(mut self, name: &str) -> Self {
        assert!(self.env.remove(name).is_some(), "{name} is not set");
        self
    }

    /// Writes a file of the roster.
    pub fn write(self, path: &str, content: &str) -> Self {
        let file = self.roster().join(path);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("the directory");
        std::fs::write(&file, content).expect("the file");
        self
    }

    /// Gives a butler this section of a module in the place of the one that it has.
    pub fn with_module(self, butler: &str, module: &str, section: &str) -> Self {
        let file = format!("{butler}/butler.toml");
        let before = std::fs::read_to_string(self.roster().join(&file)).expect("the file");
        let (own, parts) = (format!("[modules.{module}]"), format!("[modules.{module}."));
        let mut inside = false;
        let mut kept = String::new();
        for line in before.lines() {
            if line.starts_with('[') {
                inside = line.starts_with(&own) || line.starts_with(&parts);
            }
            if !inside {
                kept.push_str(line);
                kept.push('\n');
            }
        }
        self.write(&file, &format!("{kept}\n{}\n", section.trim()))
    }

    /// Adds the next migration of a butler.
    pub fn migration(self, butler: &str, name: &str, sql: &str) -> Self {
        let dir = self.roster().join(butler).join("migrations");
        let next = std::fs::read_dir(&dir).map_or(0, Iterator::count) + 1;
        self.write(&format!("{butler}/migrations/{next:03}_{name}.sql"), sql)
    }

    /// Replaces text in a file of the roster.
    pub fn replace(self, path: &str, from: &str, to: &str) -> Self {
        let before = std::fs::read_to_string(self.roster().join(path)).expect("the file");
        assert!(before.contains(from), "{path} has no {from:?}");
        self.write(path, &before.replace(from, to))
    }

    /// Gives a butler a `[runtime]` of its own, with these lines.
    pub fn runtime(self, butler: &str, lines: &str) -> Self {
        let file = format!("{butler}/butler.toml");
        let before = std::fs::read_to_string(self.roster().join(&file)).expect("the file");
        assert!(!before.contains("\n[runtime]"), "{butler} has a runtime already");
        self.write(&file, &format!("{before}\n[runtime]\n{lines}\n"))
    }

    /// Gives a butler a model of its own.
    pub fn model(self, butler: &str, name: &str) -> Self {
        let section = "[butler.runtime]\n";
        self.replace(&format!("{butler}/butler.toml"), section, &format!("{section}model = \"{name}\"\n"))
    }

    /// Adds a butler with this `butler.toml`.
    pub fn butler(self, name: &str, toml: &str) -> Self {
        self.write(&format!("{name}/butler.toml"), toml)
            .write(&format!("{name}/CLAUDE.md"), "@AGENTS.md\n")
            .write(&format!("{name}/AGENTS.md"), "@../shared/AGENTS.md\n\n# A butler for tests\n\n# Notes to self\n")
            .write(&format!("{name}/MANIFESTO.md"), "# A butler for tests\n")
    }

    pub fn roster(&self) -> PathBuf {
        self.dir.path().join("roster")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The variables of the daemon's environment.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    /// A connection as a butler's role, by the login that the command line gives an owner. It speaks for no tenant yet.
    pub async fn role(&self, butler: &str) -> tokio_postgres::Client {
        let (code, out, err) = self.cli(&["db", "url", "--butler", butler, "--json"]);
        assert_eq!(code, 0, "{out}{err}");
        let login: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let text = |k: &str| login[k].as_str().unwrap_or_else(|| panic!("no {k} in the login")).to_owned();
        let mut config = tokio_postgres::Config::new();
        config.host(text("host")).user(text("user")).password(text("password")).dbname(text("dbname"));
        config.port(u16::try_from(login["port"].as_u64().expect("a port")).expect("a port"));
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.expect("the role may log in");
        tokio::spawn(connection);
        client
    }

    /// Starts the daemon and waits until it is there.
    pub async fn start(&self) -> Daemon {
        let daemon = Daemon::spawn(self);
        tokio::task::spawn_blocking(move || daemon.wait_ready()).await.expect("the wait for the daemon")
    }

    fn start_blocking(&self) -> Daemon {
        Daemon::spawn(self).wait_ready()
    }

    /// Runs a command of the CLI against this household and returns its exit code, standard output and error.
    pub fn cli(&self, args: &[&str]) -> (i32, String, String) {
        self.cli_with_input(args, "")
    }

    /// As [`Household::cli`], with standard input.
    pub fn cli_with_input(&self, args: &[&str], input: &str) -> (i32, String, String) {
        use std::io::Write;
        use std::process::Stdio;
        let mut child = Command::new(butlerd())
            .args(args)
            .arg("--data-dir")
            .arg(self.data())
            .arg("--roster")
            .arg(self.roster())
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .envs(&self.env)
            .current_dir(self.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("butlerd runs");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("its input is taken");
        let out = child.wait_with_output().expect("its output");
        let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
        (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
    }
}

/// A model server that follows this list of conversations.
pub async fn model(conversations: serde_json::Value) -> ScriptedModel {
    let script = Script::from_value(json!({"conversations": conversations})).expect("a right script");
    ScriptedModel::start(script).await.expect("the scripted model starts")
}
