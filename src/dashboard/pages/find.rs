//! The palette: a place by its name, a butler, or anything by the beginning of its id.

use admin::IdKind;
use admin::calls::{HouseApiServer, IdsApiServer, SchedulesApiServer, WorkApiServer};
use futures_util::future::join_all;
use maud::{Markup, html};

use super::people;
use crate::layout::places;
use crate::parts::{empty, line};
use crate::reply::{Answer, Reply, View};
use crate::route::{Route, get};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[get("/find", |visit| Box::pin(find(visit)))];

/// What ids name that have a page, and where it is.
const KINDS: [(IdKind, &str, &str); 5] = [
    (IdKind::Session, "Session", "/sessions/"),
    (IdKind::Message, "Message", "/inbox/"),
    (IdKind::Delivery, "Delivery", "/deliveries/"),
    // Of a call, or of a proposal of several.
    (IdKind::Approval, "Approval", "/approvals/"),
    (IdKind::Traced, "What led to and followed from", "/trace/"),
];
const MOST: usize = 20;
/// With fewer letters, only what the household has few of is looked through.
const LETTERS: usize = 2;

async fn find(visit: &Visit) -> Answer {
    let wanted = visit.query.get("q").unwrap_or_default().trim().to_lowercase();
    let mut found: Vec<(String, String)> = Vec::new();
    let fits = |name: &str| wanted.is_empty() || name.to_lowercase().contains(&wanted);
    found.extend(places().filter(|(name, _)| fits(name)).map(|(name, href)| (name.to_owned(), href.to_owned())));
    let butlers: Vec<String> = match visit.calls.status(&visit.ext).await {
        Ok(status) => status.butlers.into_iter().map(|b| b.name).collect(),
        Err(_) => Vec::new(),
    };
    let named = butlers.iter().filter(|name| fits(name));
    found.extend(named.map(|name| (format!("Butler {name}"), format!("/butlers/{name}"))));
    if wanted.len() >= LETTERS {
        let (schedules, people, tools) = tokio::join!(
            visit.calls.schedule_list(&visit.ext, None, None),
            people::named(visit),
            tools(visit, &butlers)
        );
        let schedules = schedules.map(|page| page.schedules).unwrap_or_default().into_iter().filter(|s| fits(&s.name));
        let people = people.into_iter().filter(|(name, _)| fits(name));
        found.extend(people.map(|(name, at)| (format!("Person {}", line(&name, 60)), at)));
        found.extend(
            schedules.map(|s| (format!("Schedule {} of {}", s.name, s.butler), format!("/schedules/{}", s.id))),
        );
        found.extend(
            tools
                .into_iter()
                .filter(|(tool, _)| fits(tool))
                .map(|(tool, butler)| (format!("Tool {tool} of {butler}"), format!("/butlers/{butler}/tools/{tool}"))),
        );
    }
    if wanted.len() >= 4 && wanted.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        found.extend(by_id(visit, &wanted).await);
    }
    found.truncate(MOST);
    let list = list(&found);
    match visit.query.ticked("piece") {
        true => Ok(Reply::Piece(list)),
        false => Ok(View::new("Find", list).into()),
    }
}

/// The tools of all butlers that answer, with the butler each is of.
async fn tools(visit: &Visit, butlers: &[String]) -> Vec<(String, String)> {
    let asked = butlers.iter().map(|butler| visit.calls.tool_list(&visit.ext, butler.clone()));
    let answers = butlers.iter().zip(join_all(asked).await);
    answers.flat_map(|(butler, tools)| tools.into_iter().flatten().map(|t| (t.name, butler.clone()))).collect()
}

/// What has an id that begins so.
async fn by_id(visit: &Visit, wanted: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (kind, name, at) in KINDS {
        let Ok(ids) = visit.calls.ids(&visit.ext, kind, wanted.to_owned()).await else { continue };
        found.extend(ids.ids.into_iter().take(MOST).map(|id| (format!("{name} {id}"), format!("{at}{id}"))));
    }
    found
}

fn list(found: &[(String, String)]) -> Markup {
    html! {
        @if found.is_empty() { (empty("Nothing is called so, and no id begins so.")) }
        ul { @for (name, href) in found { li { a href=(href) { (name) } } } }
    }
}
