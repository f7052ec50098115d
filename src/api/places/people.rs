//! People, connectors and rules.

use admin::{Backfill, Connector, Failure, Identity};
use inbox::SWITCHBOARD;
use inbox::triage::Rule;
use serde_json::json;

use super::messages::with_contact;
use crate::endpoint::{Endpoint, get};
use crate::input::Nothing;
use crate::list::Page;
use crate::visit::Visit;

/// As many jobs as their tool lists.
const MOST_BACKFILLS: usize = 1000;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/people", "listPeople", "The identities under which the household knows people", people),
        get("/people/{id}/conversation", "getConversationWith", "What was said to a person and by them", with_contact),
        get("/connectors", "listConnectors", "What hands messages in, and how each is", connectors),
        get("/backfills", "listBackfills", "Jobs that bring in messages of the past", backfills),
        get("/rules", "listRules", "What becomes of a message before any model is asked", rules),
    ]
}

async fn people(visit: &Visit, _: Nothing) -> Result<Page<Identity>, Failure> {
    Ok(visit.whole(visit.look(SWITCHBOARD, "contact_identity_list", json!({})).await?))
}

async fn connectors(visit: &Visit, _: Nothing) -> Result<Page<Connector>, Failure> {
    Ok(visit.whole(visit.look(SWITCHBOARD, "connector_list", json!({})).await?))
}

async fn backfills(visit: &Visit, _: Nothing) -> Result<Page<Backfill>, Failure> {
    let found = visit.look(SWITCHBOARD, "backfill_list", json!({"limit": MOST_BACKFILLS})).await?;
    Ok(visit.most(found, MOST_BACKFILLS))
}

async fn rules(visit: &Visit, _: Nothing) -> Result<Page<Rule>, Failure> {
    Ok(visit.whole(visit.look(SWITCHBOARD, "triage_rule_list", json!({})).await?))
}
