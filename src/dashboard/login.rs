//! Signing in and out: a link that opens once, and the cookie that it becomes.

use std::net::IpAddr;

use access::PageAddress;
use admin::{Redeemed, Rpc};
use http::header::{HeaderValue, RETRY_AFTER, SET_COOKIE};
use http::{Response, StatusCode};
use maud::{DOCTYPE, Markup, html};
use mcp::Body;

use super::assets;
use super::reply::{Did, PageError};
use super::send::{go, html as answer};

const USED_UP: &str = "This link has been used, or its time is over. Make another one with: butlerd open";
const TOO_MANY: &str = "Too many wrong links came within a minute. Wait, then make another one with: butlerd open";

/// Where somebody stands who wants to come in.
pub(super) struct Door<'a> {
    pub calls: &'a Rpc,
    pub address: &'a PageAddress,
    pub port: u16,
    pub peer: Option<IpAddr>,
}

/// Lets a browser in that brought a link. Only a form's POST does: what previews a link or fetches it ahead uses
/// nothing up.
pub(super) async fn redeem(door: &Door<'_>, link: &str) -> Response<Body> {
    match door.calls.redeem(link).await {
        Redeemed::Session(token) => {
            token.hide();
            let days = door.calls.supervisor().services().config.admin.browser_session.0;
            let cookie = cookie(door.address, door.port, token.expose(), days.as_secs());
            let mut response = go("/", Did::SignedIn);
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(SET_COOKIE, cookie);
            }
            response
        }
        wrong @ (Redeemed::Unknown | Redeemed::TooMany) => {
            let many = matches!(wrong, Redeemed::TooMany);
            // Nobody fills the log with them.
            if !many {
                let peer = door.peer.map(|peer| peer.to_string());
                tracing::warn!(peer, "a link that opens nothing was brought to the dashboard");
            }
            let (status, why) = match many {
                true => (StatusCode::TOO_MANY_REQUESTS, TOO_MANY),
                false => (StatusCode::FORBIDDEN, USED_UP),
            };
            let mut response = answer(status, &signed_out(why));
            if many {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("60"));
            }
            response
        }
        Redeemed::Failed(failure) => {
            let error = PageError::from(failure);
            answer(error.status, &signed_out(&error.message))
        }
    }
}

/// The cookie of a session; with no time left it takes the cookie away.
pub(super) fn cookie(address: &PageAddress, port: u16, value: &str, seconds: u64) -> String {
    let name = address.cookie_name(port);
    let secure = if address.secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// What a link shows before it is used.
pub(super) fn page(link: &str) -> Markup {
    bare(
        "Sign in",
        &html! {
            p { "This link opens once. Sign in with it on the browser that you want to use." }
            form method="post" action={ "/login/" (super::form::encoded(link)) } {
                button.main type="submit" autofocus { "Sign in" }
            }
        },
    )
}

/// What somebody sees who is not signed in.
pub(super) fn signed_out(why: &str) -> Markup {
    bare(
        "Signed out",
        &html! {
            p { (why) }
            p { "On the machine that butlerd runs on, " code { "butlerd open" } " signs this browser in. For a phone, "
                code { "butlerd login-link --for 10m" } " prints a link." }
        },
    )
}

/// A refusal, without anything of the household.
pub(super) fn refused(error: &PageError) -> Markup {
    bare(
        error.status.canonical_reason().unwrap_or("Refused"),
        &html! { p { (error.message) } p { a href="/" { "To the start" } } },
    )
}

/// A page that shows nothing of the household.
fn bare(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) " · butlerd" }
                link rel="icon" href=(assets::ICON.href());
                link rel="stylesheet" href=(assets::STYLE.href());
            }
            body.bare { main { h1 { (title) } (body) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_goes_to_this_host_alone() {
        let address = |secure| PageAddress { secure, authority: "localhost:1".to_owned() };
        let plain = cookie(&address(false), 40200, "x", 60);
        assert_eq!(plain, "butlerd_40200=x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict");
        let tls = cookie(&address(true), 40200, "x", 60);
        assert!(tls.starts_with("__Host-butlerd_40200=x; ") && tls.ends_with("; Secure"), "{tls}");
    }
}
