//! `butlerd connect caldav` and `carddav`: the calendars or the address book of an account at a server.

use std::io::{self, IsTerminal};

use clap::Args;
use serde_json::{Value, json};

use super::super::caller::Caller;
use super::super::problem::{FAILED, Problem};
use super::super::{Outcome, prompt};
use super::account::{Found, calendar_keys, finish, one};
use super::good;
use base::Secret;
use config::{Environment, Overrides};
use dav::{Client, CollectionInfo, Credentials, Kind};
use offline::setup::{AccountKey, AccountPlace, Follower, place_account};

/// `connect caldav`
#[derive(Debug, Args)]
pub struct CaldavArgs {
    #[command(flatten)]
    account: ServerArgs,
    /// A calendar that is followed, by its name or its path at the server; may be given more than once, and new events go
    /// into the first. Without it you are asked
    #[arg(long = "calendar", value_name = "NAME")]
    calendars: Vec<String>,
    /// One of these that nobody but you sees and writes; may be given more than once
    #[arg(long, value_name = "NAME")]
    private: Vec<String>,
    /// A mail address by which invitations name you, beside the name to log in with; may be given more than once. Without it, what
    /// [owner] identities name counts
    #[arg(long = "address", value_name = "ADDRESS")]
    addresses: Vec<String>,
}

const ADDRESS: &str = "Your mail address, as invitations name you (empty: as [owner] identities say)";

/// `connect carddav`
#[derive(Debug, Args)]
pub struct CarddavArgs {
    #[command(flatten)]
    account: ServerArgs,
    /// Which address book, by its name or its path at the server, where the account has several; without it you are asked
    #[arg(long, value_name = "NAME")]
    address_book: Option<String>,
}

/// An account at a server.
#[derive(Debug, Args)]
struct ServerArgs {
    /// The address that the provider gives for calendars or contacts
    url: String,
    /// The name to log in with; without it you are asked
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The butler that follows it; by default `general` for calendars, `relationship` for contacts
    #[arg(long, value_name = "NAME")]
    butler: Option<String>,
}

/// Which of what is found is wanted.
#[derive(Debug)]
enum Wanted {
    Calendars { named: Vec<String>, private: Vec<String>, own: Vec<String> },
    AddressBook(Option<String>),
}

/// What was asked before anything was tried.
pub(super) struct Typed {
    url: String,
    user: String,
    password: Secret<String>,
    place: AccountPlace,
    wanted: Wanted,
}

pub(super) fn ask_caldav(args: CaldavArgs, settings: &(Overrides, Environment)) -> Result<Typed, Problem> {
    let CaldavArgs { account, calendars, private, addresses } = args;
    if let Some(wrong) = addresses.iter().find(|address| !address.contains('@')) {
        return Err(Problem::usage(format!("`{wrong}` is no mail address."), "Give it as --address you@example.org."));
    }
    let mut typed = ask(account, Wanted::Calendars { named: calendars, private, own: addresses }, settings)?;
    if let Wanted::Calendars { own, .. } = &mut typed.wanted
        && own.is_empty()
        && !typed.user.contains('@')
        && !typed.place.there
        && io::stdin().is_terminal()
    {
        let mut address = prompt::line(ADDRESS, "")?;
        while !address.is_empty() && !address.contains('@') {
            address = prompt::line(&format!("`{address}` is no mail address. {ADDRESS}"), "")?;
        }
        own.extend(Some(address).filter(|address| !address.is_empty()));
    }
    // These replace what else is known of the owner.
    if let Wanted::Calendars { own, .. } = &mut typed.wanted
        && !own.is_empty()
        && typed.user.contains('@')
        && !own.contains(&typed.user)
    {
        own.push(typed.user.clone());
    }
    Ok(typed)
}

pub(super) fn ask_carddav(args: CarddavArgs, settings: &(Overrides, Environment)) -> Result<Typed, Problem> {
    let CarddavArgs { account, address_book } = args;
    ask(account, Wanted::AddressBook(address_book), settings)
}

impl Wanted {
    fn follower(&self) -> Follower {
        match self {
            Self::Calendars { .. } => Follower::Calendar,
            Self::AddressBook(_) => Follower::Contacts,
        }
    }

    fn key<'a>(&self, url: &'a str, user: &'a str) -> AccountKey<'a> {
        let follower = self.follower();
        let (provider, secret) = match follower {
            Follower::Calendar => ("caldav", "BUTLER_CALENDAR_PASSWORD"),
            Follower::Contacts => ("carddav", "BUTLER_CONTACTS_PASSWORD"),
        };
        AccountKey { follower, provider, url: Some(url), user: Some(user), secret_key: "password", secret }
    }
}

/// Asks for what only the owner knows, once it is clear that the account has a place.
fn ask(
    args: ServerArgs,
    wanted: Wanted,
    (overrides, environment): &(Overrides, Environment),
) -> Result<Typed, Problem> {
    let url = args.url.trim();
    let url = if url.contains("://") { url.to_owned() } else { format!("https://{url}") };
    // An address that holds a login is refused here, and not said again.
    Client::origin_of(&url).map_err(|e| Problem::usage(format!("Nothing was changed: {e}."), ""))?;
    let user = match args.user {
        Some(user) => user,
        None => prompt::line("The name to log in with", "")?,
    };
    let user = user.trim().to_owned();
    if user.is_empty() || user.contains(':') {
        return Err(Problem::usage(format!("`{user}` is no name to log in with."), "Give it with --user NAME."));
    }
    let place = place_account(overrides, environment, &wanted.key(&url, &user), args.butler.as_deref())?;
    let password = prompt::secret("Its password; many providers want one made for a single program (not shown)")?;
    let password = Secret::new(password.expose().trim().to_owned());
    Ok(Typed { url, user, password, place, wanted })
}

/// What the account has, with what is said of each.
async fn found(typed: &Typed) -> Result<Vec<Found>, Problem> {
    let failed = |e: dav::DavError| Problem::new(FAILED, "not_connected", format!("Nothing was changed: {e}."), "");
    let credentials = Credentials::Basic { user: typed.user.clone(), password: typed.password.clone() };
    let kind = match typed.wanted.follower() {
        Follower::Calendar => Kind::Calendar,
        Follower::Contacts => Kind::Contacts,
    };
    let client = Client::new(&typed.url, credentials).map_err(failed)?;
    let all = client.collections(kind).await.map_err(failed)?;
    // A list of things to do has no events.
    let events = |info: &CollectionInfo| info.components.is_empty() || info.components.iter().any(|c| c == "VEVENT");
    let all = all.into_iter().filter(|info| kind == Kind::Contacts || events(info));
    Ok(all.map(|info| Found { name: info.name, place: info.path, read_only: info.read_only }).collect())
}

/// Tries the account, lets its owner choose, stores what opens it, and writes the settings.
pub(super) async fn connect(caller: Caller, typed: Typed, settings: (Overrides, Environment)) -> Outcome {
    let out = &caller.out;
    let all = found(&typed).await?;
    good(out, &format!("{} let {} in", Client::origin_of(&typed.url).unwrap_or_default(), typed.user));
    let Typed { url, user, password, place, wanted } = typed;
    let follower = wanted.follower();
    let key = wanted.key(&url, &user);
    let mut keys: Vec<(&str, Value)> = vec![
        ("provider", key.provider.into()),
        ("url", url.as_str().into()),
        ("user", user.as_str().into()),
        ("password", place.secret.as_str().into()),
    ];
    match wanted {
        _ if place.there => {}
        Wanted::Calendars { named, private, own } => {
            keys.extend(calendar_keys(out, &all, &named, &private)?);
            keys.extend((!own.is_empty()).then_some(("own_addresses", json!(own))));
        }
        Wanted::AddressBook(named) => {
            let book = one(out, "address book", "--address-book", &all, named.as_deref())?;
            keys.extend((all.len() > 1).then_some(("address_book", json!(book))));
        }
    }
    let account = json!({"url": url, "user": user});
    finish(&caller, (&place, follower, &keys), &password, &settings, account).await
}
