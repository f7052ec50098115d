//! Who calls: known by a program's token or by a browser's session, and asked again for each call.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jsonrpsee::Extensions;

use super::failure::Failure;
use super::rights::{self, Need};
use access::{BrowserSession, Edge, Grant};

/// Who stands at the door: put into each request's extensions, and asked again for each call, so that a token revoked
/// meanwhile opens nothing more on a connection that was open already.
#[derive(Clone)]
pub struct Visitor {
    edge: Edge,
    proof: Proof,
}

#[derive(Clone)]
enum Proof {
    /// The request's `Authorization`, and nothing else of it.
    Bearer(Arc<HeaderMap>),
    Browser(BrowserSession),
}

impl Visitor {
    /// A program; of its headers `Authorization` alone is kept, so that no log of what is below can show another.
    pub fn bearer(edge: Edge, mut given: HeaderMap) -> Self {
        let mut headers = HeaderMap::new();
        if let Some(token) = given.remove(AUTHORIZATION) {
            headers.insert(AUTHORIZATION, token);
        }
        Self { edge, proof: Proof::Bearer(Arc::new(headers)) }
    }

    /// A browser that has signed in.
    pub fn browser(edge: Edge, session: BrowserSession) -> Self {
        Self { edge, proof: Proof::Browser(session) }
    }

    /// The grant of the visitor's token as it is now, if it is good for this.
    pub fn grant(&self, need: Need) -> Result<Arc<Grant>, Failure> {
        let grant = match &self.proof {
            Proof::Bearer(headers) => self.edge.authenticate(headers),
            Proof::Browser(session) => self.edge.renewed(session),
        };
        let grant = grant.map_err(|r| Failure::new(r.code, r.message))?;
        rights::check(&grant, need)?;
        Ok(grant)
    }

    /// What a call is handed to know its caller.
    pub fn extensions(self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(self);
        extensions
    }
}

/// The request's visitor.
pub(super) fn visitor(ext: &Extensions) -> Result<&Visitor, Failure> {
    ext.get::<Visitor>().ok_or_else(|| Failure::new("unauthorized", "The request came in without an identity."))
}

/// The visitor's grant, if it is good for this.
pub fn may(ext: &Extensions, need: Need) -> Result<Arc<Grant>, Failure> {
    visitor(ext)?.grant(need)
}
