//! A delivery as its reader gets it. The row keeps what was written, to the letter.

use super::delivery::Delivery;
use super::handle::Outbox;
use base::text::links::for_owner;
use base::text::plain_identity;
use base::{TenantId, Trust};

impl Outbox {
    /// What is for the owner and was made by somebody less has links that do nothing: whatever shows it, an app, a
    /// preview or a page, fetches nothing, and what their addresses carry is named. What others get is as it was
    /// written.
    ///
    /// `trust`: of the delivery's row. `at_home`: its channel does not leave the house.
    pub(super) fn composed(&self, delivery: Delivery, trust: Trust, at_home: bool) -> Delivery {
        if !at_home && !self.is_owners(&delivery) {
            return delivery;
        }
        let told = |text: &Option<String>| text.as_deref().map(|text| for_owner(text, trust).into_owned());
        let (subject, message) = (told(&delivery.subject), told(&delivery.message));
        let files = delivery.files.into_iter().map(|file| file.for_owner(trust)).collect();
        Delivery { subject, message, files, ..delivery }
    }

    /// Whether it goes to one of the owner's own identities.
    fn is_owners(&self, delivery: &Delivery) -> bool {
        let own = self.owner().identities.get(&delivery.channel).filter(|_| delivery.tenant == TenantId::owner());
        own.is_some_and(|own| plain_identity(own) == plain_identity(&delivery.target))
    }
}
