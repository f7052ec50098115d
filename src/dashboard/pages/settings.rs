//! The house's own: settings, browsers and tokens that may come in, secrets by name.

use access::{Holder, TokenInfo};
use admin::calls::{HouseApiServer, SecretsApiServer, TokensApiServer};
use admin::{Sealed, SecretName};
use config::EffectiveSetting;
use maud::{Markup, html};

use crate::parts::{Tone, empty, line, note, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/settings", |visit| Box::pin(settings(visit))),
    post("/settings/tokens/*/revoke", |visit| Box::pin(revoke(visit))),
    post("/settings/reload", |visit| Box::pin(reload(visit))),
    get("/secrets", |visit| Box::pin(secrets(visit))),
    post("/secrets", |visit| Box::pin(store_secret(visit))),
    post("/secrets/*/remove", |visit| Box::pin(remove_secret(visit))),
];

async fn settings(visit: &Visit) -> Answer {
    let (calls, ext) = (&visit.calls, &visit.ext);
    let (status, tokens, all) = (calls.status(ext).await?, calls.token_list(ext).await, calls.settings(ext).await);
    let only_set = !visit.query.ticked("all");
    let body = html! {
        dl.facts {
            dt { "Version" } dd { (status.version) }
            dt { "Up since" } dd { (visit.now.when(status.started_at)) }
            dt { "Database" } dd { (status.database.kind) ", " (status.database.server) }
            dt { "Backup" } dd { @match &status.backup {
                None => "none is made by itself",
                Some(backup) => { "newest " (visit.now.maybe(backup.newest)) ", next " (visit.now.maybe(backup.due_at)) }
            } }
        }
        (visit.button("/settings/reload", "Read the roster again", "", &[]))
        h2 { "Who may come in" }
        @match &tokens { Ok(tokens) => (token_table(visit, tokens)), Err(why) => (note(Tone::Quiet, &html! { (why.message) })) }
        h2 { "Settings" }
        p.tabs {
            a href="/settings" aria-current=[only_set.then_some("true")] { "What was set" }
            a href="/settings?all=1" aria-current=[(!only_set).then_some("true")] { "All" }
        }
        @match &all { Ok(all) => (setting_table(all, only_set)), Err(why) => (note(Tone::Quiet, &html! { (why.message) })) }
    };
    Ok(View::new("Settings", body).into())
}

fn token_table(visit: &Visit, tokens: &[TokenInfo]) -> Markup {
    let own = match &visit.session.grant.holder {
        Holder::Operator { id, .. } => Some(*id),
        _ => None,
    };
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "Kind" } th { "Label" } th { "May" } th { "Butler" } th { "Made" } th { "Until" } th { "End it" } } }
        tbody { @for token in tokens { tr {
            td { (if token.browser { "browser" } else { "program" }) @if own == Some(token.id) { " " (toned(Tone::Good, "this one")) } }
            td.grow { (line(&token.label, 100)) }
            td { (token.scopes.join(", ")) }
            td { (token.butler.as_deref().unwrap_or("all")) }
            td { (visit.now.when(token.created_at)) }
            td { @match token.expires_at { Some(at) => (visit.now.when(at)), None => "it is revoked" } }
            td { (visit.button(&format!("/settings/tokens/{}/revoke", token.id), "Revoke", "danger", &[])) }
        } } }
    } } }
}

fn setting_table(all: &[EffectiveSetting], only_set: bool) -> Markup {
    let shown: Vec<&EffectiveSetting> = all.iter().filter(|s| !only_set || s.source.is_some()).collect();
    if shown.is_empty() {
        return empty("Nothing was set: all is as by default.");
    }
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "Setting" } th { "Value" } th { "Default" } th { "Set by" } } }
        tbody { @for setting in shown { tr {
            td.grow { code { (setting.key) } div.dim { (setting.doc) } }
            td { @match (&setting.value, setting.hidden) {
                (Some(value), _) => code { (line(value, 200)) },
                (None, true) => span.dim { "may hold a password" },
                (None, false) => span.dim { "not set" },
            } }
            td { @match &setting.default { Some(value) => code { (line(value, 200)) }, None => span.dim { "–" } } }
            td { @match &setting.source {
                None => span.dim { "–" },
                Some(source) => { (source.place) @if let Some(line) = source.line { ", line " (line) }
                    @if source.name != setting.key { ", " code { (source.name) } } }
            } }
        } } }
    } } }
}

does! {
    revoke(visit) = token_revoke(visit.parsed(0)?) -> "/settings".to_owned(), Revoked;
    reload(visit) = reload() -> "/settings".to_owned(), Reloaded;
    remove_secret(visit) = secret_remove(visit.part(0).to_owned()) -> "/secrets".to_owned(), Removed;
}

async fn secrets(visit: &Visit) -> Answer {
    let all = visit.calls.secret_list(&visit.ext).await?;
    let body = html! {
        p { "Values are stored encrypted and never shown again, here or anywhere." }
        @if all.is_empty() { (empty("No secret is stored yet.")) } @else { (secret_table(visit, &all)) }
        h2 { "Store a secret" }
        form method="post" action="/secrets" autocomplete="off" {
            (visit.proof())
            label { "Name, such as ANTHROPIC_API_KEY" input type="text" name="name" required pattern="[A-Za-z0-9_]+" maxlength="100"; }
            label { "Value" input type="password" name="value" required autocomplete="new-password"; }
            button.main type="submit" { "Store" }
        }
    };
    Ok(View::new("Secrets", body).into())
}

fn secret_table(visit: &Visit, all: &[SecretName]) -> Markup {
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "Name" } th { "Stored" } th { "Age" } th { "Remove" } } }
        tbody { @for secret in all { tr {
            td.grow { code { (secret.name) } }
            td { (visit.now.maybe(secret.updated_at)) }
            td { @if let Some(at) = secret.updated_at { (visit.now.ago(at)) } }
            td { (visit.button(&format!("/secrets/{}/remove", crate::form::encoded(&secret.name)), "Remove", "danger", &[])) }
        } } }
    } } }
}

async fn store_secret(visit: &Visit) -> Answer {
    let field =
        |name: &str| visit.form.get(name).ok_or_else(|| PageError::invalid("A secret needs a name and a value."));
    field("value")?;
    // As it was typed: a blank at an end may belong to it.
    let value = visit.form.raw("value").unwrap_or_default();
    let (name, value) = (field("name")?.to_owned(), Sealed::from(value.to_owned()));
    visit.calls.secret_set(&visit.ext, name, value).await?;
    Ok(Reply::Go { to: "/secrets".to_owned(), did: Did::Stored })
}
