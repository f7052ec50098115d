//! `[modules.calendar]`

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use strum::IntoStaticStr;

use base::HumanDuration;
use config::{KeyMistake, Section};

/// Where calendars are kept besides the household's own database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum Provider {
    /// Nowhere: they are the household's own.
    #[default]
    Local,
    /// A CalDAV server.
    Caldav,
    /// Google Calendar.
    Google,
}

base::named!(Provider);

/// What becomes of an event that overlaps another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Policy {
    /// Nothing is changed; three free times are answered.
    #[default]
    Suggest,
    /// It is refused, whatever a call asks for.
    Fail,
    /// It is made.
    AllowOverlap,
}

/// `[modules.calendar.conflicts]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Conflicts {
    /// What becomes of an event that overlaps another: `suggest` answers three free times and changes nothing, `fail`
    /// refuses, `allow_overlap` makes it.
    #[schemars(extend("default" = "suggest"))]
    pub policy: Policy,
    /// Whether a session that lets events overlap waits for the owner's approval.
    #[schemars(extend("default" = false))]
    pub require_approval: bool,
}

/// `[modules.calendar.sync]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Sync {
    /// How often the provider is asked for changes, in minutes. What the household changes is sent at once.
    #[schemars(range(min = 1, max = 1440), extend("default" = 15))]
    pub interval_minutes: u32,
    /// How far ahead repeating events are laid out; who looks further ahead waits a moment longer.
    #[schemars(extend("default" = "400d"))]
    pub window: HumanDuration,
}

/// `[modules.calendar]`
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
pub(super) struct Settings {
    /// Where calendars are kept: `local` is the household's own database; `caldav`, a server, and `google`, an account at
    /// Google, are followed in both directions.
    #[schemars(extend("default" = "local"))]
    pub provider: Provider,
    /// The server's address, as its owner gives it for calendars; `https`, or this machine. With `google`, leave it out.
    pub url: Option<String>,
    /// The name to log in with; with `google`, the account's address.
    pub user: Option<String>,
    /// The credential that holds the password; many providers want a password that is made for one program.
    #[schemars(extend("format" = "credential", "default" = "BUTLER_CALENDAR_PASSWORD"))]
    pub password: String,
    /// With `google`, the credential that holds the access that the owner gave by `butlerd connect google`.
    #[schemars(extend("format" = "credential", "default" = "BUTLER_GOOGLE_GRANT"))]
    pub grant: String,
    /// The environment variable that is asked where no such secret is stored; if not set, the one of the same name.
    #[schemars(extend("format" = "credential"))]
    pub token_env: Option<String>,
    /// The calendars that the butler sees; new events go into the first. Of a server by the names that it shows, or by
    /// their paths there.
    #[schemars(length(min = 1, max = 50), extend("default" = ["household"]))]
    pub calendars: Vec<String>,
    /// Those of a server's calendars that nobody but the owner sees and writes. What is put into others leaves the household,
    /// and what stands in them is believed no more than what people write whom the owner knows.
    #[schemars(extend("default" = []))]
    pub private: Vec<String>,
    /// The owner's own mail addresses, as events name who invites to them; if there are none, the user, where that is an
    /// address, and the owner's of `[owner] identities`. What anybody else invites to is a stranger's text.
    #[schemars(extend("default" = []))]
    pub own_addresses: Vec<String>,
    /// The zone of times without one; the owner's, if not set.
    pub time_zone: Option<String>,
    /// Events that overlap others.
    pub conflicts: Conflicts,
    /// How the calendars follow a provider.
    pub sync: Sync,
}

/// The settings, or what is wrong with them.
pub(super) fn read(config: &Value) -> Result<Settings, Vec<KeyMistake>> {
    Section::of::<Settings>().read_with(config, |settings: &Settings| {
        let mut wrong = Vec::new();
        let mut mistake = |key: &str, found: &str, expected: &str| wrong.push(KeyMistake::new(key, found, expected));
        match settings.provider {
            Provider::Local => {
                if settings.url.is_some() {
                    mistake("url", "found with provider `local`", "no url: local calendars have no server");
                }
                if !settings.private.is_empty() {
                    mistake("private", "found with provider `local`", "nothing: nobody outside sees local calendars");
                }
            }
            Provider::Caldav => {
                if let Err(e) = dav::Client::origin_of(settings.url.as_deref().unwrap_or_default()) {
                    let found = if settings.url.is_some() { e.to_string() } else { "found none".to_owned() };
                    mistake("url", &found, "the server's address, such as https://dav.example.org");
                }
                if settings.user.as_deref().is_none_or(|user| user.trim().is_empty() || user.contains(':')) {
                    mistake("user", "found none that can log in", "the name to log in with at the server");
                }
            }
            Provider::Google => {
                let client = |url: &str| ::google::Client::check(url).err();
                if let Some(e) = settings.url.as_deref().and_then(client) {
                    mistake("url", &e.to_string(), "no url, which means Google itself");
                }
                if settings.user.as_deref().is_none_or(|user| !user.contains('@')) {
                    mistake("user", "found no address", "the account's address, such as ada@gmail.com");
                }
            }
        }
        let outside = |name: &&String| !settings.calendars.contains(name);
        if let Some(other) = settings.private.iter().find(outside).filter(|_| settings.provider != Provider::Local) {
            mistake("private", &format!("found `{other}`"), "names that stand in calendars, too");
        }
        if let Some(zone) = &settings.time_zone
            && calendar::Zone::named(zone).is_err()
        {
            mistake("time_zone", &format!("found `{zone}`"), "a time zone such as Europe/Berlin");
        }
        let named = |n: usize| settings.calendars[..n].contains(&settings.calendars[n]);
        let empty = settings.calendars.iter().any(|name| name.trim().is_empty() || name.len() > 200);
        if empty || (0..settings.calendars.len()).any(named) {
            mistake("calendars", "found an empty name, or one twice", "each calendar's name once");
        }
        wrong
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(config: Value) -> Vec<String> {
        read(&config).err().unwrap_or_default().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_provider_has_its_settings() {
        assert_eq!(check(json!({"provider": "local"})), Vec::<String>::new());
        assert_eq!(check(json!({"conflicts": {"policy": "fail"}, "sync": {"window": "90d"}})), Vec::<String>::new());
        let right =
            json!({"provider": "google", "user": "ada@example.org", "calendars": ["Home"], "private": ["Home"]});
        assert_eq!(check(right.clone()), Vec::<String>::new());
        for (key, value) in
            [("user", json!("ada")), ("url", json!("http://www.googleapis.com")), ("private", json!(["Work"]))]
        {
            let mut wrong = right.clone();
            wrong[key] = value;
            assert_eq!(check(wrong).len(), 1, "{key}");
        }
        assert!(!check(json!({"time_zone": "Nowhere/Land"})).is_empty());
        assert!(!check(json!({"calendars": ["a", "a"]})).is_empty());
        assert!(!check(json!({"provider": "local", "url": "https://x"})).is_empty());
    }

    #[test]
    fn a_server_needs_an_address_and_a_user() {
        let right = json!({"provider": "caldav", "url": "https://dav.example.org/", "user": "ada", "calendars": ["Home"],
                           "private": ["Home"], "sync": {"interval_minutes": 5}});
        assert_eq!(check(right.clone()), Vec::<String>::new());
        for (key, value) in [
            ("url", json!("http://dav.example.org")),
            ("url", json!("https://ada:secret@dav.example.org")),
            ("user", json!("")),
            ("private", json!(["Work"])),
            ("sync", json!({"interval_minutes": 0})),
        ] {
            let mut wrong = right.clone();
            wrong[key] = value;
            let said = check(wrong);
            assert!(said.len() == 1 && !said[0].contains("secret"), "{key}: {said:?}");
        }
        assert_eq!(check(json!({"provider": "caldav"})).len(), 2);
    }
}
