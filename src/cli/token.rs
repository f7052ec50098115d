//! `butlerd token`

use clap::Subcommand;
use jiff::Timestamp;

use super::common::Id;
use super::out::Out;
use super::{Caller, Outcome};
use admin::api::TokensApiClient;
use admin::{IdKind, MadeToken, WantedToken};

/// `token`
#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a token; it is shown once
    New {
        /// What it is for, so that you recognise it
        #[arg(long, value_name = "TEXT", default_value = "made on the command line")]
        label: String,
        /// Only for this butler
        #[arg(long, value_name = "NAME")]
        butler: Option<String>,
        /// Whose rows it sees [default: owner]
        #[arg(long, value_name = "TENANT")]
        tenant: Option<String>,
        /// What it may do; may be given more than once
        #[arg(long = "scope", value_name = "SCOPE", default_value = "tools", value_delimiter = ',',
              value_parser = ["tools", "read", "ingest", "admin"])]
        scopes: Vec<String>,
        /// Of scope ingest: a channel that it speaks for; may be given more than once. It hands in messages of these
        /// alone, and only there it may say that a sender is authenticated
        #[arg(long = "channel", value_name = "CHANNEL", value_delimiter = ',')]
        channels: Vec<String>,
        /// Your own end of these channels, such as a mailbox; may be given more than once [default: each]
        #[arg(long = "endpoint", value_name = "ENDPOINT", requires = "channels")]
        endpoints: Vec<String>,
        /// How long it lasts, such as 30d [default: until it is revoked]
        #[arg(long, value_name = "DURATION")]
        expires_in: Option<String>,
    },
    /// List the live tokens
    List,
    /// End a token at once
    Revoke { id: Id },
}

fn minute(out: &Out, at: Timestamp) -> String {
    at.to_zoned(out.zone.clone()).strftime("%Y-%m-%d %H:%M").to_string()
}

pub async fn run(caller: Caller, what: Token) -> Outcome {
    let calls = caller.quick()?;
    match what {
        Token::New { label, butler, tenant, scopes, channels, endpoints, expires_in } => {
            let wanted = WantedToken { label, butler, tenant, scopes, expires_in, channels, endpoints };
            caller.show(calls.token_create(wanted).await, told)
        }
        Token::List => caller.list(calls.token_list().await, |out, tokens| {
            out.table(tokens)
                .ids("TOKEN", |t| t.id)
                .column("SCOPES", |t| t.scopes.join(","))
                .column("KIND", |t| if t.browser { "browser" } else { "program" })
                .column("SPEAKS FOR", |t| speaks_for(&t.channels, &t.endpoints))
                .column("BUTLER", |t| &t.butler)
                .column("TENANT", |t| &t.tenant)
                .column("MADE", |t| minute(out, t.created_at))
                .column("UNTIL", |t| t.expires_at.map(|at| minute(out, at)))
                .column("LABEL", |t| &t.label)
                .print("No tokens. Make one with: butlerd token new");
        }),
        Token::Revoke { id } => {
            let id = caller.id(IdKind::Token, &id).await?;
            caller.show(calls.token_revoke(id).await, |out, revoked| {
                out.line(&format!("Token {} is revoked.", revoked.id));
            })
        }
    }
}

/// The ends of channels that a token names; empty where it names none.
fn speaks_for(channels: &[String], endpoints: &[String]) -> String {
    let at = if endpoints.is_empty() { String::new() } else { format!(" at {}", endpoints.join(", ")) };
    format!("{}{at}", channels.join(", "))
}

fn told(out: &Out, made: &MadeToken) {
    // The token alone on standard output, so that a script can take it.
    out.line(made.token.expose());
    let butler = made.butler.as_deref().unwrap_or("every butler");
    let until = made.expires_at.map_or_else(|| "it is revoked".to_owned(), |at| minute(out, at));
    let scopes = made.scopes.join(", ");
    out.aside(&format!("Scope {scopes}, for {butler}, valid until {until}. It is not shown again."));
    if made.scopes.iter().any(|scope| scope == "ingest") {
        let speaks = speaks_for(&made.channels, &made.endpoints);
        out.aside(&match speaks.is_empty() {
            true => "It speaks for no channel, so whoever it says has written is a stranger; --channel names one."
                .to_owned(),
            false => format!("It speaks for {speaks}."),
        });
    }
    out.aside(&format!("To revoke it: butlerd token revoke {}", made.id));
}
