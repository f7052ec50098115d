//! A household on disk: the shipped roster, more butlers where wanted, and a data directory, all gone when dropped.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::bot_api::BotApi;
use crate::{Failed, soak};

/// The butler that is measured, and the one that the others are copies of: it has no tools or tables of its own.
pub const MODEL: &str = "general";

/// The butler whose tool `measurement_latest` reads a table that its roster made.
pub const READER: &str = "health";

/// The butler whose sessions misbehave.
pub const FAKE: &str = "faker";

/// A butler of another routing contract, to whom nothing can be handed.
pub const STRANGE: &str = "strange";

/// The butler that has several models deliberate, as it is shipped.
const HIDDEN_COUNCIL: &str = ".council";

/// The butler of developers' projects, as it is shipped.
const HIDDEN_WORKSHOP: &str = ".workshop";

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("roster")
}

/// A scratch household.
pub struct Household {
    dir: tempfile::TempDir,
}

impl Household {
    /// The seven butlers of the roster and `more` copies of a plain one.
    pub fn new(more: u16) -> Result<Self, Failed> {
        // Short, because the database's socket is in it; open for passing through, because the database's and the
        // children's users must.
        let dir = tempfile::Builder::new().prefix("bench-").tempdir()?;
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711))?;
        let household = Self { dir };
        copy(&shipped(), &household.roster())?;
        // No session but those that are measured.
        let general = household.roster().join(MODEL).join("butler.toml");
        let text = std::fs::read_to_string(&general)?;
        std::fs::write(&general, text.replace("[modules.journal]", "[modules.journal]\nsync = \"by_hand\""))?;
        // What is shipped and off.
        for hidden in [HIDDEN_WORKSHOP, HIDDEN_COUNCIL] {
            std::fs::remove_dir_all(household.roster().join(hidden))?;
        }
        for n in 1..=more {
            household.add(n)?;
        }
        Ok(household)
    }

    /// The seven, and the butler [`STRANGE`].
    pub fn with_strange() -> Result<Self, Failed> {
        let household = Self::new(0)?;
        let to = household.roster().join(STRANGE);
        copy(&household.roster().join(MODEL), &to)?;
        let text = format!(
            "[butler]\nname = \"{STRANGE}\"\nport = 42001\ndescription = \"Takes nothing.\"\n\n[butler.runtime]\n\
             model = \"m\"\n\n[butler.switchboard]\nadvertise = true\nroute_contract_min = 2\n\
             route_contract_max = 2\n"
        );
        std::fs::write(to.join("butler.toml"), text)?;
        Ok(household)
    }

    /// The seven, and the butler [`FAKE`], whose sessions this very program runs as the child that misbehaves.
    pub fn with_fake() -> Result<Self, Failed> {
        let household = Self::new(0)?;
        let to = household.roster().join(FAKE);
        copy(&household.roster().join(MODEL), &to)?;
        std::fs::write(to.join("butler.toml"), soak::butler(FAKE, 42000, "5s"))?;
        // A copy that the children's user may reach and that nobody else runs.
        std::fs::copy(std::env::current_exe()?, household.fake_program())?;
        std::fs::set_permissions(household.fake_program(), std::fs::Permissions::from_mode(0o755))?;
        Ok(household)
    }

    /// The seven, and a council of three. `memory`: it may answer from memory, of whatever is remembered.
    pub fn with_council(memory: bool) -> Result<Self, Failed> {
        let household = Self::new(0)?;
        let to = household.roster().join("council");
        copy(&shipped().join(HIDDEN_COUNCIL), &to)?;
        let members: String =
            (1..=3).map(|n| format!("[[modules.council.members]]\nname = \"{n}\"\nmodel = \"m{n}\"\n")).collect();
        let file = to.join("butler.toml");
        let text = std::fs::read_to_string(&file)?.replace("[butler.runtime]\n", "[butler.runtime]\nmodel = \"own\"\n");
        let gate = format!("[modules.council.memory]\nenabled = {memory}\nthreshold = 0.0\n");
        std::fs::write(&file, format!("{text}\n[modules.council]\n{members}\n{gate}"))?;
        Ok(household)
    }

    /// The seven, with the bot of this server.
    pub fn with_telegram(api: &BotApi) -> Result<Self, Failed> {
        let household = Self::new(0)?;
        let file = household.roster().join("switchboard/butler.toml");
        let before = std::fs::read_to_string(&file)?;
        std::fs::write(&file, before + &api.settings(""))?;
        Ok(household)
    }

    /// The seven, and the butler of developers' projects.
    pub fn with_workshop() -> Result<Self, Failed> {
        let household = Self::new(0)?;
        copy(&shipped().join(HIDDEN_WORKSHOP), &household.roster().join("workshop"))?;
        Ok(household)
    }

    /// A directory that is somebody's own, and empty.
    pub fn directory(&self, name: &str) -> Result<PathBuf, Failed> {
        let made = self.dir.path().join(name);
        std::fs::create_dir_all(&made)?;
        Ok(made)
    }

    /// What a command of the command line answers as JSON.
    pub fn butlerd(&self, args: &[&str]) -> Result<Value, Failed> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_butlerd"));
        let out = command.args(args).arg("--json").arg("--data-dir").arg(self.data());
        let out = out.arg("--roster").arg(self.roster()).output()?;
        let told = serde_json::from_slice(&out.stdout);
        Ok(told.map_err(|e| format!("{args:?}: {e}: {}", String::from_utf8_lossy(&out.stderr)))?)
    }

    /// The program of the butler [`FAKE`].
    pub fn fake_program(&self) -> PathBuf {
        self.dir.path().join("claude")
    }

    fn add(&self, n: u16) -> Result<(), Failed> {
        let name = format!("copy{n:03}");
        let to = self.roster().join(&name);
        copy(&self.roster().join(MODEL), &to)?;
        let file = to.join("butler.toml");
        let text = std::fs::read_to_string(&file)?;
        let port = text.lines().find(|l| l.starts_with("port")).ok_or("the model butler has no port")?;
        let text = text
            .replace(&format!("name = \"{MODEL}\""), &format!("name = \"{name}\""))
            .replace(&format!("schema = \"{MODEL}\""), &format!("schema = \"{name}\""))
            .replace(&format!("[modules.{MODEL}]"), &format!("[modules.{name}]"))
            .replace("[modules.journal]\nsync = \"by_hand\"\n", "")
            .replace(port, &format!("port = {}", 42000 + n));
        std::fs::write(&file, text)?;
        Ok(())
    }

    pub fn roster(&self) -> PathBuf {
        self.dir.path().join("roster")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Where daemons write their logs.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join("daemon.log")
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), Failed> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&source, &target)?;
        } else {
            std::fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
