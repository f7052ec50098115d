//! The token with which a session's child reaches its butler: valid exactly as long as the child lives.

use std::sync::Arc;
use std::time::Duration;

use super::budget::Meter;
use super::choice::SessionTools;
use super::memory::Recalled;
use super::state::Inner;
use super::types::Trigger;
use access::{Grant, GrantScope, Holder, Taint, Token, ToolsSeen, ToolsShown};
use base::redact::{Passing, household};
use base::{Secret, SessionId};

/// A session's token while its child lives.
pub(super) struct SessionToken<'a> {
    inner: &'a Inner,
    pub token: Token,
    _hidden: Passing,
    pub tools_seen: ToolsSeen,
    pub tools_shown: ToolsShown,
}

impl<'a> SessionToken<'a> {
    /// `tools`: what the session may call and is told of. `told`: what memory told it.
    pub fn new(
        inner: &'a Inner,
        id: SessionId,
        trigger: &Trigger,
        tools: &SessionTools,
        meter: &Meter,
        told: &Recalled,
    ) -> Result<Self, getrandom::Error> {
        let token = Token::generate()?;
        let (parts, tools_seen) = (&inner.parts, ToolsSeen::default());
        let tools_shown = ToolsShown::default();
        if tools.chosen {
            tools_shown.only(tools.shown.iter().map(|tool| (tool.name.clone(), tool.detail)));
        }
        let life = parts.config.sessions.session_timeout.0 + Duration::from_secs(60);
        let grant = Grant {
            holder: Holder::Session {
                session: id,
                context: trigger.request.clone(),
                calls: meter.calls().clone(),
                tools_seen: tools_seen.clone(),
                tools_shown: tools_shown.clone(),
                taint: Arc::new(Taint::of(&trigger.request.label().join(&told.label()))),
            },
            tenant: trigger.request.tenant_id.clone(),
            butler: Some(parts.config.name.clone()),
            tools: Some(Arc::new(tools.offered.clone())),
            scopes: [GrantScope::Tools].into(),
            ends: access::ChannelEnds::default(),
            expires_at: None,
        };
        let hidden = household().hide_while(&Secret::new(token.expose().to_owned()));
        parts.book.insert_for(life, token.sha256(), grant);
        Ok(Self { inner, token, _hidden: hidden, tools_seen, tools_shown })
    }
}

impl Drop for SessionToken<'_> {
    fn drop(&mut self) {
        self.inner.parts.book.remove(&self.token.sha256());
    }
}
