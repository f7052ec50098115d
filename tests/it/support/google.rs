//! Ada's account at the stand-in of Google, before a household.

use std::sync::Arc;

use serde_json::json;

use super::{Daemon, Household};
use crate::google::calendar::{ADA, Calendars};
use crate::google::{Discovery, Google};

/// The access that Ada gave, and what would renew it.
pub const TOKEN: &str = "access-token-of-ada";
const REFRESH: &str = "refresh-token-of-ada";

/// Her calendars at Google.
pub struct Account {
    pub google: Google,
    pub there: Arc<Calendars>,
}

impl Account {
    /// With one calendar, which is called `Ada`; `None` where Google's descriptions are not installed.
    pub async fn start(test: &str) -> Option<Self> {
        let discovery = Discovery::open(test, "calendar.v3", &[])?;
        let there = Arc::new(Calendars::default());
        there.add(ADA, "Ada", "owner");
        Some(Self { google: Google::start(discovery, there.clone(), TOKEN).await, there })
    }

    /// An hour of this day, as Google has it.
    pub fn put(&self, id: &str, title: &str, more: serde_json::Value) {
        let mut event = json!({"id": id, "summary": title,
            "start": {"dateTime": "2027-03-10T09:00:00+01:00", "timeZone": "Europe/Berlin"},
            "end": {"dateTime": "2027-03-10T10:00:00+01:00", "timeZone": "Europe/Berlin"}});
        event.as_object_mut().expect("an object").extend(more.as_object().cloned().expect("fields"));
        self.there.put(ADA, event);
    }

    pub fn titles(&self) -> Vec<String> {
        self.there.titles(ADA)
    }
}

impl Household {
    /// A butler follows these of Ada's calendars; `more` goes into its section.
    pub fn with_google(self, butler: &str, account: &Account, calendars: &str, more: &str) -> Self {
        let file = format!("{butler}/butler.toml");
        let before = std::fs::read_to_string(self.roster().join(&file)).expect("the file");
        let section = format!(
            "\n[modules.calendar]\nprovider = \"google\"\nurl = \"{}\"\nuser = \"{ADA}\"\ncalendars = {calendars}\n\
             time_zone = \"Europe/Berlin\"\n{more}",
            account.google.url()
        );
        self.write(&file, &format!("{before}{section}"))
    }

    /// Starts with the access that Ada gave.
    pub async fn start_with_access(&self) -> Daemon {
        let daemon = self.start().await;
        let grant = json!({"provider": "{}", "refresh": REFRESH, "access": TOKEN, "expires_at": "2099-01-01T00:00:00Z",
                           "connect": "butlerd connect google"});
        tokio::task::block_in_place(|| {
            let (code, out, err) = self.cli_with_input(&["secret", "set", "BUTLER_GOOGLE_GRANT"], &grant.to_string());
            assert_eq!(code, 0, "{out}{err}");
        });
        drop(daemon);
        self.start().await
    }

    /// That nothing of the access is in a daemon's log.
    pub fn assert_access_is_hidden(&self, daemon: &Daemon) {
        let log = daemon.log();
        assert!(!log.contains(TOKEN) && !log.contains(REFRESH), "the log holds a token");
    }
}
