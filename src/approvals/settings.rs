//! `[modules.approvals]` of a butler: which of its tools wait for a person.

use std::collections::BTreeMap;

use config::{KeyMistake, Section};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::types::RiskTier;
use base::HumanDuration;

/// The longest time that a wish may wait, in hours: a year.
const MOST_HOURS: u32 = 8784;

/// The settings. Absent, no tool is gated; what leaves the household beside a stranger's words is, all the same.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[schemars(transform = config::keys::<Self>)]
pub struct Settings {
    /// `false`: as if the section were not there.
    #[schemars(extend("default" = true))]
    pub enabled: bool,
    /// How long a call waits for a person, in hours.
    #[schemars(range(min = 1, max = MOST_HOURS), extend("default" = 48))]
    pub default_expiry_hours: u32,
    /// How much harm a wrong call could do, where the tool's own entry does not say.
    #[schemars(extend("default" = "medium"))]
    pub default_risk_tier: RiskTier,
    /// How long an approved call may take; then it is broken off.
    #[schemars(range(min = 1, max = 86_400), extend("default" = "10m"))]
    pub call_timeout: HumanDuration,
    /// The tools that wait for a person, by their names.
    #[serde(default)]
    pub gated_tools: BTreeMap<String, Gated>,
}

/// One gated tool.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq)]
#[schemars(transform = config::keys::<Self>)]
pub struct Gated {
    /// How long a call waits, in hours.
    #[schemars(range(min = 1, max = MOST_HOURS))]
    pub expiry_hours: Option<u32>,
    /// How much harm a wrong call could do.
    pub risk_tier: Option<RiskTier>,
}

impl Settings {
    /// The keys of `[modules.approvals]`.
    pub fn section() -> Section {
        Section::of::<Self>()
    }

    /// Reads the section; absent, all is as by default.
    pub fn read(section: Option<&Value>) -> Result<Self, Vec<KeyMistake>> {
        Self::section().read(section.unwrap_or(&json!({})))
    }

    /// Whether calls of this tool wait, and under which terms.
    pub fn gated(&self, tool: &str) -> Option<(RiskTier, u32)> {
        let gated = self.gated_tools.get(tool).filter(|_| self.enabled)?;
        Some((
            gated.risk_tier.unwrap_or(self.default_risk_tier),
            gated.expiry_hours.unwrap_or(self.default_expiry_hours),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_has_its_own_terms_or_the_defaults() {
        let section = json!({"default_expiry_hours": 12, "gated_tools": {"pay": {"risk_tier": "critical"},
                             "mail": {"expiry_hours": 1}}});
        let settings = Settings::read(Some(&section)).unwrap();
        assert_eq!(settings.gated("pay"), Some((RiskTier::Critical, 12)));
        assert_eq!(settings.gated("mail"), Some((RiskTier::Medium, 1)));
        assert_eq!(settings.gated("other"), None);
        assert_eq!(Settings::read(None).unwrap().default_expiry_hours, 48);
        for (bad, names) in [
            (json!({"gated_tools": {"pay": {"expiry_hours": 0}}}), "gated_tools.pay.expiry_hours"),
            (json!({"gated_tools": {"pay": {"risk_tier": "huge"}}}), "huge"),
            (json!({"gate": 1}), "gate"),
            (json!({"call_timeout": "0s"}), "call_timeout"),
            (json!({"call_timeout": "soon"}), "duration"),
        ] {
            let wrong = Settings::read(Some(&bad)).unwrap_err();
            assert!(wrong.len() == 1 && wrong[0].to_string().contains(names), "{wrong:?}");
        }
    }
}
