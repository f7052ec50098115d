//! Where calendars are kept besides the household's own database, as the sync sees it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dav::sync::{Options, Report};

use super::following::Rows;
use crate::contract::{AccountTrial, ModuleError};

/// A calendar that an account has.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// As people see it.
    pub name: String,
    /// Where it is at the provider, by what never changes.
    pub place: String,
    pub read_only: bool,
}

/// Why a provider was not followed: a sentence for the owner.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ProviderError {
    /// It passes by itself. `after`: the provider said when.
    #[error("{why}")]
    Later { why: String, after: Option<Duration> },
    /// Only the owner can mend it: the sentence says how.
    #[error("{0}")]
    Owner(String),
}

/// An account of a provider. What differs between providers ends here: the rows, the label of what comes in and when a sync
/// runs are the same for all.
#[async_trait]
pub(super) trait CalendarProvider: Send + Sync {
    /// The account as its owner knows it, without its secret; rows tell accounts apart by it.
    fn account(&self) -> &str;
    /// Whether it says by itself who invites to an event, whatever stands in the event.
    fn vouches(&self) -> bool {
        false
    }
    /// The calendars that the account has.
    async fn calendars(&self) -> Result<Vec<Found>, ProviderError>;
    /// Makes the calendar at this place and its rows equal, as far as both stand still. What was done before an error stays
    /// done, and the next run goes on.
    async fn sync(&self, place: &str, rows: &Rows, options: Options) -> Result<Report, ProviderError>;
}

/// An account, and the calendars of it that the settings name.
pub(super) struct Trial {
    pub account: Arc<dyn CalendarProvider>,
    pub calendars: Vec<String>,
}

#[async_trait]
impl AccountTrial for Trial {
    fn name(&self) -> String {
        self.account.account().to_owned()
    }

    async fn attempt(&self) -> Result<(), ModuleError> {
        let all = self.account.calendars().await.map_err(ModuleError::new)?;
        for name in &self.calendars {
            choose(name, &all).map_err(ModuleError::new)?;
        }
        Ok(())
    }
}

/// Which of an account's calendars is meant by a name in settings: one that is called so, or that is there.
pub(super) fn choose(name: &str, all: &[Found]) -> Result<Found, ProviderError> {
    let plain = |place: &str| place.trim_matches('/').to_owned();
    if let Some(there) = all.iter().find(|found| plain(&found.place) == plain(name)) {
        return Ok(there.clone());
    }
    let named: Vec<&Found> = all.iter().filter(|found| found.name == name).collect();
    let last = |found: &&Found| plain(&found.place).rsplit('/').next() == Some(name);
    let meant = if named.is_empty() { all.iter().filter(last).collect() } else { named };
    let places = |of: &[&Found]| of.iter().map(|found| format!("`{}`", found.place)).collect::<Vec<_>>().join(", ");
    match meant.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let known: Vec<String> = all.iter().take(20).map(|found| format!("`{}`", found.name)).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let why = format!("the account has no calendar `{name}`; there are: {known}. Correct `calendars`");
            Err(ProviderError::Owner(why))
        }
        several => {
            let why = format!(
                "the account has several calendars `{name}`; name one by its path in `calendars`: {}",
                places(several)
            );
            Err(ProviderError::Owner(why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calendar_is_chosen_by_its_name_or_its_path() {
        let found = |name: &str, place: &str| Found { name: name.into(), place: place.into(), read_only: false };
        let all = [found("Home", "/ada/1/"), found("Work", "/ada/2/"), found("Work", "/ada/3/")];
        assert_eq!(choose("Home", &all).unwrap().place, "/ada/1/");
        assert_eq!(choose("/ada/3", &all).unwrap().place, "/ada/3/");
        assert_eq!(choose("2", &all).unwrap().place, "/ada/2/");
        let said = choose("Work", &all).unwrap_err().to_string();
        assert!(said.contains("`/ada/2/`, `/ada/3/`"), "{said}");
        let said = choose("Garden", &all).unwrap_err().to_string();
        assert!(said.contains("there are: `Home`"), "{said}");
    }
}
