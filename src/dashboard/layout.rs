//! The frame around each page: where one is, where one can go, and what was just done.

use maud::{DOCTYPE, Markup, html};

use super::assets;
use super::parts::{Tone, note};
use super::reply::{Did, PageError, View};
use super::visit::Visit;

/// All places, by what people do there.
const PLACES: &[(&str, &[(&str, &str)])] = &[
    (
        "Today",
        &[
            ("Home", "/"),
            ("Conversations", "/conversations"),
            ("Approvals", "/approvals"),
            ("Inbox", "/inbox"),
            ("Deliveries", "/deliveries"),
        ],
    ),
    (
        "Work",
        &[
            ("Sessions", "/sessions"),
            ("Schedules", "/schedules"),
            ("Costs", "/costs"),
            ("Council", "/council"),
            ("Undo", "/undo"),
        ],
    ),
    (
        "Knowledge",
        &[
            ("Memory", "/memory"),
            ("Journal", "/journal"),
            ("Projects", "/projects"),
            ("Notes", "/notes"),
            ("People", "/people"),
        ],
    ),
    (
        "House",
        &[
            ("Connectors", "/connectors"),
            ("Rules", "/rules"),
            ("Audit", "/audit"),
            ("Secrets", "/secrets"),
            ("Settings", "/settings"),
        ],
    ),
];

/// htmx evaluates nothing and puts no style into the page, as the content policy wants it.
const HTMX: &str = r#"{"allowEval":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyCacheSize":0,"timeout":30000}"#;

/// All places, for the palette.
pub(super) fn places() -> impl Iterator<Item = (&'static str, &'static str)> {
    PLACES.iter().flat_map(|(_, places)| places.iter().copied())
}

/// A whole page.
pub(super) fn page(visit: &Visit, view: View) -> Markup {
    let did = visit.query.get("did").and_then(|name| name.parse::<Did>().ok()).unwrap_or(Did::Nothing);
    let live = view.live.as_ref().map(|at| format!("/live/{at}?since={}", visit.since));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                meta name="htmx-config" content=(HTMX);
                title { (view.title) " · butlerd" }
                link rel="icon" href=(assets::ICON.href());
                link rel="stylesheet" href=(assets::STYLE.href());
                @if view.plots { link rel="stylesheet" href=(assets::PLOT_STYLE.href()); }
                script src=(assets::HTMX.href()) defer {}
                @if view.plots { script src=(assets::PLOT.href()) defer {} }
                script src=(assets::PAGE.href()) defer {}
            }
            // Plots draw their times in the zone in which the rest of the page tells them.
            body data-zone=[visit.now.zone.iana_name()] {
                a.skip href="#main" { "To the content" }
                header.top {
                    a.brand href="/" { "butlerd" }
                    button.find type="button" data-palette="" { "Find" kbd { "Ctrl K" } }
                    form method="post" action="/logout" { (visit.proof()) button.plain type="submit" { "Sign out" } }
                }
                div.frame {
                    nav.places aria-label="Places" { (menu(&visit.path)) }
                    main #main data-live=[live] tabindex="-1" {
                        @if !did.sentence().is_empty() {
                            (note(Tone::Good, &html! { (did.sentence()) }))
                        }
                        h1 { (view.title) }
                        (view.body)
                    }
                }
                dialog.palette aria-label="Find a page by its name or an id" {
                    form method="get" action="/find" role="search" {
                        input type="search" name="q" placeholder="A page, a butler, or an id" aria-label="Find"
                            autocomplete="off" hx-get="/find?piece=1" hx-trigger="input changed delay:120ms"
                            hx-target="next .found";
                    }
                    div.found {}
                }
            }
        }
    }
}

fn menu(path: &str) -> Markup {
    html! {
        @for (group, places) in PLACES {
            h2 { (group) }
            ul { @for (name, href) in *places {
                @let here = path == *href || (*href != "/" && path.starts_with(&format!("{href}/")));
                li { a href=(href) aria-current=[here.then_some("page")] { (name) } }
            } }
        }
    }
}

/// Why a page can't be shown, or what was wanted was not done.
pub(super) fn error(visit: &Visit, error: &PageError) -> Markup {
    let title = error.status.canonical_reason().unwrap_or("Refused");
    let body = html! {
        (note(Tone::Bad, &html! { (lines(&error.message)) }))
        p { a href=(visit.path) { "Reload" } " · " a href="/" { "To the start" } }
    };
    page(visit, View::new(title, body))
}

/// Lines as they were broken.
fn lines(text: &str) -> Markup {
    html! { @for (n, line) in text.lines().enumerate() { @if n > 0 { br; } (line) } }
}
