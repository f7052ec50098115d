//! `butlerd connect google --calendar --contacts`: access to what an account has besides its mailbox, and to nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::super::Outcome;
use super::super::caller::Caller;
use super::super::problem::{FAILED, Problem};
use super::account::{Found, calendar_keys, next, store, told};
use super::good;
use super::oauth::{self, OauthArgs, Plan, Whose, failed, given};
use ::google::calendar::calendars as list;
use ::google::{Client, GoogleError, Method, calendar, people};
use ::oauth::{Provider, Tokens};
use base::Clock;
use config::{Environment, Overrides};
use modules::new_grant;
use offline::setup::{AccountKey, AccountPlace, Follower, followed, place_account, write_account};

/// The name under which the access to calendars and contacts is stored.
const GRANT: &str = "BUTLER_GOOGLE_GRANT";

/// `connect google`
#[derive(Debug, Args)]
pub struct GoogleArgs {
    #[command(flatten)]
    how: OauthArgs,
    /// Connect the account's calendars instead of its mailbox
    #[arg(long, conflicts_with_all = MAILBOX)]
    calendar: bool,
    /// Connect the account's contacts instead of its mailbox
    #[arg(long, conflicts_with_all = MAILBOX)]
    contacts: bool,
    /// A calendar that is followed, by its name or its id; may be given more than once, and new events go into the first.
    /// Without it you are asked
    #[arg(long, value_name = "NAME", requires = "calendar")]
    only: Vec<String>,
    /// One of these that nobody but you sees and writes; may be given more than once
    #[arg(long, value_name = "NAME", requires = "calendar")]
    private: Vec<String>,
    /// The butler that follows them; by default `general` for calendars, `relationship` for contacts
    #[arg(long, value_name = "NAME", conflicts_with_all = MAILBOX)]
    butler: Option<String>,
    /// A server that stands in for Google's calendars and contacts
    #[arg(long, value_name = "URL", hide = true, conflicts_with_all = MAILBOX)]
    api_url: Option<String>,
    /// A provider that stands in for Google's accounts
    #[arg(long, value_name = "URL", hide = true, conflicts_with_all = MAILBOX)]
    issuer: Option<String>,
}

/// What is said of a mailbox only.
const MAILBOX: [&str; 6] = ["name", "imap", "smtp", "user", "owner", "trust"];

/// What was asked before anything was tried.
pub(super) struct Typed {
    plan: Plan,
    wanted: Vec<Follower>,
    only: Vec<String>,
    private: Vec<String>,
    butler: Option<String>,
    api_url: Option<String>,
    issuer: Option<String>,
}

impl GoogleArgs {
    pub fn is_mailbox(&self) -> bool {
        !self.calendar && !self.contacts
    }

    /// What counts where it is a mailbox.
    pub fn mailbox(self) -> Result<OauthArgs, Problem> {
        match self.butler {
            Some(_) => Err(Problem::usage(
                "A mailbox is the switchboard's, and no other butler's.",
                "Say what the butler is to follow: --calendar, --contacts or both.",
            )),
            None => Ok(self.how),
        }
    }
}

fn scope(follower: Follower) -> &'static str {
    match follower {
        Follower::Calendar => "https://www.googleapis.com/auth/calendar",
        Follower::Contacts => "https://www.googleapis.com/auth/contacts",
    }
}

fn name(follower: Follower) -> &'static str {
    match follower {
        Follower::Calendar => "calendars",
        Follower::Contacts => "contacts",
    }
}

/// Asks for the client, once it is clear that the account has a place.
pub(super) fn ask(out: &super::Out, args: GoogleArgs, settings: &(Overrides, Environment)) -> Result<Typed, Problem> {
    let GoogleArgs { how, calendar, contacts, only, private, butler, api_url, issuer } = args;
    let wanted = [(calendar, Follower::Calendar), (contacts, Follower::Contacts)];
    let wanted: Vec<Follower> = wanted.into_iter().filter_map(|(is, follower)| is.then_some(follower)).collect();
    places(&wanted, (api_url.as_deref(), None, butler.as_deref()), settings)?;
    let plan = oauth::ask(out, Whose::Google, how, Vec::new())?;
    Ok(Typed { plan, wanted, only, private, butler, api_url, issuer })
}

fn key<'a>(follower: Follower, url: Option<&'a str>, user: Option<&'a str>) -> AccountKey<'a> {
    AccountKey { follower, provider: "google", url, user, secret_key: "grant", secret: GRANT }
}

/// Where what is wanted stands, or is to stand.
fn places(
    wanted: &[Follower],
    (url, user, butler): (Option<&str>, Option<&str>, Option<&str>),
    (overrides, environment): &(Overrides, Environment),
) -> Result<Vec<(Follower, AccountPlace)>, Problem> {
    let place = |follower: &Follower| {
        Ok((*follower, place_account(overrides, environment, &key(*follower, url, user), butler)?))
    };
    wanted.iter().map(place).collect()
}

/// Has access given, tries it, lets the owner choose, stores it, and writes the settings.
pub(super) async fn connect(caller: Caller, asked: Typed, settings: (Overrides, Environment)) -> Outcome {
    let out = &caller.out;
    let Typed { plan, wanted, only, private, butler, api_url, issuer } = asked;
    let (url, at) = (api_url.as_deref(), butler.as_deref());
    let (overrides, environment) = &settings;
    let before = places(&wanted, (url, None, at), &settings)?;
    let secret = before.first().map_or(GRANT, |(_, place)| place.secret.as_str()).to_owned();
    // New access stands in the old one's place, so it has to open what that opened.
    let mut needed: BTreeSet<Follower> = wanted.iter().copied().collect();
    for follower in followed(overrides, environment, &key(Follower::Calendar, url, None), &secret)? {
        if needed.insert(follower) {
            out.aside(&format!("Access to {} is asked for, too: the household follows them already.", name(follower)));
        }
    }
    let (provider, tokens) = access(out, &plan, &needed, issuer.as_deref()).await?;
    let user = match &tokens.email {
        Some(email) => email.clone(),
        None => plan.how.mailbox.asked_address(None)?,
    };
    let places = places(&wanted, (url, Some(&user), at), &settings)?;
    if places.iter().any(|(_, place)| place.secret != secret) {
        let why = format!("the household follows another account by {secret}, and {user} would take its place");
        return Err(Problem::new(FAILED, "not_connected", format!("Nothing was changed: {why}."), ""));
    }
    let flags: String = wanted.iter().map(|follower| format!(" --{}", follower.module())).collect();
    let command = format!("butlerd connect google {user}{flags}");
    let grant = new_grant(&provider, &command, &tokens, Clock::default().now()).map_err(|e| failed(&e))?;
    let mut sections = Vec::new();
    for (follower, place) in &places {
        let mut keys: Vec<(&str, Value)> =
            vec![("provider", "google".into()), ("user", json!(user)), ("grant", json!(place.secret))];
        keys.extend(url.map(|url| ("url", json!(url))));
        match follower {
            Follower::Calendar => {
                let found = calendars(&tokens, url).await.map_err(|e| failed(&e))?;
                good(out, &format!("{user} has {} calendars", found.len()));
                if !place.there {
                    keys.extend(calendar_keys(out, &found, &only, &private)?);
                }
            }
            Follower::Contacts => {
                let number = contacts(&tokens, url).await.map_err(|e| failed(&e))?;
                good(out, &format!("{user} has {number} contacts"));
            }
        }
        sections.push((*follower, place, keys));
    }
    let (mut written, mut changed) = (Vec::new(), Vec::new());
    for (follower, place, keys) in &sections {
        match write_account(overrides, environment, place, *follower, keys) {
            Ok(None) => {}
            Ok(Some(new)) => {
                written.push(new);
                changed.push(&place.file);
            }
            Err(e) => {
                written.iter().rev().try_for_each(offline::setup::WrittenAccount::take_back)?;
                return Err(e.into());
            }
        }
    }
    store(&caller, &secret, &grant, &written).await?;
    for (_, place) in &places {
        told(out, place, !place.there);
    }
    let said = json!({"status": "connected", "account": {"user": user}, "secret": secret, "changed": changed});
    let next_ones: Vec<(Follower, &AccountPlace)> = places.iter().map(|(follower, place)| (*follower, place)).collect();
    out.answer(&said, |out, _| next(out, &next_ones))
}

/// Has the owner give access to exactly what is needed. People may give less than they are asked for.
async fn access(
    out: &super::Out,
    plan: &Plan,
    needed: &BTreeSet<Follower>,
    issuer: Option<&str>,
) -> Result<(Provider, Tokens), Problem> {
    let scopes: Vec<&str> = needed.iter().map(|follower| scope(*follower)).collect();
    let provider = match issuer {
        None => Provider::google_for(plan.client.clone(), &scopes),
        Some(issuer) => {
            let all = [&scopes[..], &["openid", "email", "offline_access"]].concat();
            Provider::discover(issuer, plan.client.clone(), &all).await.map_err(|e| failed(&e))?
        }
    };
    let (provider, tokens) = given(out, provider, &plan.how).await?;
    match needed.iter().find(|follower| !tokens.scopes.iter().any(|given| given == scope(**follower))) {
        None => Ok((provider, tokens)),
        Some(less) => {
            let why = format!("access to your {} was not given", name(*less));
            let next = "Run this again, and leave every box on Google's page ticked.";
            Err(Problem::new(FAILED, "not_connected", format!("Nothing was changed: {why}."), next))
        }
    }
}

fn client(tokens: &Tokens, url: Option<&str>, own: &str) -> Result<Client, GoogleError> {
    Client::new(url.unwrap_or(own), Arc::new(tokens.access.clone()))
}

/// All calendars of the account.
async fn calendars(tokens: &Tokens, url: Option<&str>) -> Result<Vec<Found>, GoogleError> {
    let all = list(&client(tokens, url, calendar::ORIGIN)?).await?;
    Ok(all.into_iter().map(|info| Found { name: info.name, place: info.id, read_only: info.read_only }).collect())
}

/// How many contacts the account has.
async fn contacts(tokens: &Tokens, url: Option<&str>) -> Result<u64, GoogleError> {
    let client = client(tokens, url, people::ORIGIN)?;
    let query = [("personFields", "names"), ("pageSize", "1")];
    let listed = client.call(Method::GET, &["v1", "people", "me", "connections"], &query, None, None).await?;
    Ok(listed["totalItems"].as_u64().or_else(|| listed["totalPeople"].as_u64()).unwrap_or(0))
}
