//! `butlerd token`

use jiff::Timestamp;

use super::args::Token;
use super::out::{Table, Tone};
use super::{Caller, Outcome};
use admin::ApiClient;

pub async fn run(caller: Caller, what: Token) -> Outcome {
    let calls = caller.client.quick()?;
    let out = caller.out;
    let day = |t: Timestamp| t.to_zoned(caller.zone()).strftime("%Y-%m-%d %H:%M").to_string();
    match what {
        Token::New { label, butler, tenant, scopes, expires_in } => {
            let made = calls.token_create(label, butler, tenant, scopes, expires_in).await.map_err(caller.failed())?;
            if out.json {
                out.value(&made);
            } else {
                // The token alone on standard output, so that a script can take it.
                out.line(made.token.expose());
                let butler = made.butler.as_deref().unwrap_or("every butler");
                let until =
                    made.expires_at.map_or_else(|| "until it is revoked".to_owned(), |t| format!("until {}", day(t)));
                out.aside(&format!(
                    "Scope {}, for {butler}, good {until}. It is not shown again.",
                    made.scopes.join(", ")
                ));
                out.aside(&format!("End it with: butlerd token revoke {}", made.id));
            }
        }
        Token::List => {
            let list = calls.token_list().await.map_err(caller.failed())?;
            if out.json {
                out.value(&list);
            } else if list.is_empty() {
                out.line("There is no token. Make one with: butlerd token new");
            } else {
                let mut table = Table::new(&["TOKEN", "SCOPES", "BUTLER", "TENANT", "MADE", "UNTIL", "LABEL"]);
                for t in &list {
                    table.row(vec![
                        (Tone::Plain, t.id.to_string()),
                        (Tone::Plain, t.scopes.join(",")),
                        (Tone::Plain, t.butler.clone().unwrap_or_default()),
                        (Tone::Plain, t.tenant.clone()),
                        (Tone::Plain, day(t.created_at)),
                        (Tone::Plain, t.expires_at.map(day).unwrap_or_default()),
                        (Tone::Plain, t.label.clone()),
                    ]);
                }
                out.table(&table);
            }
        }
        Token::Revoke { id } => {
            let revoked = calls.token_revoke(id).await.map_err(caller.failed())?;
            match out.json {
                true => out.value(&revoked),
                false => out.line(&format!("The token {} opens nothing any more.", revoked.id)),
            }
        }
    }
    Ok(0)
}
