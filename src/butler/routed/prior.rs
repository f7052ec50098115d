//! What the sessions of earlier tries have done already: whether the work is finished, may be tried again, or must not.

use uuid::Uuid;

use base::{Audience, Label, TenantId, Trust};
use sessions::sql::{TryRow, Work, tries_at};
use sessions::{Remedy, SessionState};
use store::{Store, StoreError};

/// One session of an earlier try.
#[derive(Clone, Debug)]
pub struct Prior {
    pub session: Uuid,
    pub state: SessionState,
    pub result: Option<String>,
    pub error: Option<String>,
    pub error_class: Option<String>,
    /// The join of all that it was shown.
    pub label: Label,
    /// Tools that it called and that may have changed something, in order.
    pub done: Vec<String>,
}

/// What follows from them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Nothing was changed: a session may be started.
    Run,
    /// The work is finished; only its end is not on record.
    Finished { session: Uuid, result: Option<String> },
    /// It broke off after it had changed something, and doing that twice could be worse than not finishing. `closing`:
    /// what cut it off was no fault of its own, so a session that can change nothing may tell what was done; all that
    /// the earlier ones were shown may speak out of which tools they chose, so it begins with this label.
    Stop { session: Uuid, why: String, done: Vec<String>, closing: Option<Label> },
}

/// So many sessions may try to tell the end of what was cut off.
const CLOSINGS: usize = 3;

impl Prior {
    /// Whether it ended by what may pass: the daemon, the machine or the model's side went away. One that is open still
    /// could not be closed: whoever asks holds the claim on its work, so nobody else goes on with it.
    fn was_cut(&self) -> bool {
        match self.state {
            SessionState::Queued | SessionState::Running | SessionState::Interrupted => true,
            SessionState::Failed => Remedy::of(self.error_class.as_deref()) != Remedy::GiveUp,
            _ => false,
        }
    }

    /// Whether it ended by what is waited out: that is no try of its own, however often it comes.
    fn is_waited_out(&self) -> bool {
        self.state == SessionState::Failed && Remedy::of(self.error_class.as_deref()) == Remedy::Wait
    }
}

/// Decides, without looking at anything else.
pub fn next(priors: &[Prior]) -> Next {
    if let Some(finished) = priors.iter().rev().find(|p| p.state == SessionState::Succeeded) {
        return Next::Finished { session: finished.session, result: finished.result.clone() };
    }
    let Some(last) = priors.last() else { return Next::Run };
    let done: Vec<String> = priors.iter().flat_map(|p| p.done.clone()).collect();
    if done.is_empty() {
        return Next::Run;
    }
    let why = match (&last.error, last.state) {
        (Some(error), _) => error.clone(),
        (None, state) => state.as_str().to_owned(),
    };
    let closings = priors.iter().rev().take_while(|p| p.done.is_empty()).filter(|p| !p.is_waited_out()).count();
    let label = || priors.iter().fold(Label::NOTHING, |label, prior| label.join(&prior.label));
    let closing = (last.was_cut() && closings < CLOSINGS).then(label);
    Next::Stop { session: last.session, why, done, closing }
}

/// The sessions that worked on this, oldest first.
pub async fn read(store: &Store, tenant: &TenantId, work: Work) -> Result<Vec<Prior>, StoreError> {
    let tries = tries_at(&mut store.tenant(tenant).await?, store.schema(), work).await?;
    let prior = |row: TryRow| Prior {
        session: row.id,
        // The table allows no other names than these.
        state: serde_json::from_value(row.state.into()).unwrap_or(SessionState::Interrupted),
        result: row.result,
        error: row.error,
        error_class: row.error_class,
        done: row.done,
        label: Label { trust: Trust::from_name(&row.trust), audience: Audience::from_names(row.audience) },
    };
    Ok(tries.into_iter().map(prior).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prior(state: SessionState, done: &[&str]) -> Prior {
        let done = done.iter().map(|d| (*d).to_owned()).collect();
        let (session, result) = (Uuid::nil(), Some("r".into()));
        Prior { session, state, result, error: None, error_class: None, done, label: Label::NOTHING }
    }

    #[test]
    fn work_is_tried_again_only_where_nothing_was_changed() {
        use SessionState::{Failed, Interrupted, Succeeded};
        assert_eq!(next(&[]), Next::Run);
        assert_eq!(next(&[prior(Interrupted, &[])]), Next::Run);
        let stop = next(&[prior(Interrupted, &["spend"]), prior(Failed, &[])]);
        assert!(matches!(stop, Next::Stop { ref done, .. } if done == &["spend"]), "{stop:?}");
        let closes = |priors: &[Prior]| matches!(next(priors), Next::Stop { closing: Some(_), .. });
        let cut = prior(Interrupted, &["spend"]);
        assert!(
            closes(std::slice::from_ref(&cut)) && closes(&[cut.clone(), prior(Interrupted, &[]), prior(Failed, &[])])
        );
        assert!(
            !closes(&[cut.clone(), prior(Failed, &[]), prior(Failed, &[]), prior(Failed, &[])]),
            "there were enough"
        );
        let full_disk = Prior { error_class: Some("unavailable".to_owned()), ..prior(Failed, &[]) };
        let waited = [[cut.clone()].as_slice(), &vec![full_disk; 9]].concat();
        assert!(closes(&waited), "what the machine does counts for nothing");
        assert!(!closes(&[prior(SessionState::TimedOut, &["spend"])]), "it had its time");
        for open in [SessionState::Queued, SessionState::Running] {
            assert!(closes(&[prior(open, &["spend"])]), "its end could not be written: {}", open.as_str());
        }
        let shown = Prior { label: Label { trust: Trust::Stranger, ..Label::NOTHING }, ..cut.clone() };
        let Next::Stop { closing: Some(label), .. } = next(&[shown, prior(Interrupted, &[])]) else {
            panic!("it closes")
        };
        assert_eq!(label.trust, Trust::Stranger, "the choice of tools speaks of what it was shown");
        let own_fault = Prior { error_class: Some("budget".to_owned()), ..prior(Failed, &["spend"]) };
        assert!(!closes(&[own_fault]));
        let finished = next(&[prior(Failed, &["spend"]), prior(Succeeded, &["spend"])]);
        assert_eq!(finished, Next::Finished { session: Uuid::nil(), result: Some("r".into()) });
    }
}
