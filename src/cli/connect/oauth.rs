//! `butlerd connect google`, `microsoft` and `oidc`: a mailbox that opens by access which its owner gives in a browser.

use std::time::Duration;

use clap::Args;

use super::super::caller::Caller;
use super::super::problem::{FAILED, Problem};
use super::super::{Outcome, prompt};
use super::email::{EmailArgs, Opened, Proof, finish};
use super::good;
use base::{Clock, Secret};
use config::{Environment, Overrides};
use modules::email::Login as MailLogin;
use modules::new_grant;
use oauth::{Client, Device, Login, OauthError, Provider, Tokens};

/// How long the owner has time to give access.
const PATIENCE: Duration = Duration::from_secs(900);

/// Whose access it is.
#[derive(Clone, Debug)]
pub(super) enum Whose {
    Google,
    Microsoft,
    /// The provider of this address.
    Issuer(String),
}

/// How access is given
#[derive(Debug, Args)]
pub struct OauthArgs {
    #[command(flatten)]
    pub(super) mailbox: EmailArgs,
    /// The id of the client that you made at the provider; without it you are asked
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// There is no browser on this machine: open the address elsewhere, and paste the one at which it ends
    #[arg(long, conflicts_with = "device")]
    paste: bool,
    /// There is no browser on this machine: type a short code elsewhere, where the provider offers that
    #[arg(long)]
    device: bool,
}

/// `connect oidc`
#[derive(Debug, Args)]
pub struct OidcArgs {
    /// The provider, such as https://id.example.org
    pub(super) issuer: String,
    #[command(flatten)]
    pub(super) how: OauthArgs,
    /// What access is asked for; may be given more than once
    #[arg(long = "scope", value_name = "SCOPE", default_values = ["openid", "email", "offline_access"])]
    pub(super) scopes: Vec<String>,
}

/// What was asked before anything was tried.
pub(super) struct Plan {
    whose: Whose,
    scopes: Vec<String>,
    pub how: OauthArgs,
    pub client: Client,
}

impl Whose {
    /// Where the owner makes a client.
    fn console(&self) -> String {
        match self {
            Whose::Google => {
                "Make a client of the type \"Desktop app\" at https://console.cloud.google.com/auth/clients.".to_owned()
            }
            Whose::Microsoft => "Register an app for \"Mobile and desktop applications\" with the redirect \
                                 http://localhost at https://entra.microsoft.com."
                .to_owned(),
            Whose::Issuer(issuer) => {
                format!("Register a native client at {issuer}, with the redirect http://127.0.0.1 at any port.")
            }
        }
    }

    /// What the owner types to give access again.
    fn command(&self) -> String {
        match self {
            Whose::Google => "butlerd connect google".to_owned(),
            Whose::Microsoft => "butlerd connect microsoft".to_owned(),
            Whose::Issuer(issuer) => format!("butlerd connect oidc {issuer}"),
        }
    }

    async fn provider(&self, client: Client, scopes: &[String]) -> Result<Provider, OauthError> {
        match self {
            Whose::Google => Ok(Provider::google(client)),
            Whose::Microsoft => Ok(Provider::microsoft(client)),
            Whose::Issuer(issuer) => {
                let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
                Provider::discover(issuer, client, &scopes).await
            }
        }
    }
}

/// Asks for the client, which only the owner can make.
pub(super) fn ask(out: &super::Out, whose: Whose, how: OauthArgs, scopes: Vec<String>) -> Result<Plan, Problem> {
    let id = match &how.client {
        Some(id) => id.clone(),
        None => {
            out.aside(&whose.console());
            prompt::line("The client's id", "")?
        }
    };
    if id.trim().is_empty() {
        return Err(Problem::usage("Without a client nobody can be asked for access.", "See docs/channels.md."));
    }
    let secret = prompt::optional_secret("Its secret, or just Enter if it has none (not shown)")?;
    let secret = secret.map(|secret| Secret::new(secret.expose().trim().to_owned()));
    Ok(Plan { whose, scopes, how, client: Client { id: id.trim().to_owned(), secret } })
}

/// Has the owner give access, by whatever way was asked for.
pub(super) async fn given(
    out: &super::Out,
    mut provider: Provider,
    how: &OauthArgs,
) -> Result<(Provider, Tokens), Problem> {
    if let Some(address) = how.mailbox.address() {
        // Whoever is logged in with several accounts gives access to the right one.
        provider = provider.with_parameter("login_hint", address);
    }
    let tokens = match (how.device, how.paste) {
        (true, _) => by_device(out, &provider).await,
        (false, true) => pasted(out, &provider).await?,
        (false, false) => by_browser(out, &provider).await,
    };
    let tokens = tokens.map_err(|e| failed(&e))?;
    good(out, &format!("{} gave access", provider.host()));
    Ok((provider, tokens))
}

pub(super) fn failed(why: &impl std::fmt::Display) -> Problem {
    Problem::new(FAILED, "not_connected", format!("Nothing was changed: {why}."), "")
}

pub(super) async fn connect(
    caller: Caller,
    Plan { whose, scopes, how, client }: Plan,
    settings: (Overrides, Environment),
) -> Outcome {
    let out = &caller.out;
    let provider = whose.provider(client, &scopes).await.map_err(|e| failed(&e))?;
    let (provider, tokens) = given(out, provider, &how).await?;
    let mailbox = how.mailbox;
    let address = mailbox.asked_address(tokens.email.clone())?;
    let mut command = format!("{} {address}{}", whose.command(), mailbox.flags());
    if matches!(whose, Whose::Issuer(_)) {
        scopes.iter().for_each(|scope| command.push_str(&format!(" --scope {scope}")));
    }
    let grant = new_grant(&provider, &command, &tokens, Clock::default().now()).map_err(|e| failed(&e))?;
    let args = match whose {
        Whose::Google => mailbox.at("imap.gmail.com", "smtp.gmail.com"),
        Whose::Microsoft => mailbox.at("outlook.office365.com", "smtp.office365.com:587"),
        Whose::Issuer(_) => mailbox,
    };
    let opened = Opened { args, address, login: MailLogin::Token(tokens.access), kept: &grant, proof: Proof::Oauth };
    finish(caller, opened, settings).await
}

async fn by_browser(out: &super::Out, provider: &Provider) -> Result<Tokens, OauthError> {
    let login = Login::begin(provider).await?;
    out.aside("Open this in a browser on this machine, and give access (elsewhere: --paste or --device):");
    out.aside(login.url());
    provider.exchange(login.wait(PATIENCE).await?).await
}

/// The inner error is the provider's.
async fn pasted(out: &super::Out, provider: &Provider) -> Result<Result<Tokens, OauthError>, Problem> {
    let login = match Login::begin(provider).await {
        Ok(login) => login,
        Err(e) => return Ok(Err(e)),
    };
    out.aside(
        "Open this in any browser and give access. It ends at an address that shows nothing: paste that one here.",
    );
    out.aside(login.url());
    loop {
        let typed = prompt::line("The address at which it ended", "")?;
        match login.take_pasted(&typed) {
            Ok(code) => return Ok(provider.exchange(code).await),
            Err(e @ OauthError::Protocol { .. }) if !login.is_over() => out.aside(&format!("That is not it: {e}.")),
            Err(e) => return Ok(Err(e)),
        }
    }
}

async fn by_device(out: &super::Out, provider: &Provider) -> Result<Tokens, OauthError> {
    let mut device = Device::begin(provider).await?;
    out.aside(&format!("Open {} anywhere and type {}", device.verification_uri(), device.user_code()));
    device.wait(PATIENCE).await
}
