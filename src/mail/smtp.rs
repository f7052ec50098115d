//! Handing a letter in at a submission server, command by command: so that it is known whether it was taken.

use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use tokio::time::timeout;

use super::account::{Account, Login, Tls};

/// Connecting, and an answer to a command.
const PATIENCE: Duration = Duration::from_secs(30);
/// A server may look at a letter for long before it takes it (RFC 5321 §4.5.3.2.6 says ten minutes).
const VERDICT: Duration = Duration::from_secs(120);

/// Why a letter was not taken, or nobody knows.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// It was surely not taken, and may be later.
    #[error("{server}: {why}")]
    Later { server: String, why: String },
    /// The server does not let this account in.
    #[error("{server} does not let {user} in: {why}")]
    Login { server: String, user: String, why: String },
    /// It was not taken and never will be like this.
    #[error("{server} refused it: {why}")]
    Refused { server: String, why: String },
    /// All of it was said, and no answer came.
    #[error("{server} did not say whether it took it: {why}")]
    Unknown { server: String, why: String },
}

/// Whether the account is let in. Nothing is sent.
pub async fn try_login(account: &Account) -> Result<(), SubmitError> {
    let mut connection = enter(account).await?;
    let _ = timeout(Duration::from_secs(2), connection.quit()).await;
    Ok(())
}

/// Hands a letter in. Returns the server's own words.
pub async fn submit(account: &Account, from: &str, to: &str, raw: &[u8]) -> Result<String, SubmitError> {
    let server = account.server.to_string();
    let refused = |why: String| SubmitError::Refused { server: server.clone(), why };
    let address = |text: &str| text.parse::<Address>().map_err(|e| refused(format!("{text}: {e}")));
    let (from, to) = (address(from)?, address(to)?);
    let mut connection = enter(account).await?;
    said(&server, connection.command(Mail::new(Some(from), Vec::new()))).await?;
    said(&server, connection.command(Rcpt::new(to, Vec::new()))).await?;
    said(&server, connection.command(Data)).await?;
    let unknown = |why: String| SubmitError::Unknown { server: server.clone(), why };
    let verdict = match timeout(VERDICT, connection.message(raw)).await {
        Ok(Ok(response)) => Ok(response.message().collect::<Vec<_>>().join(" ")),
        Ok(Err(e)) if e.is_permanent() || e.is_transient() => Err(answered(&server, &e)),
        Ok(Err(e)) => Err(unknown(words(&e))),
        Err(_) => Err(unknown(format!("no answer within {} s", VERDICT.as_secs()))),
    };
    let _ = timeout(Duration::from_secs(2), connection.quit()).await;
    verdict
}

/// Connects and logs in.
async fn enter(account: &Account) -> Result<AsyncSmtpConnection, SubmitError> {
    let server = account.server.to_string();
    let later = |why: String| SubmitError::Later { server: server.clone(), why };
    let entering = async {
        let hello = ClientId::Domain("localhost".to_owned());
        let host = account.server.host.clone();
        let tls = TlsParameters::new_rustls(host.clone()).map_err(|e| later(words(&e)))?;
        let at_once = (account.server.tls == Tls::AtOnce).then(|| tls.clone());
        let address = (host.as_str(), account.server.port);
        let connecting = AsyncSmtpConnection::connect_tokio1(address, Some(PATIENCE), &hello, at_once, None);
        let mut connection = connecting.await.map_err(|e| later(words(&e)))?;
        if account.server.tls == Tls::Upgraded {
            connection.starttls(tls, &hello).await.map_err(|e| later(format!("STARTTLS: {}", words(&e))))?;
        }
        let (secret, ways): (_, &[Mechanism]) = match &account.login {
            Login::Password(password) => (password, &[Mechanism::Plain, Mechanism::Login]),
            Login::Token(token) => (token, &[Mechanism::Xoauth2]),
        };
        let credentials = Credentials::new(account.user.clone(), secret.expose().clone());
        match connection.auth(ways, &credentials).await {
            Ok(_) => Ok(connection),
            Err(e) if e.is_permanent() => {
                Err(SubmitError::Login { server: server.clone(), user: account.user.clone(), why: words(&e) })
            }
            Err(e) => Err(later(words(&e))),
        }
    };
    match timeout(PATIENCE, entering).await {
        Ok(entered) => entered,
        Err(_) => Err(later(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// Waits for the answer to a command before the letter: nothing was taken by then.
async fn said<T>(server: &str, doing: impl Future<Output = Result<T, Error>>) -> Result<T, SubmitError> {
    match timeout(PATIENCE, doing).await {
        Ok(done) => done.map_err(|e| answered(server, &e)),
        Err(_) => {
            let why = format!("no answer within {} s", PATIENCE.as_secs());
            Err(SubmitError::Later { server: server.to_owned(), why })
        }
    }
}

fn answered(server: &str, e: &Error) -> SubmitError {
    let (server, why) = (server.to_owned(), words(e));
    if e.is_permanent() { SubmitError::Refused { server, why } } else { SubmitError::Later { server, why } }
}

/// An error with its cause, without the library's own preface.
fn words(e: &Error) -> String {
    let code = e.status().map(|code| format!("{code} ")).unwrap_or_default();
    format!("{code}{}", base::innermost(e))
}
