//! The stand-in of the Bot API before a household, and what judges both of them.

use std::io::Write;
use std::process::{Command, Stdio};

use what_was_left_out::left_out;

use super::Household;
pub use crate::bot_api::{ADA, BOT, BotApi, Fault, TOKEN};

impl BotApi {
    /// Has all that was said judged by the published types.
    pub fn judge(&self, test: &str) {
        let Some(python) = std::env::var_os("BUTLERD_TEST_MCP_PY") else {
            let why = "BUTLERD_TEST_MCP_PY is not set; `eval \"$(.ci/run clients)\"` installs the Bot API's types";
            return left_out(&format!("{test}, judged by the published types"), why);
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/bot_api.py");
        let mut child = Command::new(python).arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().expect("python runs");
        let lines = self.all_said();
        child.stdin.take().expect("its input").write_all(lines.as_bytes()).expect("it reads");
        let mut told = String::new();
        std::io::Read::read_to_string(&mut child.stdout.take().expect("its output"), &mut told).expect("it answers");
        assert!(child.wait().expect("it ends").success() && told.is_empty(), "{told}");
    }
}

impl Household {
    /// With the bot of this server, whose owner is [`ADA`]. `more`: lines of `[modules.telegram]`.
    pub fn with_telegram(self, api: &BotApi, more: &str) -> Self {
        let toml = self.roster().join("switchboard/butler.toml");
        let before = std::fs::read_to_string(toml).expect("the switchboard");
        self.write("switchboard/butler.toml", &format!("{before}{}", api.settings(more)))
            .env("BUTLER_TELEGRAM_TOKEN", TOKEN)
            .env("BUTLERD_OWNER__IDENTITIES__TELEGRAM", &ADA.to_string())
            .env("BUTLERD_DELIVERY_PAUSE_MS", "20")
            .env("BUTLERD_NOTICE_SECONDS", "1")
    }
}
