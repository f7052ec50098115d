//! An account with all that is needed to serve it.

use async_trait::async_trait;

use super::settings::{AccountSection, Answers, Auth, Bulk};
use crate::contract::{AccountTrial, ModuleContext, ModuleError};
use crate::grant::{GrantError, GrantKeeper, given_by};
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
    pub imap: ServerAddress,
    smtp: ServerAddress,
    user: String,
    proof: Proof,
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

/// What an account proves itself by.
#[derive(Clone)]
enum Proof {
    Lasting(Login),
    /// A token that is renewed as it ends.
    Renewed {
        grant: GrantKeeper,
        given_by: Option<String>,
    },
}

/// Why there is nothing to show at the servers.
struct NoProof {
    /// It passes by itself.
    passes: bool,
    server: String,
    user: String,
    why: String,
}

impl From<NoProof> for ImapError {
    fn from(NoProof { passes, server, user, why }: NoProof) -> Self {
        match passes {
            true => ImapError::Later { server, why },
            false => ImapError::Login { server, user, why },
        }
    }
}

impl From<NoProof> for SubmitError {
    fn from(NoProof { passes, server, user, why }: NoProof) -> Self {
        match passes {
            true => SubmitError::Later { server, why },
            false => SubmitError::Login { server, user, why },
        }
    }
}

impl MailAccount {
    pub fn new(section: &AccountSection, cx: &ModuleContext) -> Result<Self, ModuleError> {
        let server = |protocol, text: &str| ServerAddress::parse(protocol, text).map_err(ModuleError::new);
        let secret = cx.credentials.get(&section.password);
        let secret = secret.ok_or_else(|| format!("{} is not set", section.password))?.clone();
        let proof = match section.auth {
            Auth::Password => Proof::Lasting(Login::Password(secret)),
            Auth::Token => Proof::Lasting(Login::Token(secret)),
            Auth::Oauth => Proof::Renewed { grant: cx.grants.grant(&section.password), given_by: given_by(&secret) },
        };
        let largest_letter = u32::try_from(section.largest_letter.0).unwrap_or(u32::MAX);
        Ok(Self {
            from: Mailbox { name: section.name.clone(), address: section.address.clone() },
            imap: server(Protocol::Imap, &section.imap)?,
            smtp: server(Protocol::Smtp, &section.smtp)?,
            user: section.user.clone().unwrap_or_else(|| section.address.clone()),
            proof,
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

    /// What is said at a server.
    async fn at(&self, server: &ServerAddress) -> Result<Account, NoProof> {
        let login = match &self.proof {
            Proof::Lasting(login) => login.clone(),
            Proof::Renewed { grant, .. } => Login::Token(grant.token().await.map_err(|e| NoProof {
                passes: matches!(e, GrantError::Later(_)),
                server: server.to_string(),
                user: self.user.clone(),
                why: e.to_string(),
            })?),
        };
        Ok(Account { server: server.clone(), user: self.user.clone(), login })
    }

    /// A server did not let it in. Whether it may with what it has by now.
    async fn has_another(&self, refused: &Login) -> bool {
        match (&self.proof, refused) {
            (Proof::Renewed { grant, .. }, Login::Token(token)) => grant.was_refused(token).await,
            _ => false,
        }
    }

    /// A connection to the mailbox, logged in.
    pub async fn open(&self) -> Result<ImapSession, ImapError> {
        let account = self.at(&self.imap).await?;
        match ImapSession::open(&account).await {
            Err(ImapError::Login { .. }) if self.has_another(&account.login).await => {
                ImapSession::open(&self.at(&self.imap).await?).await
            }
            opened => opened,
        }
    }

    /// Hands a letter in. Returns the server's own words.
    pub async fn submit(&self, to: &str, raw: &[u8]) -> Result<String, SubmitError> {
        let account = self.at(&self.smtp).await?;
        match smtp::submit(&account, self.address(), to, raw).await {
            Err(SubmitError::Login { .. }) if self.has_another(&account.login).await => {
                smtp::submit(&self.at(&self.smtp).await?, self.address(), to, raw).await
            }
            done => done,
        }
    }

    /// How the owner mends that nobody is let in.
    pub fn login_mended_by(&self) -> String {
        match &self.proof {
            Proof::Lasting(_) => format!("store a good one with: butlerd secret set {}", self.secret),
            Proof::Renewed { given_by, .. } => {
                format!("give access again with: {}", given_by.as_deref().unwrap_or("butlerd connect"))
            }
        }
    }
}

#[async_trait]
impl AccountTrial for MailAccount {
    fn name(&self) -> String {
        self.address().to_owned()
    }

    async fn attempt(&self) -> Result<(), ModuleError> {
        let mended = |e: &dyn std::fmt::Display| ModuleError::new(format!("{e}; {}", self.login_mended_by()));
        let session = self.open().await.map_err(|e| match e {
            ImapError::Login { .. } => mended(&e),
            e => ModuleError::new(e),
        })?;
        session.close().await;
        let account = self.at(&self.smtp).await.map_err(|why| ModuleError::new(SubmitError::from(why)))?;
        smtp::try_login(&account).await.map_err(|e| match e {
            SubmitError::Login { .. } => mended(&e),
            e => ModuleError::new(e),
        })
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
    (address, user, login): (&str, &str, &Login),
    (imap, smtp): (&str, &str),
) -> Result<MailTrial, ModuleError> {
    let server = |protocol, text: &str| ServerAddress::parse(protocol, text).map_err(ModuleError::new);
    let at = |server| Account { server, user: user.to_owned(), login: login.clone() };
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
