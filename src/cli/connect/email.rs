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
use modules::email::{MailTrial, try_account};
use offline::setup::{KnownMailbox, MAILBOX_PASSWORD, MailboxSettings, connect_email, mailboxes, owners_identity};

/// Servers of providers that many people have: the end of the address, IMAP, SMTP, and whether it keeps what is sent.
const PROVIDERS: [(&str, &str, &str, bool); 10] = [
    ("gmail.com", "imap.gmail.com", "smtp.gmail.com", true),
    ("googlemail.com", "imap.gmail.com", "smtp.gmail.com", true),
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
    /// Under which the password is stored.
    secret: String,
    /// The settings have the mailbox already.
    known: bool,
}

/// The name under which a mailbox's password is stored: no other one's.
fn secret_for(name: &str, known: &[KnownMailbox]) -> String {
    if let Some(own) = known.iter().find(|mailbox| mailbox.name == name) {
        return own.secret.clone();
    }
    let wanted =
        if name == "home" { String::new() } else { format!("_{}", name.to_ascii_uppercase().replace('-', "_")) };
    let taken = |secret: &String| known.iter().any(|mailbox| mailbox.secret == *secret);
    let numbered = (2..).map(|n| format!("{MAILBOX_PASSWORD}{wanted}_{n}"));
    let mut names = std::iter::once(format!("{MAILBOX_PASSWORD}{wanted}")).chain(numbered);
    names.find(|secret| !taken(secret)).unwrap_or_default()
}

/// Asks for what only the owner knows.
pub(super) fn ask(args: EmailArgs, (overrides, environment): &(Overrides, Environment)) -> Result<Typed, Problem> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if args.name.is_empty() || !args.name.chars().all(plain) {
        let why = format!("`{}` can't be the name of a mailbox.", args.name);
        return Err(Problem::usage(why, "Use small letters, digits, - and _."));
    }
    let address = match &args.address {
        Some(address) => address.clone(),
        None => prompt::line("The household's address", "")?,
    };
    let address = address.trim().to_owned();
    if !address.contains('@') {
        return Err(Problem::usage(
            format!("`{address}` is not an address."),
            "Such as: butlerd connect email home@example.org",
        ));
    }
    // Before anything is stored: the password of the other one would be gone.
    let known = mailboxes(overrides, environment)?;
    let own = known.iter().find(|mailbox| mailbox.name == args.name);
    if let Some(other) = own.filter(|other| !other.address.eq_ignore_ascii_case(&address)) {
        let why = format!("The mailbox `{}` is {} already, and nothing was changed.", args.name, other.address);
        return Err(Problem::usage(why, "Give this one a name of its own with --name."));
    }
    let (secret, known) = (secret_for(&args.name, &known), own.is_some());
    let password = prompt::secret("Its password; many providers want one made for a single program (not shown)")?;
    Ok(Typed { args, address, password: Secret::new(password.expose().trim().to_owned()), secret, known })
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
    Typed { args, address, password, secret, known }: Typed,
    (overrides, environment): (Overrides, Environment),
) -> Outcome {
    let out = &caller.out;
    let (imap, smtp, keeps_sent) = guessed(&address);
    let (imap, smtp) = (args.imap.unwrap_or(imap), args.smtp.unwrap_or(smtp));
    let user = args.user.clone().unwrap_or_else(|| address.clone());
    let trial = try_account((&address, &user, &password), (&imap, &smtp)).await;
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
    caller.got(caller.quick()?.secret_set(secret.clone(), password.into()).await)?;
    good(out, "the password is stored, encrypted");
    let wanted = MailboxSettings {
        name: &args.name,
        address: &address,
        user: args.user.as_deref(),
        imap: &imap,
        smtp: &smtp,
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
        };
        assert_eq!(secret_for("home", &[]), MAILBOX_PASSWORD);
        assert_eq!(secret_for("home", &[known("home", "MINE")]), "MINE");
        assert_eq!(secret_for("home", &[known("family", MAILBOX_PASSWORD)]), "BUTLER_EMAIL_PASSWORD_2");
        assert_eq!(secret_for("a-b", &[known("a_b", "BUTLER_EMAIL_PASSWORD_A_B")]), "BUTLER_EMAIL_PASSWORD_A_B_2");
    }
}
