//! What a page answers.

use access::Refusal;
use admin::Failure;
use http::StatusCode;
use maud::Markup;
use mcp::Body;

/// The answer to a request for a page.
pub(super) enum Reply {
    /// A whole page.
    Page(View),
    /// A piece of one, which a script puts into place.
    Piece(Markup),
    /// Something was done: what it became of is seen there.
    Go { to: String, did: Did },
    /// A stream, or anything else that is whole already.
    Raw(http::Response<Body>),
}

/// A page between its frame.
pub(super) struct View {
    pub title: String,
    pub body: Markup,
    /// Whatever happens at this address (`/live/…`) changes it while one looks: its `main` is asked for again.
    /// `None`: it stays as it was made.
    pub live: Option<String>,
    /// It has plots.
    pub plots: bool,
}

impl View {
    pub fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { title: title.into(), body, live: None, plots: false }
    }

    pub fn live(self, at: impl Into<String>) -> Self {
        Self { live: Some(at.into()), ..self }
    }

    /// The same, if it may still change.
    pub fn live_if(self, may_change: bool, at: impl Into<String>) -> Self {
        if may_change { self.live(at) } else { self }
    }

    pub fn with_plots(self) -> Self {
        Self { plots: true, ..self }
    }
}

impl From<View> for Reply {
    fn from(view: View) -> Self {
        Reply::Page(view)
    }
}

/// What a page answers, or why it does not.
pub(super) type Answer = Result<Reply, PageError>;

/// Why a page can't be shown, or something was not done.
#[derive(Debug)]
pub(super) struct PageError {
    pub status: StatusCode,
    /// A sentence for people.
    pub message: String,
}

impl PageError {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub fn nothing_here() -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is no such page.")
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

impl From<Failure> for PageError {
    fn from(failure: Failure) -> Self {
        let status = match failure.code.as_str() {
            "unauthorized" => StatusCode::UNAUTHORIZED,
            "forbidden" | "foreign_message" => StatusCode::FORBIDDEN,
            "not_found" | "unknown_butler" | "unknown_tool" | "unknown_action" => StatusCode::NOT_FOUND,
            "invalid_arguments" | "invalid_prompt" => StatusCode::BAD_REQUEST,
            "unavailable" | "butler_unavailable" | "stopping" | "capacity" => StatusCode::SERVICE_UNAVAILABLE,
            "internal" => StatusCode::INTERNAL_SERVER_ERROR,
            // It is known what is wrong, and that nothing was done.
            _ => StatusCode::CONFLICT,
        };
        Self { status, message: failure.message }
    }
}

impl From<&Refusal> for PageError {
    fn from(refusal: &Refusal) -> Self {
        Self::new(refusal.status, refusal.message)
    }
}

/// What was done, as the next page says it. It travels as a name, so that no link can put words into a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Did {
    Nothing,
    Approved,
    Refused,
    AllApproved,
    AllRefused,
    Agreed,
    RuleMade,
    RuleAdded,
    RuleEnded,
    Cancelled,
    Retried,
    Rerouted,
    Delivered,
    Paused,
    Resumed,
    Started,
    Stored,
    Removed,
    Revoked,
    Undone,
    Noted,
    Changed,
    Reloaded,
    Sent,
    SignedIn,
}

impl Did {
    /// The sentence that the page shows; empty where there is nothing to say.
    pub fn sentence(self) -> &'static str {
        match self {
            Did::Nothing => "",
            Did::Approved => "Approved. It runs once, with exactly these arguments.",
            Did::Refused => "Refused. It will not run.",
            Did::AllApproved => "Approved. Each call runs once, with exactly these arguments.",
            Did::AllRefused => "Refused. None of these calls will run.",
            Did::Agreed => "Agreed. The butler has these tools from now on.",
            Did::RuleMade => "The standing rule holds from now on.",
            Did::RuleAdded => "The rule holds for the messages that come from now on.",
            Did::RuleEnded => "The rule has ended.",
            Did::Cancelled => "Cancelled.",
            Did::Retried => "It is tried again.",
            Did::Rerouted => "Handed to the other butler.",
            Did::Delivered => "Noted what became of it.",
            Did::Paused => "Paused.",
            Did::Resumed => "It goes on.",
            Did::Started => "Started.",
            Did::Stored => "Stored.",
            Did::Removed => "Removed.",
            Did::Revoked => "Revoked.",
            Did::Undone => "Undone.",
            Did::Noted => "Noted.",
            Did::Changed => "Changed.",
            Did::Reloaded => "The roster was read again.",
            Did::Sent => "Sent.",
            Did::SignedIn => "You are signed in.",
        }
    }
}
