//! Signing out.

use http::header::{HeaderValue, SET_COOKIE};

use access::Holder;

use crate::login::cookie;
use crate::reply::{Answer, Did, PageError, Reply};
use crate::route::{Route, post_by_all};
use crate::send::go;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[post_by_all("/logout", |visit| Box::pin(leave(visit)))];

/// Ends this browser's session, here and in the database.
async fn leave(visit: &Visit) -> Answer {
    if let Holder::Operator { id, .. } = &visit.session.grant.holder {
        let operators = &visit.supervisor().services().operators;
        operators.revoke(*id).await.map_err(|e| PageError::from(admin::Failure::from(e)))?;
    }
    let mut response = go("/", Did::Nothing);
    let port = visit.port;
    if let Ok(gone) = HeaderValue::from_str(&cookie(&visit.address, port, "", 0)) {
        response.headers_mut().insert(SET_COOKIE, gone);
    }
    Ok(Reply::Raw(response))
}
