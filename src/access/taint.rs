//! What a session was shown so far: it decides what the session may still do on its own.

use base::{Label, Principal, Seen};

/// One session's exposure. It only grows.
#[derive(Debug, Default)]
pub struct Taint {
    seen: Seen,
}

impl Taint {
    /// The exposure of a session that begins with something of this label: its request, and what memory told it.
    pub fn of(label: &Label) -> Self {
        let taint = Self::default();
        taint.observe(label);
        taint
    }

    /// The join of all that the session was shown, its request included.
    pub fn label(&self) -> Label {
        self.seen.label()
    }

    /// Something with this label is shown.
    pub fn observe(&self, label: &Label) {
        self.seen.observe(label);
    }
}

/// Whether a session with this label may let these learn something by itself: nobody but the owner and the house could
/// have influenced it, or each of them may learn all that it was shown. `None`: nobody can say who would learn it.
pub fn may_tell(label: &Label, those: Option<&[Principal]>) -> bool {
    !label.is_influenced() || those.is_some_and(|those| those.iter().all(|one| label.audience.includes(one)))
}

#[cfg(test)]
mod tests {
    use base::{Audience, Trust};

    use super::*;

    #[test]
    fn an_influenced_session_tells_those_alone_who_may_learn_all_of_it() {
        let (bea, ada) = (Principal::person("email", "bea@x.org"), Principal::person("email", "ada@x.org"));
        let label = |trust, audience| Label { trust, audience };
        let hers = Audience::people([bea.clone()]);
        let both = [bea.clone(), ada];
        for trust in [Trust::Stranger, Trust::Known] {
            assert!(may_tell(&label(trust, hers.clone()), Some(&both[..1])));
            assert!(!may_tell(&label(trust, hers.clone()), Some(&both)));
            assert!(!may_tell(&label(trust, hers.clone()), None));
            assert!(!may_tell(&label(trust, Audience::Household), Some(&both[..1])));
            assert!(may_tell(&label(trust, Audience::Household), Some(&[])), "the household itself");
        }
        for trust in [Trust::System, Trust::Owner] {
            assert!(may_tell(&label(trust, Audience::Household), None));
        }
    }
}
