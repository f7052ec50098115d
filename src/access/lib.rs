//! Who may come in: tokens, what each may call, and the checks before a request's body is read.
//!
//! What never happens here: a request let in without a token, a session's token outliving its child, a token stored
//! in clear.

mod browser;
mod calls;
pub mod credentials;
mod edge;
mod ends;
mod grant;
mod operator;
mod sql;
mod taint;
mod token;

pub use browser::{BrowserSession, Network, PageAddress, Peer};
pub use calls::{CallGuard, CallRefused, IDENTICAL_CALLS};
pub use edge::{Edge, Refusal};
pub use ends::ChannelEnds;
pub use grant::{Caller, Detail, Grant, GrantScope, Holder, ToolsSeen, ToolsShown, approval_label};
pub use operator::{NewToken, OperatorTokens, TokenError, TokenInfo};
pub use taint::{Taint, may_tell};
pub use token::{Token, TokenBook};
