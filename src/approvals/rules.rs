//! Standing rules: which calls of a gated tool a person allows in advance. Pure; their rows are in `sql/rules.rs`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::types::{RiskTier, Source, principal};
use base::Trust;

/// Why a rule can't stand.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RuleError {
    #[error("arg_constraints must be an object of argument names")]
    NotAnObject,
    #[error("{argument}: {source}")]
    Constraint { argument: String, source: ConstraintError },
    #[error("expires_at lies in the past")]
    Past,
    #[error("max_uses must be at least 1")]
    NoUse,
    #[error("a rule for a tool of tier {} needs expires_at or max_uses", .0.as_str())]
    Endless(RiskTier),
    #[error("a rule for a tool of tier {} must pin at least one argument", .0.as_str())]
    Unpinned(RiskTier),
    #[error(
        "also_influenced_by: `{0}` is not channel:identity, such as email:bob@example.org; name each person, without patterns"
    )]
    Person(String),
}

/// Why a constraint can't be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConstraintError {
    #[error("type exact needs a value")]
    NoValue,
    #[error("type pattern needs a text as its value")]
    NoText,
    #[error("type must be exact, pattern or any")]
    Type,
    #[error("`{0}` is not a valid pattern; use *, ? and [abc]")]
    Pattern(String),
}

/// What an argument must be.
#[derive(Clone, PartialEq, Debug)]
pub enum Constraint {
    /// This very value.
    Exact(Value),
    /// A text of this form: `*` is anything, `?` one character, `[abc]` one of these.
    Pattern(String),
    Any,
}

/// By argument.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Constraints(pub BTreeMap<String, Constraint>);

impl Constraint {
    fn read(value: &Value) -> Result<Self, ConstraintError> {
        let Some(object) = value.as_object().filter(|o| o.contains_key("type")) else {
            // As older rules have it: a plain value is meant exactly, a lone star is anything.
            return Ok(if value == "*" { Constraint::Any } else { Constraint::Exact(value.clone()) });
        };
        let given = object.get("value");
        match (object.get("type").and_then(Value::as_str), given) {
            (Some("any"), _) => Ok(Constraint::Any),
            (Some("exact"), Some(value)) => Ok(Constraint::Exact(value.clone())),
            (Some("pattern"), Some(Value::String(pattern))) => {
                form(pattern)?;
                Ok(Constraint::Pattern(pattern.clone()))
            }
            (Some("exact"), None) => Err(ConstraintError::NoValue),
            (Some("pattern"), _) => Err(ConstraintError::NoText),
            _ => Err(ConstraintError::Type),
        }
    }

    fn write(&self) -> Value {
        match self {
            Constraint::Exact(value) => json!({"type": "exact", "value": value}),
            Constraint::Pattern(pattern) => json!({"type": "pattern", "value": pattern}),
            Constraint::Any => json!({"type": "any"}),
        }
    }

    fn holds(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Constraint::Any, _) => true,
            (Constraint::Exact(wanted), Some(value)) => wanted == value,
            (Constraint::Pattern(pattern), Some(Value::String(text))) => form(pattern).is_ok_and(|f| f.is_match(text)),
            _ => false,
        }
    }

    fn weight(&self) -> u32 {
        match self {
            Constraint::Exact(_) => 2,
            Constraint::Pattern(_) => 1,
            Constraint::Any => 0,
        }
    }
}

/// A pattern as a regular expression over the whole text.
fn form(pattern: &str) -> Result<Regex, ConstraintError> {
    let mut form = String::from("(?s)^");
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => form.push_str(".*"),
            '?' => form.push('.'),
            '[' => {
                let set: String = rest.by_ref().take_while(|c| *c != ']').collect();
                let (not, set) = set.strip_prefix('!').map_or(("", set.as_str()), |set| ("^", set));
                let set: String =
                    set.chars().map(|c| if c == '-' { c.to_string() } else { regex::escape(&c.to_string()) }).collect();
                form.push_str(&format!("[{not}{set}]"));
            }
            c => form.push_str(&regex::escape(&c.to_string())),
        }
    }
    form.push('$');
    Regex::new(&form).map_err(|_| ConstraintError::Pattern(pattern.to_owned()))
}

impl Constraints {
    /// Reads `{"argument": {"type", "value"}}`. The error names the argument.
    pub fn read(value: &Value) -> Result<Self, RuleError> {
        let members = value.as_object().ok_or(RuleError::NotAnObject)?;
        let read = |(name, value): (&String, &Value)| match Constraint::read(value) {
            Ok(constraint) => Ok((name.clone(), constraint)),
            Err(source) => Err(RuleError::Constraint { argument: name.clone(), source }),
        };
        members.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// As [`Constraints::read`] reads it.
    pub fn write(&self) -> Value {
        self.0.iter().map(|(name, c)| (name.clone(), c.write())).collect::<Map<_, _>>().into()
    }

    /// Whether all of them hold.
    pub fn hold(&self, args: &Map<String, Value>) -> bool {
        self.0.iter().all(|(name, constraint)| constraint.holds(args.get(name)))
    }

    fn weight(&self) -> u32 {
        self.0.values().map(Constraint::weight).sum()
    }
}

/// People by their identities, `channel:identity`, each as labels have it.
pub fn people(named: &[String]) -> Result<Vec<String>, RuleError> {
    let read = |name: &String| {
        let wrong = || RuleError::Person(name.clone());
        let (channel, identity) = name.split_once(':').ok_or_else(wrong)?;
        let (channel, identity) = (channel.trim(), identity.trim());
        let plain = !channel.is_empty() && channel.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        (plain && !identity.is_empty() && !identity.contains(['*', '?']))
            .then(|| principal(channel, identity))
            .ok_or_else(wrong)
    };
    named.iter().map(read).collect()
}

/// A rule that a person wants.
#[derive(Clone, Debug)]
pub struct Draft {
    pub tool_name: String,
    pub constraints: Constraints,
    /// Who besides the owner may have influenced the session: [`people`].
    pub also_influenced_by: Vec<String>,
    pub description: String,
    pub expires_at: Option<Timestamp>,
    pub max_uses: Option<i32>,
    pub created_from: Option<Uuid>,
}

impl Draft {
    /// Whether such a rule may stand for a tool of this tier.
    pub fn check(&self, tier: RiskTier, now: Timestamp) -> Result<(), RuleError> {
        if self.expires_at.is_some_and(|at| at <= now) {
            return Err(RuleError::Past);
        }
        if self.max_uses.is_some_and(|n| n < 1) {
            return Err(RuleError::NoUse);
        }
        if !tier.wants_bounds() {
            return Ok(());
        }
        if self.expires_at.is_none() && self.max_uses.is_none() {
            return Err(RuleError::Endless(tier));
        }
        if self.constraints.weight() == 0 {
            return Err(RuleError::Unpinned(tier));
        }
        Ok(())
    }
}

store::row! {
    /// A rule that stands or stood.
    #[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
    #[schemars(rename = "StandingRule")]
    pub struct Rule {
        pub id: Uuid,
        pub butler: String,
        pub tool_name: String,
        pub arg_constraints: Value,
        pub description: String,
        pub created_from: Option<Uuid>,
        pub created_by: String,
        pub created_at: Timestamp,
        pub expires_at: Option<Timestamp>,
        pub max_uses: Option<i32>,
        pub use_count: i32,
        pub active: bool,
        /// Who besides the owner may have influenced the sessions that it is for, as `channel:identity`.
        #[serde(default)]
        pub also_influenced_by: Vec<String>,
        /// How far what it says is believed: that of the wish that it was made from.
        pub trust: Trust = |row| Trust::from_name(row.get("trust")),
    }
}

impl Rule {
    /// Whether it still counts.
    pub fn is_effective(&self, now: Timestamp) -> bool {
        self.active
            && self.expires_at.is_none_or(|at| at > now)
            && self.max_uses.is_none_or(|most| self.use_count < most)
    }

    /// Whether it is for a session of this trust that these could have influenced. That of the owner or of the house it
    /// always is. Else every one of them must be named by the rule and be known: whoever a stranger claims to be, he
    /// may not be; and influence that no source accounts for is nobody's that a rule could name.
    pub fn fits(&self, trust: Trust, sources: &[Source]) -> bool {
        if trust >= Trust::System {
            return true;
        }
        let mut others = sources.iter().filter(|source| source.trust < Trust::System).peekable();
        let accounted_for = trust == Trust::Known && others.peek().is_some();
        accounted_for && others.all(|s| s.trust == Trust::Known && self.also_influenced_by.contains(&s.who))
    }

    fn allows(&self, args: &Map<String, Value>) -> bool {
        Constraints::read(&self.arg_constraints).is_ok_and(|c| c.hold(args))
    }

    fn weight(&self) -> u32 {
        Constraints::read(&self.arg_constraints).map_or(0, |c| c.weight())
    }
}

/// The rules that allow a call of a session of this trust and with these sources, the one to use first: most specific,
/// then with an end, then newest.
pub(super) fn allowing<'r>(
    rules: &'r [Rule],
    args: &Map<String, Value>,
    (trust, sources): (Trust, &[Source]),
    now: Timestamp,
) -> Vec<&'r Rule> {
    let allows = |r: &&Rule| r.is_effective(now) && r.fits(trust, sources) && r.allows(args);
    let mut found: Vec<&Rule> = rules.iter().filter(allows).collect();
    let bounded = |r: &Rule| r.expires_at.is_some() || r.max_uses.is_some();
    found.sort_by(|a, b| {
        (b.weight(), bounded(b), b.created_at).cmp(&(a.weight(), bounded(a), a.created_at)).then(a.id.cmp(&b.id))
    });
    found
}

/// Constraints under which a call like this one would be allowed: every argument as it is, but for those of which
/// something is hidden from people. A rule is shown to them, and they can't know what it would let through.
pub(super) fn suggested(args: &Map<String, Value>, shown: &Value) -> Constraints {
    let of = |(name, value): (&String, &Value)| {
        let hidden = &shown[name.as_str()] != value;
        (name.clone(), if hidden { Constraint::Any } else { Constraint::Exact(value.clone()) })
    };
    Constraints(args.iter().map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn rule(n: u128, constraints: Value, max_uses: Option<i32>) -> Rule {
        Rule {
            id: Uuid::from_u128(n),
            butler: "b".into(),
            tool_name: "t".into(),
            arg_constraints: constraints,
            description: String::new(),
            created_from: None,
            created_by: "me".into(),
            created_at: Timestamp::from_second(i64::try_from(n).unwrap()).unwrap(),
            expires_at: None,
            max_uses,
            use_count: 0,
            active: true,
            also_influenced_by: Vec::new(),
            trust: Trust::Owner,
        }
    }

    #[test]
    fn every_constraint_must_hold() {
        let c =
            Constraints::read(&json!({"to": {"type": "pattern", "value": "*@example.org"}, "n": 2, "x": "*"})).unwrap();
        assert!(c.hold(&args(json!({"to": "bob@example.org", "n": 2, "free": true}))));
        for other in [
            json!({"to": "bob@example.org.evil", "n": 2}),
            json!({"to": "bob@example.org\n", "n": 2}),
            json!({"to": "bob@example.org", "n": 3}),
            json!({"n": 2}),
            json!({"to": 5, "n": 2}),
        ] {
            assert!(!c.hold(&args(other.clone())), "{other}");
        }
        assert_eq!(Constraints::read(&c.write()).unwrap(), c);
        for bad in [json!([]), json!({"a": {"type": "exact"}}), json!({"a": {"type": "like", "value": 1}})] {
            assert!(Constraints::read(&bad).is_err(), "{bad}");
        }
        let set = Constraints::read(&json!({"a": {"type": "pattern", "value": "x[!a-c]?.(y"}})).unwrap();
        assert!(set.hold(&args(json!({"a": "xd1.(y"}))) && !set.hold(&args(json!({"a": "xb1.(y"}))));
    }

    #[test]
    fn the_most_specific_rule_is_used_first() {
        let now = Timestamp::from_second(100).unwrap();
        let rules = [
            rule(1, json!({"to": "*"}), None),
            rule(2, json!({"to": {"type": "pattern", "value": "b*"}}), None),
            rule(3, json!({"to": "bob"}), None),
            rule(4, json!({"to": "bob"}), Some(2)),
            rule(5, json!({"to": "eve"}), None),
            Rule { use_count: 1, ..rule(6, json!({"to": "bob"}), Some(1)) },
            Rule { active: false, ..rule(7, json!({"to": "bob"}), None) },
            Rule { expires_at: Some(now), ..rule(8, json!({"to": "bob"}), None) },
        ];
        let order: Vec<u128> = allowing(&rules, &args(json!({"to": "bob"})), (Trust::Owner, &[]), now)
            .iter()
            .map(|r| r.id.as_u128())
            .collect();
        assert_eq!(order, [4, 3, 2, 1]);
    }

    #[test]
    fn a_rule_is_for_the_owners_sessions_and_for_those_whom_it_names() {
        let source = |who: &str, trust| Source {
            who: who.to_owned(),
            trust,
            request_id: Uuid::nil(),
            root_request_id: Uuid::nil(),
        };
        let (bob, carl) = (source("email:bob@example.org", Trust::Known), source("telegram:7", Trust::Known));
        let (eve, forged) = (source("email:eve@evil.org", Trust::Stranger), source(&bob.who, Trust::Stranger));
        let owner = source("chat:cli", Trust::Owner);
        let plain = rule(1, json!({}), None);
        let named = |who: &[&str]| {
            let also_influenced_by = people(&who.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()).unwrap();
            Rule { also_influenced_by, ..plain.clone() }
        };
        let both = named(&["email:Bob <BOB@example.org>", "telegram:7", "email:eve@evil.org"]);
        assert!(plain.fits(Trust::Owner, std::slice::from_ref(&owner)) && plain.fits(Trust::System, &[]));
        assert!(
            both.fits(Trust::Known, std::slice::from_ref(&bob))
                && both.fits(Trust::Known, &[owner.clone(), bob.clone(), carl.clone()])
        );
        for (rule, trust, sources) in [
            (&plain, Trust::Known, vec![bob.clone()]),
            (&plain, Trust::Stranger, vec![eve.clone()]),
            (&named(&["email:bob@example.org"]), Trust::Known, vec![bob.clone(), carl.clone()]),
            // Named or not: nobody vouches for a stranger's name.
            (&both, Trust::Stranger, vec![eve]),
            (&both, Trust::Stranger, vec![forged]),
            // Somebody else has a part in it whom no source names.
            (&both, Trust::Stranger, vec![bob.clone()]),
            (&both, Trust::Stranger, vec![owner.clone()]),
            (&both, Trust::Known, vec![owner]),
            (&both, Trust::Known, vec![]),
        ] {
            assert!(!rule.fits(trust, &sources), "{trust:?} {sources:?}");
        }
        for wrong in ["bob", ":bob", "email:", "email:*", "*:bob", "email:*@example.org", "e mail:bob"] {
            assert!(people(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_suggestion_pins_everything_but_what_is_hidden() {
        let given = args(json!({"to": "bob", "headers": {"token": "t"}, "n": 1}));
        let shown = json!({"to": "bob", "headers": "hidden (13 characters, declared sensitive)", "n": 1});
        let pinned = suggested(&given, &shown);
        assert_eq!(
            pinned.write(),
            json!({"to": {"type": "exact", "value": "bob"}, "headers": {"type": "any"},
                                          "n": {"type": "exact", "value": 1}})
        );
    }

    #[test]
    fn rules_for_dangerous_tools_have_an_end_and_pin_something() {
        let now = Timestamp::UNIX_EPOCH;
        let draft = |constraints: Value, max_uses| Draft {
            tool_name: "t".into(),
            constraints: Constraints::read(&constraints).unwrap(),
            also_influenced_by: Vec::new(),
            description: String::new(),
            expires_at: None,
            max_uses,
            created_from: None,
        };
        assert!(draft(json!({}), None).check(RiskTier::Medium, now).is_ok());
        assert!(draft(json!({"a": 1}), None).check(RiskTier::High, now).is_err());
        assert!(draft(json!({"a": "*"}), Some(1)).check(RiskTier::Critical, now).is_err());
        assert!(draft(json!({"a": 1}), Some(1)).check(RiskTier::Critical, now).is_ok());
    }
}
