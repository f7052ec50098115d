//! The palette: a place by its name, a butler, or anything by the beginning of its id.

use admin::IdKind;
use admin::calls::{HouseApiServer, IdsApiServer, SchedulesApiServer};
use maud::{Markup, html};

use crate::layout::places;
use crate::parts::empty;
use crate::reply::{Answer, Reply, View};
use crate::route::{Route, get};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[get("/find", |visit| Box::pin(find(visit)))];

/// What ids name that have a page, and where it is.
const KINDS: [(IdKind, &str, &str); 4] = [
    (IdKind::Session, "Session", "/sessions/"),
    (IdKind::Message, "Message", "/inbox/"),
    (IdKind::Delivery, "Delivery", "/deliveries/"),
    (IdKind::Approval, "Approval", "/approvals/"),
];
const MOST: usize = 20;

async fn find(visit: &Visit) -> Answer {
    let wanted = visit.query.get("q").unwrap_or_default().to_lowercase();
    let mut found: Vec<(String, String)> = Vec::new();
    let fits = |name: &str| wanted.is_empty() || name.to_lowercase().contains(&wanted);
    found.extend(places().filter(|(name, _)| fits(name)).map(|(name, href)| (name.to_owned(), href.to_owned())));
    if let Ok(status) = visit.calls.status(&visit.ext).await {
        let names = status.butlers.into_iter().map(|b| b.name).filter(|name| fits(name));
        found.extend(names.map(|name| (format!("Butler {name}"), format!("/butlers/{name}"))));
    }
    if wanted.len() >= 2
        && let Ok(page) = visit.calls.schedule_list(&visit.ext, None, None).await
    {
        let named = page.schedules.into_iter().filter(|s| fits(&s.name));
        found.extend(named.map(|s| (format!("Schedule {} of {}", s.name, s.butler), format!("/schedules/{}", s.id))));
    }
    if wanted.len() >= 4 && wanted.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-') {
        for (kind, name, at) in KINDS {
            if let Ok(ids) = visit.calls.ids(&visit.ext, kind, wanted.clone()).await {
                found.extend(ids.ids.into_iter().map(|id| (format!("{name} {id}"), format!("{at}{id}"))));
            }
        }
    }
    found.truncate(MOST);
    let list = list(&found);
    match visit.query.ticked("piece") {
        true => Ok(Reply::Piece(list)),
        false => Ok(View::new("Find", list).into()),
    }
}

fn list(found: &[(String, String)]) -> Markup {
    html! {
        @if found.is_empty() { (empty("Nothing is called so, and no id begins so.")) }
        ul { @for (name, href) in found { li { a href=(href) { (name) } } } }
    }
}
