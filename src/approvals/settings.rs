//! `[modules.approvals]` of a butler: which of its tools wait for a person.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::types::RiskTier;
use base::HumanDuration;

/// The settings. Absent, no tool is gated; what leaves the household beside a stranger's words is, all the same.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// `false`: as if the section were not there.
    pub enabled: bool,
    /// How long a wish waits.
    pub default_expiry_hours: u32,
    pub default_risk_tier: RiskTier,
    /// How long an approved call may take; then it is broken off.
    pub call_timeout: HumanDuration,
    /// By the tool's name.
    pub gated_tools: BTreeMap<String, Gated>,
}

/// One gated tool.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Gated {
    pub expiry_hours: Option<u32>,
    pub risk_tier: Option<RiskTier>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enabled: true,
            default_expiry_hours: 48,
            default_risk_tier: RiskTier::Medium,
            call_timeout: HumanDuration::from_secs(600),
            gated_tools: BTreeMap::new(),
        }
    }
}

/// The longest time that a wish may wait, in hours: a year.
const MOST_HOURS: u32 = 8784;

impl Settings {
    /// Reads the section. The error is a sentence that names the key.
    pub fn read(section: Option<&Value>) -> Result<Self, String> {
        let Some(section) = section else { return Ok(Self::default()) };
        let settings: Self = serde_json::from_value(section.clone()).map_err(|e| e.to_string())?;
        let given = settings.gated_tools.iter().filter_map(|(tool, g)| Some((tool, g.expiry_hours?)));
        let mut hours =
            given.map(|(tool, hours)| (format!("gated_tools.{tool}.expiry_hours"), hours)).collect::<Vec<_>>();
        hours.push(("default_expiry_hours".to_owned(), settings.default_expiry_hours));
        if !(1..=86_400).contains(&settings.call_timeout.0.as_secs()) {
            return Err(format!(
                "call_timeout: found {}, expected a duration from \"1s\" to \"24h\"",
                settings.call_timeout
            ));
        }
        match hours.iter().find(|(_, hours)| !(1..=MOST_HOURS).contains(hours)) {
            Some((key, hours)) => Err(format!("{key}: {hours} is not a number of hours from 1 to {MOST_HOURS}")),
            None => Ok(settings),
        }
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
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tool_has_its_own_terms_or_the_defaults() {
        let section = json!({"default_expiry_hours": 12, "gated_tools": {"pay": {"risk_tier": "critical"},
                             "mail": {"expiry_hours": 1}}});
        let settings = Settings::read(Some(&section)).unwrap();
        assert_eq!(settings.gated("pay"), Some((RiskTier::Critical, 12)));
        assert_eq!(settings.gated("mail"), Some((RiskTier::Medium, 1)));
        assert_eq!(settings.gated("other"), None);
        assert_eq!(Settings::read(None).unwrap(), Settings::default());
        for (bad, names) in [
            (json!({"gated_tools": {"pay": {"expiry_hours": 0}}}), "gated_tools.pay.expiry_hours"),
            (json!({"gated_tools": {"pay": {"risk_tier": "huge"}}}), "huge"),
            (json!({"gate": 1}), "gate"),
            (json!({"call_timeout": "0s"}), "call_timeout"),
            (json!({"call_timeout": "soon"}), "duration"),
        ] {
            let e = Settings::read(Some(&bad)).unwrap_err();
            assert!(e.contains(names), "{e}");
        }
    }
}
