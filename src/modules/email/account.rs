//! An account with all that is needed to serve it.

use super::settings::{AccountSection, Answers, Auth, Bulk};
use crate::contract::ModuleError;
use base::Secret;
use mail::imap::{ImapError, ImapSession};
use mail::smtp::{self, SubmitError};
use mail::{Account, Login, Mailbox, Protocol, ReadOptions, ServerAddress};

/// Words of one letter that are kept: what an envelope takes, with room for the house's notes.
const MOST_TEXT: usize = 96 * 1024;
/// Files of one letter; an envelope takes 50 attachments, some of which are the house's.
const MOST_FILES: usize = 40;

/// A mailbox of the household. Cheap enough to clone.
#[derive(Clone)]
pub(super) struct MailAccount {
    pub from: Mailbox,
    pub imap: Account,
    pub smtp: Account,
    pub aliases: Vec<String>,
    pub folders: Vec<String>,
    pub senders: Vec<String>,
    pub answers: Answers,
    pub bulk: Bulk,
    pub backfill: std::time::Duration,
    pub largest_letter: u32,
    pub keeps_sent: bool,
    pub options: ReadOptions,
    /// The name under which its password is stored.
    pub secret: String,
}

impl MailAccount {
    pub fn new(section: &AccountSection, secret: &Secret<String>) -> Result<Self, ModuleError> {
        let server = |protocol, text: &str| ServerAddress::parse(protocol, text).map_err(ModuleError::new);
        let user = section.user.clone().unwrap_or_else(|| section.address.clone());
        let login = match section.auth {
            Auth::Password => Login::Password(secret.clone()),
            Auth::Token => Login::Token(secret.clone()),
        };
        let at = |server| Account { server, user: user.clone(), login: login.clone() };
        let largest_letter = u32::try_from(section.largest_letter.0).unwrap_or(u32::MAX);
        Ok(Self {
            from: Mailbox { name: section.name.clone(), address: section.address.clone() },
            imap: at(server(Protocol::Imap, &section.imap)?),
            smtp: at(server(Protocol::Smtp, &section.smtp)?),
            aliases: section.aliases.clone(),
            folders: section.folders.clone(),
            senders: section.senders.iter().map(|sender| sender.to_lowercase()).collect(),
            answers: section.answers,
            bulk: section.bulk,
            backfill: section.backfill.0,
            largest_letter,
            keeps_sent: section.keeps_sent,
            options: ReadOptions {
                trusted_servers: section.trusted_servers.clone(),
                most_text: MOST_TEXT,
                most_files: MOST_FILES,
                largest_file: section.largest_letter.0,
            },
            secret: section.password.clone(),
        })
    }

    pub fn address(&self) -> &str {
        &self.from.address
    }

    /// Whether letters to this address come here: with or without a mark behind `+`.
    pub fn is_own(&self, address: &str) -> bool {
        let plain = |address: &str| {
            let (local, domain) = address.rsplit_once('@')?;
            let local = local.split_once('+').map_or(local, |(local, _)| local);
            Some(format!("{local}@{domain}").to_lowercase())
        };
        let wanted = plain(address);
        std::iter::once(&self.from.address).chain(&self.aliases).any(|own| plain(own) == wanted)
    }

    /// The domain behind the address.
    pub fn domain(&self) -> &str {
        self.from.address.rsplit_once('@').map_or("localhost", |(_, domain)| domain)
    }

    /// Whether somebody's letters are taken in.
    pub fn takes(&self, address: &str) -> bool {
        let address = address.to_lowercase();
        let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain);
        self.senders.is_empty()
            || self.senders.iter().any(|sender| match sender.strip_prefix('@') {
                Some(of) => of == domain,
                None => *sender == address,
            })
    }

    /// Why nobody is let in, as the owner is told.
    pub fn login_mended_by(&self) -> String {
        format!("store a good one with: butlerd secret set {}", self.secret)
    }
}

/// What a mailbox that is to be connected said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailTrial {
    /// New letters are told at once; otherwise they are looked for.
    pub tells: bool,
    /// In its inbox.
    pub letters: u32,
    /// Who put `Authentication-Results` on each of the newest letters, of which there are at least three.
    pub server: Option<String>,
}

/// Logs in at both servers of an account, and looks at its inbox. Nothing is changed and nothing sent.
///
/// # Errors
/// A sentence for the owner.
pub async fn try_account(
    (address, user, password): (&str, &str, &Secret<String>),
    (imap, smtp): (&str, &str),
) -> Result<MailTrial, ModuleError> {
    let server = |protocol, text: &str| ServerAddress::parse(protocol, text).map_err(ModuleError::new);
    let at = |server| Account { server, user: user.to_owned(), login: Login::Password(password.clone()) };
    if !mail::is_address(address) {
        return Err(format!("`{address}` is not an address such as household@example.org").into());
    }
    let refused = |e: ImapError| ModuleError::new(e);
    let mut session = ImapSession::open(&at(server(Protocol::Imap, imap)?)).await.map_err(refused)?;
    let folder = session.examine("INBOX").await.map_err(refused)?;
    let newest = session.from(folder.next.saturating_sub(20).max(1)).await.map_err(refused)?;
    let (mut seen, mut named) = (0, Vec::new());
    for uid in newest.into_iter().rev().take(10) {
        let Some(stored) = session.letter(uid, 32 * 1024).await.map_err(refused)? else { continue };
        seen += 1;
        named.extend(mail::results_server(&stored.raw));
    }
    // A name that is on some letters alone may be a sender's.
    let first = named.first().filter(|first| seen >= 3 && named.len() == seen && named.iter().all(|n| n == *first));
    let checks = first.cloned();
    let tells = session.tells();
    session.close().await;
    let refused = |e: SubmitError| ModuleError::new(e);
    smtp::try_login(&at(server(Protocol::Smtp, smtp)?)).await.map_err(refused)?;
    Ok(MailTrial { tells, letters: folder.letters, server: checks })
}
