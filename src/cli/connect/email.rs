//! `butlerd connect email`

use clap::Args;
use serde_json::json;

use super::super::caller::Caller;
use super::super::problem::{FAILED, Problem};
use super::super::{Outcome, prompt};
use super::good;
use admin::api::SecretsApiClient;
use base::Secret;
use config::{Environment, Overrides};
use modules::ModuleError;
use modules::email::{Login, MailTrial, try_account};
use offline::setup::{KnownMailbox, MAILBOX_PASSWORD, MailboxSettings, connect_email, mailboxes, owners_identity};

/// Servers of providers that many people have: the end of the address, IMAP, SMTP, and whether it keeps what is sent.
const PROVIDERS: [(&str, &str, &str, bool); 13] = [
    ("gmail.com", "imap.gmail.com", "smtp.gmail.com", true),
    ("googlemail.com", "imap.gmail.com", "smtp.gmail.com", true),
    ("outlook.com", "outlook.office365.com", "smtp.office365.com:587", true),
    ("hotmail.com", "outlook.office365.com", "smtp.office365.com:587", true),
    ("live.com", "outlook.office365.com", "smtp.office365.com:587", true),
    ("icloud.com", "imap.mail.me.com", "smtp.mail.me.com:587", false),
    ("me.com", "imap.mail.me.com", "smtp.mail.me.com:587", false),
    ("fastmail.com", "imap.fastmail.com", "smtp.fastmail.com", false),
    ("gmx.de", "imap.gmx.net", "mail.gmx.net", false),
    ("gmx.net", "imap.gmx.net", "mail.gmx.net", false),
    ("web.de", "imap.web.de", "smtp.web.de:587", false),
    ("posteo.de", "posteo.de", "posteo.de", false),
    ("yahoo.com", "imap.mail.yahoo.com", "smtp.mail.yahoo.com", false),
];

/// `connect email`
#[derive(Debug, Args)]
pub struct EmailArgs {
    /// The mailbox's address; without it you are asked
    address: Option<String>,
    /// What the mailbox is called in the settings
    #[arg(long, value_name = "NAME", default_value = "home")]
    name: String,
    /// The server that is read
    #[arg(long, value_name = "SERVER")]
    imap: Option<String>,
    /// The server that letters are handed in at
    #[arg(long, value_name = "SERVER")]
    smtp: Option<String>,
    /// The name to log in with, if it is not the address
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// The address from which you yourself write to the household
    #[arg(long, value_name = "ADDRESS")]
    owner: Option<String>,
    /// The server whose findings about senders are believed, as it names itself in Authentication-Results
    #[arg(long, value_name = "SERVER")]
    trust: Option<String>,
}

/// What was asked before anything was tried.
pub(super) struct Typed {
    args: EmailArgs,
    address: String,
    password: Secret<String>,
}

/// A mailbox, and what opens it now.
pub(super) struct Opened<'a> {
    pub args: EmailArgs,
    pub address: String,
    pub login: Login,
    /// What is stored, and how the account proves itself by it.
    pub kept: &'a Secret<String>,
    pub proof: Proof,
}

/// How an account proves itself from now on.
#[derive(Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Proof {
    Password,
    Oauth,
}

base::named!(Proof);

impl Proof {
    /// What the first secret of its kind is called.
    fn secret(self) -> &'static str {
        match self {
            Proof::Password => MAILBOX_PASSWORD,
            Proof::Oauth => "BUTLER_EMAIL_GRANT",
        }
    }
}

/// The name under which what opens a mailbox is stored: no other one's.
fn secret_for(proof: Proof, name: &str, known: &[KnownMailbox]) -> String {
    if let Some(own) = known.iter().find(|mailbox| mailbox.name == name) {
        return own.secret.clone();
    }
    let wanted =
        if name == "home" { String::new() } else { format!("_{}", name.to_ascii_uppercase().replace('-', "_")) };
    let taken = |secret: &String| known.iter().any(|mailbox| mailbox.secret == *secret);
    let first = proof.secret();
    let numbered = (2..).map(|n| format!("{first}{wanted}_{n}"));
    let mut names = std::iter::once(format!("{first}{wanted}")).chain(numbered);
    names.find(|secret| !taken(secret)).unwrap_or_default()
}

/// Whether a mailbox of this name and address can be connected; before anything is stored: what opens another one would be
/// gone. The name under which it is stored then, and whether the settings have the mailbox already.
fn place_for(
    args: &EmailArgs,
    address: &str,
    proof: Proof,
    (overrides, environment): &(Overrides, Environment),
) -> Result<(String, bool), Problem> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if args.name.is_empty() || !args.name.chars().all(plain) {
        let why = format!("`{}` can't be the name of a mailbox.", args.name);
        return Err(Problem::usage(why, "Use small letters, digits, - and _."));
    }
    if !address.contains('@') {
        return Err(Problem::usage(
            format!("`{address}` is not an address."),
            "Such as: butlerd connect email home@example.org",
        ));
    }
    let known = mailboxes(overrides, environment)?;
    let own = known.iter().find(|mailbox| mailbox.name == args.name);
    if let Some(other) = own.filter(|other| !other.address.eq_ignore_ascii_case(address)) {
        let why = format!("The mailbox `{}` is {} already, and nothing was changed.", args.name, other.address);
        return Err(Problem::usage(why, "Give this one a name of its own with --name."));
    }
    if let Some(other) = own.filter(|other| other.auth != proof.as_str()) {
        let (name, auth, new) = (&args.name, &other.auth, proof.as_str());
        let why = format!("The mailbox `{name}` has auth = \"{auth}\" in the settings, and nothing was changed.");
        let next = format!("Take [modules.email.accounts.{name}] out of them, or write auth = \"{new}\" there.");
        return Err(Problem::usage(why, &next));
    }
    Ok((secret_for(proof, &args.name, &known), own.is_some()))
}

/// Asks for what only the owner knows.
pub(super) fn ask(args: EmailArgs, settings: &(Overrides, Environment)) -> Result<Typed, Problem> {
    let address = args.asked_address(None)?;
    place_for(&args, &address, Proof::Password, settings)?;
    let password = prompt::secret("Its password; many providers want one made for a single program (not shown)")?;
    Ok(Typed { args, address, password: Secret::new(password.expose().trim().to_owned()) })
}

impl EmailArgs {
    /// The mailbox's address: as it was given, as it is known, or else as the owner types it.
    pub(super) fn asked_address(&self, known: Option<String>) -> Result<String, Problem> {
        let address = match self.address.clone().or(known) {
            Some(address) => address,
            None => prompt::line("The household's address", "")?,
        };
        Ok(address.trim().to_owned())
    }

    /// The address, if it was given.
    pub(super) fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// As they were typed, for whoever types them again.
    pub(super) fn flags(&self) -> String {
        let name = (self.name != "home").then_some(self.name.as_str());
        let typed = [("name", name), ("imap", self.imap.as_deref()), ("smtp", self.smtp.as_deref())];
        let typed = typed.into_iter().chain([("user", self.user.as_deref())]);
        typed.filter_map(|(flag, value)| Some(format!(" --{flag} {}", value?))).collect()
    }

    /// The servers, where they are known and nobody named others.
    pub(super) fn at(mut self, imap: &str, smtp: &str) -> Self {
        self.imap.get_or_insert_with(|| imap.to_owned());
        self.smtp.get_or_insert_with(|| smtp.to_owned());
        self
    }
}

/// The servers that an address's provider is known for, or that it most likely has.
fn guessed(address: &str) -> (String, String, bool) {
    let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain).to_ascii_lowercase();
    match PROVIDERS.iter().find(|(end, ..)| *end == domain) {
        Some((_, imap, smtp, keeps)) => ((*imap).to_owned(), (*smtp).to_owned(), *keeps),
        None => (format!("imap.{domain}"), format!("smtp.{domain}"), false),
    }
}

pub(super) async fn email(
    caller: Caller,
    Typed { args, address, password }: Typed,
    settings: (Overrides, Environment),
) -> Outcome {
    let login = Login::Password(password.clone());
    finish(caller, Opened { args, address, login, kept: &password, proof: Proof::Password }, settings).await
}

/// Tries what opens a mailbox at both servers, stores it, and writes the settings.
pub(super) async fn finish(
    caller: Caller,
    Opened { args, address, login, kept, proof }: Opened<'_>,
    settings: (Overrides, Environment),
) -> Outcome {
    let out = &caller.out;
    let (secret, known) = place_for(&args, &address, proof, &settings)?;
    let (overrides, environment) = settings;
    let (imap, smtp, keeps_sent) = guessed(&address);
    let (imap, smtp) = (args.imap.unwrap_or(imap), args.smtp.unwrap_or(smtp));
    let user = args.user.clone().unwrap_or_else(|| address.clone());
    let trial = try_account((&address, &user, &login), (&imap, &smtp)).await;
    let MailTrial { tells, letters, server } = trial.map_err(|why: ModuleError| {
        let next = "Name the servers with --imap and --smtp, and the user with --user, as your provider has them.";
        Problem::new(FAILED, "not_connected", format!("Nothing was changed: {why}."), next)
    })?;
    good(out, &format!("{imap} let {user} in: {letters} letters in the inbox"));
    if !tells {
        out.aside("The server does not tell of new letters by itself; they are looked for every 20 seconds.");
    }
    good(out, &format!("{smtp} takes letters from there"));
    let trusted = match (args.trust, server) {
        (Some(named), _) => Some(named),
        (None, Some(found)) => {
            out.aside(&format!("Each of the newest letters says that {found} looked whether its sender is proven."));
            let question = "Is that your provider's own server? What it finds out is believed then (yes/no)";
            let answer = prompt::line(question, "no")?;
            answer.to_ascii_lowercase().starts_with('y').then_some(found)
        }
        (None, None) => None,
    };
    if trusted.is_none() {
        out.aside("Until `trusted_servers` names the server that checks senders, every sender is a stranger, you too.");
    }
    let owner = match (args.owner, owners_identity(&overrides, &environment, "email")) {
        (Some(owner), _) => owner,
        (None, Some(there)) => {
            out.aside(&format!("You write from {there}, as butlerd.toml says; --owner changes that."));
            String::new()
        }
        (None, None) => prompt::line("Your own address, from which you write to the household (empty: none)", "")?,
    };
    caller.got(caller.quick()?.secret_set(secret.clone(), kept.clone().into()).await)?;
    good(out, "what opens it is stored, encrypted");
    let wanted = MailboxSettings {
        name: &args.name,
        address: &address,
        user: args.user.as_deref(),
        imap: &imap,
        smtp: &smtp,
        auth: (proof == Proof::Oauth).then(|| proof.as_str()),
        secret: &secret,
        trusted_server: trusted.as_deref(),
        keeps_sent,
    };
    let owner = Some(owner.trim()).filter(|owner| !owner.is_empty());
    let changed = connect_email(&overrides, &environment, &wanted, owner)?;
    for file in &changed {
        good(out, &format!("written: {}", file.display()));
    }
    if known {
        let file = "roster/switchboard/butler.toml";
        out.aside(&format!("The settings of `{}` were there already and stay as they are: see {file}.", args.name));
    }
    let said = json!({"status": "connected", "address": address, "owner": owner, "trusted_server": trusted, "changed": changed});
    out.answer(&said, |out, _| out.line("Restart butlerd, then write to the household."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_known_and_of_other_providers() {
        assert_eq!(guessed("a@Gmail.com"), ("imap.gmail.com".into(), "smtp.gmail.com".into(), true));
        assert_eq!(guessed("a@x.org"), ("imap.x.org".into(), "smtp.x.org".into(), false));
    }

    #[test]
    fn no_mailbox_gets_another_ones_password() {
        let known = |name: &str, secret: &str| KnownMailbox {
            name: name.to_owned(),
            address: "a@example.org".to_owned(),
            secret: secret.to_owned(),
            auth: "password".to_owned(),
        };
        let secret_for = |name: &str, known: &[KnownMailbox]| secret_for(Proof::Password, name, known);
        assert_eq!(secret_for("home", &[]), MAILBOX_PASSWORD);
        assert_eq!(secret_for("home", &[known("home", "MINE")]), "MINE");
        assert_eq!(secret_for("home", &[known("family", MAILBOX_PASSWORD)]), "BUTLER_EMAIL_PASSWORD_2");
        assert_eq!(secret_for("a-b", &[known("a_b", "BUTLER_EMAIL_PASSWORD_A_B")]), "BUTLER_EMAIL_PASSWORD_A_B_2");
    }
}
