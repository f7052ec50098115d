//! People: whom the household knows, under which identities, and inviting somebody.

use std::collections::BTreeSet;

use admin::calls::ContactsApiServer;
use admin::{Identity, Pairing};
use maud::{Markup, html};
use serde_json::json;

use super::answers::{act, look, or_not_now};
use crate::parts::{Tone, crumbs, empty, line, note, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;
use inbox::SWITCHBOARD;

pub(crate) const ROUTES: &[Route] = &[
    get("/people", |visit| Box::pin(list(visit))),
    post("/people", |visit| Box::pin(add(visit))),
    post("/people/remove", |visit| Box::pin(remove(visit))),
    post("/people/pair", |visit| Box::pin(pair(visit))),
];

async fn list(visit: &Visit) -> Answer {
    let found = look::<Vec<Identity>>(visit, SWITCHBOARD, "contact_identity_list", json!({})).await;
    let body = html! {
        p { "Whoever writes under one of these identities is known; anybody else is a stranger, and what a stranger says changes nothing." }
        (or_not_now(&found, |all| people(visit, all)))
        @if visit.may_act() { div.columns { (pair_form(visit)) (add_form(visit)) } }
    };
    Ok(View::new("People", body).into())
}

/// The names of the people that the household knows, and where each one's conversations are; none where they can't be read.
pub(super) async fn named(visit: &Visit) -> Vec<(String, String)> {
    let mut all =
        look::<Vec<Identity>>(visit, SWITCHBOARD, "contact_identity_list", json!({})).await.unwrap_or_default();
    let mut seen = BTreeSet::new();
    all.retain(|one| seen.insert(one.contact_id));
    all.into_iter().map(|one| (one.name, format!("/conversations/with/{}", one.contact_id))).collect()
}

fn people(visit: &Visit, all: &[Identity]) -> Markup {
    if all.is_empty() {
        return empty("The household knows nobody besides its owner. Invite somebody, or add an identity of theirs.");
    }
    let mut seen = BTreeSet::new();
    html! { ul.cards { @for first in all.iter().filter(|one| seen.insert(one.contact_id)) {
        @let own = all.iter().filter(|one| one.contact_id == first.contact_id);
        li {
            strong { (line(&first.name, 100)) } " "
            a href={ "/conversations/with/" (first.contact_id) } { "what was said" }
            ul.rows { @for one in own { li {
                (toned(Tone::Quiet, &line(&one.channel, 30))) " " (line(&one.identity, 200)) " "
                (visit.button("/people/remove", "Forget", "danger", &[("channel", &one.channel), ("identity", &one.identity)]))
            } } }
        }
    } } }
}

fn pair_form(visit: &Visit) -> Markup {
    html! { section aria-labelledby="invite" {
        h2 #invite { "Invite somebody" }
        p { "They open a link, or show a code, and are known by this name from then on." }
        form method="post" action="/people/pair" {
            (visit.proof())
            label { "Name" input type="text" name="name" required maxlength="200"; }
            label { "Channel" input type="text" name="channel" value="telegram" required maxlength="31"; }
            button.main type="submit" { "Make an invitation" }
        }
    } }
}

fn add_form(visit: &Visit) -> Markup {
    html! { section aria-labelledby="add" {
        h2 #add { "Add an identity" }
        p { "An address or a number under which somebody writes." }
        form method="post" action="/people" {
            (visit.proof())
            label { "Name" input type="text" name="name" required maxlength="200"; }
            label { "Channel" input type="text" name="channel" value="email" required maxlength="31"; }
            label { "Identity" input type="text" name="identity" required maxlength="500"; }
            label.tick { input type="checkbox" name="new_channel" value="1"; "No message has come through this channel yet" }
            div { button type="submit" { "Add" } }
        }
    } }
}

fn field<'a>(visit: &'a Visit, name: &str) -> Result<&'a str, PageError> {
    visit.form.get(name).ok_or_else(|| PageError::invalid(format!("Fill in the {name}.")))
}

async fn add(visit: &Visit) -> Answer {
    let mut args = json!({"name": field(visit, "name")?, "channel": field(visit, "channel")?,
                          "identity": field(visit, "identity")?});
    if visit.form.ticked("new_channel") {
        args["new_channel"] = true.into();
    }
    act(visit, SWITCHBOARD, "contact_identity_add", args).await?;
    Ok(Reply::Go { to: "/people".to_owned(), did: Did::Stored })
}

async fn remove(visit: &Visit) -> Answer {
    let args = json!({"channel": field(visit, "channel")?, "identity": field(visit, "identity")?});
    act(visit, SWITCHBOARD, "contact_identity_remove", args).await?;
    Ok(Reply::Go { to: "/people".to_owned(), did: Did::Removed })
}

/// The answer is the page itself: the code is in no address and nowhere else.
async fn pair(visit: &Visit) -> Answer {
    let (name, channel) = (field(visit, "name")?.to_owned(), field(visit, "channel")?.to_owned());
    let made: Pairing = visit.calls.contacts_pair(&visit.ext, name, channel).await?;
    let body = html! {
        (crumbs(&[("People", "/people")]))
        (note(Tone::Good, &html! { "Send this to " strong { (line(&made.name, 200)) } ". It is shown here once, and holds until " (visit.now.when(made.expires_at)) "." }))
        dl.facts {
            dt { "Link" } dd { code { (made.link.expose()) } }
            dt { "Code" } dd { code { (made.code.expose()) } }
            dt { "Channel" } dd { (line(&made.channel, 40)) }
        }
        p { "The first account that shows it is theirs: give it to nobody else." }
    };
    Ok(View::new("An invitation", body).into())
}
