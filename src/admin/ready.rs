//! What `/readyz` tells to anybody who asks: states, and nothing that needs a token.

use http::StatusCode;
use serde_json::{Map, Value, json};

use butler::HouseholdStatus;
use modules::Health;

/// 200 once the core butlers are up and nothing of the machine fails, else 503 with what does; and each butler's and
/// module's state. Nothing is waited for.
pub(super) fn readiness(status: &HouseholdStatus) -> (StatusCode, Value) {
    let butlers: Map<String, Value> = status
        .butlers
        .iter()
        .map(|b| {
            let modules: Map<String, Value> = b
                .modules
                .iter()
                .map(|(name, m)| {
                    let state = match (m.health, m.enabled) {
                        (Health::Active, false) => "switched_off",
                        (Health::Active, true) => "active",
                        (Health::Degraded, _) => "degraded",
                        (Health::Failed, _) => "failed",
                        (Health::CascadeFailed, _) => "cascade_failed",
                    };
                    (name.clone(), json!(state))
                })
                .collect();
            let model = b.model.as_ref().map(|m| m.ready);
            (b.name.clone(), json!({"state": b.state.as_str(), "model": model, "modules": modules}))
        })
        .collect();
    let code = if status.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let database = json!({"kind": status.database.kind, "up": status.database.up});
    let reasons: Vec<&str> = status.troubles.iter().map(|trouble| trouble.what.as_str()).collect();
    (code, json!({"ready": status.ready, "reasons": reasons, "database": database, "butlers": butlers}))
}

/// The same of a household that does not stand yet: what is being done.
pub(super) fn starting(doing: &str) -> Value {
    json!({"ready": false, "reasons": ["starting"], "doing": doing, "butlers": {}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn it_tells_states_and_no_reasons() {
        let mut services = sample::household();
        let (code, shown) = readiness(&services);
        assert_eq!(code, StatusCode::OK);
        assert_eq!(shown["butlers"]["health"]["state"], "up");
        assert_eq!(shown["butlers"]["health"]["model"], false);
        assert_eq!(shown["butlers"]["health"]["modules"]["health"], "failed");
        assert_eq!(shown["butlers"]["travel"]["state"], "parked");
        assert_eq!(shown["butlers"]["travel"]["model"], Value::Null);
        assert!(!shown.to_string().contains(sample::REASON), "{shown}");
        services.ready = false;
        assert_eq!(readiness(&services).0, StatusCode::SERVICE_UNAVAILABLE);
    }
}
