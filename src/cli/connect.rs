//! `butlerd connect`

mod account;
mod dav;
mod email;
mod google;
mod oauth;

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use self::oauth::Whose;
use super::caller::Caller;
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::{Outcome, Place, prompt};
use admin::api::SecretsApiClient;
use base::Secret;
use config::{Environment, Overrides};
use modules::ModuleError;
use modules::telegram::TelegramBot;
use offline::setup::connect_telegram;

/// The name under which the bot's token is stored.
const TOKEN: &str = "BUTLER_TELEGRAM_TOKEN";
/// How long whoever is to be known has time to press Start.
const PATIENCE: Duration = Duration::from_secs(600);

/// `connect`
#[derive(Debug, Subcommand)]
pub enum Connect {
    /// Connect a Telegram bot: try its token, find out which account is yours, and write the settings
    Telegram(TelegramArgs),
    /// Connect a mailbox: try its password at both servers, find out who checks senders there, and write the settings
    Email(email::EmailArgs),
    /// Connect calendars at a CalDAV server: try the account, choose among what it has, and write the settings
    Caldav(dav::CaldavArgs),
    /// Connect an address book at a CardDAV server: try the account, choose among what it has, and write the settings
    Carddav(dav::CarddavArgs),
    /// Connect a mailbox at Google, or with --calendar and --contacts what these name, by access that you give in a browser
    Google(google::GoogleArgs),
    /// Connect a mailbox at Microsoft, by access that you give in a browser
    Microsoft(oauth::OauthArgs),
    /// Connect a mailbox at another provider of OpenID Connect, by access that you give in a browser
    Oidc(oauth::OidcArgs),
}

/// `connect telegram`
#[derive(Debug, Args)]
pub struct TelegramArgs {
    /// The number of your account, if you know it; without it you are asked to press Start
    #[arg(long, value_name = "NUMBER")]
    owner: Option<i64>,
    /// A Bot API server of your own
    #[arg(long, value_name = "URL")]
    api_url: Option<String>,
}

pub fn run(place: Place, what: Connect) -> Outcome {
    // Where the household's settings are.
    let settings = (place.overrides.clone(), place.environment.clone());
    let args = match what {
        Connect::Telegram(args) => args,
        Connect::Google(args) if args.is_mailbox() => {
            return by_oauth(place, settings, Whose::Google, args.mailbox()?, Vec::new());
        }
        Connect::Google(args) => {
            let asked = google::ask(&place.out, args, &settings)?;
            return place.call(|caller| google::connect(caller, asked, settings));
        }
        Connect::Microsoft(how) => return by_oauth(place, settings, Whose::Microsoft, how, Vec::new()),
        Connect::Oidc(oauth::OidcArgs { issuer, how, scopes }) => {
            return by_oauth(place, settings, Whose::Issuer(issuer), how, scopes);
        }
        Connect::Caldav(args) => {
            let asked = dav::ask_caldav(args, &settings)?;
            return place.call(|caller| dav::connect(caller, asked, settings));
        }
        Connect::Carddav(args) => {
            let asked = dav::ask_carddav(args, &settings)?;
            return place.call(|caller| dav::connect(caller, asked, settings));
        }
        Connect::Email(args) => {
            let asked = email::ask(args, &settings)?;
            return place.call(|caller| email::email(caller, asked, settings));
        }
    };
    let out = place.out.clone();
    out.aside("Make a bot with @BotFather on Telegram (/newbot). It gives you a token.");
    let token = prompt::secret("The bot's token (not shown)")?;
    place.call(|caller| telegram(caller, args, token, settings))
}

fn by_oauth(
    place: Place,
    settings: (Overrides, Environment),
    whose: Whose,
    how: oauth::OauthArgs,
    scopes: Vec<String>,
) -> Outcome {
    let asked = oauth::ask(&place.out, whose, how, scopes)?;
    place.call(|caller| oauth::connect(caller, asked, settings))
}

async fn telegram(
    caller: Caller,
    args: TelegramArgs,
    token: Secret<String>,
    (overrides, environment): (Overrides, Environment),
) -> Outcome {
    let out = &caller.out;
    let token = Secret::new(token.expose().trim().to_owned());
    let url = args.api_url.as_deref().unwrap_or("https://api.telegram.org");
    let failed = |why: ModuleError| Problem::new(FAILED, "not_connected", format!("Nothing was changed: {why}"), "");
    let bot = TelegramBot::of_token(url, &token, TOKEN).await.map_err(failed)?;
    good(out, &format!("@{} answered", bot.username));
    let account = match args.owner {
        Some(number) => number,
        None => {
            let code = uuid::Uuid::new_v4().simple().to_string();
            out.aside(&format!("Open this on your Telegram and press Start: {}", bot.link(&code)));
            let started = bot.started_with(&code, PATIENCE).await.map_err(failed)?;
            let started = started.ok_or_else(|| failed("nobody pressed Start within ten minutes.".into()))?;
            good(out, &format!("you are {}, number {}", started.name, started.number));
            started.number
        }
    };
    caller.got(caller.quick()?.secret_set(TOKEN.to_owned(), token.into()).await)?;
    good(out, "the token is stored, encrypted");
    let changed = connect_telegram(&overrides, &environment, &account.to_string(), args.api_url.as_deref())?;
    for file in &changed {
        good(out, &format!("written: {}", file.display()));
    }
    let said = json!({"status": "connected", "bot": bot.username, "owner": account, "changed": changed});
    out.answer(&said, |out, _| out.line("Restart butlerd, then write to your bot."))
}

fn good(out: &Out, said: &str) {
    out.aside(&format!("{} {said}", out.paint(Tone::Good, "ok:")));
}
