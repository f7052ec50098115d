//! One request for a page: who asks, for what, and how its answer names things.

use std::sync::Arc;

use access::{BrowserSession, Grant, GrantScope, PageAddress};
use admin::{Need, Rpc, Visitor};
use jsonrpsee::Extensions;
use maud::{Markup, html};
use supervisor::Supervisor;
use tokio_util::sync::CancellationToken;

use super::changes::Changes;
use super::form::Form;
use super::reply::PageError;
use super::time::Now;

/// What a page is made with.
pub(super) struct Visit {
    pub calls: Rpc,
    pub session: BrowserSession,
    /// What calls know their caller by.
    pub ext: Extensions,
    pub address: PageAddress,
    pub now: Now,
    /// The path as it was asked for, without its query.
    pub path: String,
    /// What stands in the pattern's braces, in order.
    pub parts: Vec<String>,
    pub query: Form,
    /// What a form sent; empty where one only looks.
    pub form: Form,
    /// Cancelled as the port closes.
    pub closing: CancellationToken,
    pub visitor: Visitor,
    pub changes: Changes,
    /// How far changes were counted before anything was read for this page.
    pub since: String,
    /// The last change that a stream told this page of before it was cut.
    pub last_event: Option<String>,
    /// The port that this came in at.
    pub port: u16,
}

impl Visit {
    /// The grant as it is now.
    pub fn grant(&self, need: Need) -> Result<Arc<Grant>, PageError> {
        Ok(self.visitor.grant(need)?)
    }

    pub fn supervisor(&self) -> &Supervisor {
        self.calls.supervisor()
    }

    /// The n-th part of the path that the pattern leaves open.
    pub fn part(&self, n: usize) -> &str {
        self.parts.get(n).map_or("", String::as_str)
    }

    /// The part as an id or another value. A part that is none is a page that there is not.
    pub fn parsed<T: std::str::FromStr>(&self, n: usize) -> Result<T, PageError> {
        self.part(n).parse().map_err(|_| PageError::nothing_here())
    }

    /// The hash of what the form's page showed. A form without it was not made here.
    pub fn seen(&self) -> Result<String, PageError> {
        let seen = self.form.get("seen").map(str::to_owned);
        seen.ok_or_else(|| PageError::invalid("The form does not say what you saw."))
    }

    /// Whether whoever looks may also act.
    pub fn may_act(&self) -> bool {
        self.session.grant.has(GrantScope::Admin)
    }

    /// Whether whoever looks may call tools.
    pub fn may_work(&self) -> bool {
        self.session.grant.has(GrantScope::Tools)
    }

    /// What every form of this session's pages holds.
    pub fn proof(&self) -> Markup {
        html! { input type="hidden" name="form" value=(self.session.form_token()); }
    }

    /// A form of hidden fields and one button that does something. Whoever may only look sees none.
    pub fn button(&self, to: &str, name: &str, look: &str, fields: &[(&str, &str)]) -> Markup {
        html! {
            @if self.may_act() {
                form.inline method="post" action=(to) {
                    (self.proof())
                    @for (field, value) in fields { input type="hidden" name=(field) value=(value); }
                    button class=(look) type="submit" { (name) }
                }
            }
        }
    }
}
