//! Calls that wait for the owner's word are shown to the owner: each once, and many at a time together.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::SignedDuration;

use super::BUTLERD;
use super::delivery::DecisionRequest;
use super::handle::Outbox;
use super::owner::OwnerNote;
use approvals::{Action, Unannounced, announced, shown_sha256_of, unannounced, unannounced_tenants};
use base::text::visible::visible_line;
use base::{Priority, TenantId, Trust, crash};
use store::StoreError;

/// Between two messages to one owner: a session that asks for many things asks for them together.
const GAP: SignedDuration = SignedDuration::from_secs(10);
/// Characters that one message may have; of what is beyond it says where to see it.
const ROOM: usize = 6000;
/// Characters of a call's arguments where several are listed.
const BRIEF: usize = 80;
/// Calls that one message speaks of.
const MOST: i64 = 100;

fn failed() -> impl FnOnce(tokio_postgres::Error) -> StoreError {
    StoreError::query("showing the owner what waits")
}

/// Tells each owner what waits and was not shown yet. Returns when to look again, if something has to wait.
pub(super) async fn round(outbox: &Outbox) -> Result<Option<Duration>, StoreError> {
    let mut waits = Vec::new();
    for tenant in unannounced_tenants(outbox.db()).await? {
        waits.extend(tell(outbox, &tenant).await?);
    }
    Ok(waits.into_iter().min())
}

async fn tell(outbox: &Outbox, tenant: &TenantId) -> Result<Option<Duration>, StoreError> {
    let now = outbox.clock().now();
    let mut lease = outbox.db().shared(tenant).await?;
    let mut tx = lease.begin().await.map_err(failed())?;
    let Unannounced { last, calls } = unannounced(&mut tx, tenant, now, MOST).await?;
    let wait = last.map(|last| GAP - now.duration_since(last)).filter(|left| left.is_positive());
    let (Some(first), None) = (calls.first(), wait) else {
        tx.rollback().await.map_err(failed())?;
        return Ok(wait.map(SignedDuration::unsigned_abs));
    };
    let (text, asks) = message(outbox, &calls);
    let note = OwnerNote {
        tenant,
        origin: BUTLERD,
        key: &format!("approval:{}", first.id),
        subject: Some("butlerd asks for your approval"),
        text: &text,
        priority: Priority::High,
        // It quotes them.
        trust: calls.iter().map(|call| call.trust).min().unwrap_or(Trust::System),
        notice: false,
        channel: None,
        asks: &asks,
    };
    outbox.tell_owner(&mut tx, &note).await?;
    announced(&mut tx, &calls, now).await?;
    crash::point("approval.announcing");
    tx.commit().await.map_err(failed())?;
    crash::point("approval.announced");
    outbox.wake();
    Ok(None)
}

/// What one message asks for together, or one call that stands alone.
fn groups(calls: &[Action]) -> Vec<Vec<&Action>> {
    let mut groups: Vec<Vec<&Action>> = Vec::new();
    for call in calls {
        let same = |group: &&mut Vec<&Action>| call.proposal.is_some() && group[0].proposal == call.proposal;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(call),
            None => groups.push(vec![call]),
        }
    }
    groups
}

/// What the message says: of each call all that there is to be seen, or how to see it. The line that approves a call
/// stands only below the whole of it. And what of that a button may decide.
fn message(outbox: &Outbox, calls: &[Action]) -> (String, Vec<DecisionRequest>) {
    let mut said = match calls.len() {
        1 => "A call waits for your approval:".to_owned(),
        n => format!("{n} calls wait for your approval:"),
    };
    let (mut shown, mut left, mut asks) = (0, 0, Vec::new());
    let groups = groups(calls);
    let many = groups.len() > 1;
    for group in groups {
        let (told, asked) = match group[..] {
            [call] if call.proposal.is_none() => alone(outbox, call),
            _ => together(outbox, &group),
        };
        if shown > 0 && said.chars().count() + told.chars().count() > ROOM {
            left += group.len();
            continue;
        }
        shown += group.len();
        asks.push(asked);
        said.push_str("\n\n");
        if many {
            // Buttons are called by these numbers.
            let _ = write!(said, "[{}] ", asks.len());
        }
        said.push_str(&told);
    }
    if left > 0 {
        // A text can always be written to.
        let _ = write!(said, "\n\nand {left} more. See: butlerd approvals list");
    }
    (said, asks)
}

fn terms(outbox: &Outbox, call: &Action) -> String {
    let until = call.expires_at.to_zoned(outbox.owner().zone.clone()).strftime("%Y-%m-%d %H:%M");
    format!("Why it waits: {}. Risk: {}. Until {until}.", call.cause.reason(), call.risk_tier.as_str())
}

/// One call, and how to decide on it.
fn alone(outbox: &Outbox, call: &Action) -> (String, DecisionRequest) {
    let (id, pages, terms) = (call.id, call.pages(), terms(outbox, call));
    let decide = match pages.len() {
        1 => format!("butlerd approvals approve {id} --seen {}\nbutlerd approvals reject {id}", call.shown_sha256()),
        of => format!(
            "This is part 1 of {of}. See the rest before you approve it:\nbutlerd approvals show {id} --page 2\n\
             butlerd approvals reject {id}"
        ),
    };
    let seen = (pages.len() == 1).then(|| call.shown_sha256());
    (format!("{}{terms}\n{decide}", pages[0]), DecisionRequest { id, proposal: false, seen })
}

/// The calls that one message asks for, and how to decide on all of them or on each.
fn together(outbox: &Outbox, calls: &[&Action]) -> (String, DecisionRequest) {
    let (first, proposal) = (calls[0], calls[0].proposal.unwrap_or(calls[0].id));
    let who = first.sources.first().map_or("somebody", |source| source.who.as_str());
    let listed: Vec<String> =
        calls.iter().enumerate().map(|(n, call)| format!("({}) {}", n + 1, call.brief(BRIEF))).collect();
    let mut said = format!("What \"{}\" wrote asks to: {}\n", visible_line(who), listed.join(", "));
    let whole: Vec<String> = calls.iter().map(|call| alone(outbox, call).0).collect();
    let mut seen = None;
    let fits = whole.iter().map(|told| told.chars().count()).sum::<usize>() <= ROOM;
    if !fits {
        let _ = write!(said, "See all of it, then decide:\nbutlerd approvals show {proposal}");
    } else {
        for (n, told) in whole.iter().enumerate() {
            let _ = write!(said, "\n({}) {told}\n", n + 1);
        }
        if calls.iter().all(|call| call.pages().len() == 1) {
            let calls: Vec<Action> = calls.iter().map(|call| (*call).clone()).collect();
            let hash = shown_sha256_of(&calls);
            let _ = write!(said, "\nAll of it:\nbutlerd approvals approve {proposal} --seen {hash}");
            seen = Some(hash);
        }
    }
    let _ = write!(said, "\nNone of it:\nbutlerd approvals reject {proposal}");
    (said, DecisionRequest { id: proposal, proposal: true, seen })
}
