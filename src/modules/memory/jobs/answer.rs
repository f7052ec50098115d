//! What the model answered: read leniently, taken over strictly.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::Value;
use uuid::Uuid;

use super::prompt::KnownMemories;
use base::text;

/// So many items of a kind are taken from one answer.
const MOST: usize = 100;
/// Of one text, in bytes.
const MAX_TEXT: usize = 2000;
const MAX_TAGS: usize = 20;
const PERMANENCES: [&str; 5] = ["permanent", "stable", "standard", "volatile", "ephemeral"];

/// A fact that episodes tell of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NewFact {
    pub subject: String,
    pub predicate: String,
    pub content: String,
    pub permanence: String,
    pub importance: f64,
    pub tags: Vec<String>,
    pub entity_id: Option<Uuid>,
    pub object_entity_id: Option<Uuid>,
    pub valid_at: Option<Timestamp>,
    pub evidence: Vec<Uuid>,
}

/// A known fact that has become another.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Update {
    pub target: Uuid,
    pub content: String,
    pub permanence: Option<String>,
    pub evidence: Vec<Uuid>,
}

/// A way in which something is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NewRule {
    pub content: String,
    pub tags: Vec<String>,
    pub evidence: Vec<Uuid>,
}

/// What is to be written down, and why the rest is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Learned {
    pub facts: Vec<NewFact>,
    pub updates: Vec<Update>,
    pub rules: Vec<NewRule>,
    pub confirmations: Vec<Uuid>,
    pub skipped: Skipped,
}

/// How many items were left out, by reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Skipped(BTreeMap<String, usize>);

impl Skipped {
    pub fn add(&mut self, why: &str) {
        *self.0.entry(why.to_owned()).or_default() += 1;
    }

    pub fn take_in(&mut self, other: Skipped) {
        for (why, n) in other.0 {
            *self.0.entry(why).or_default() += n;
        }
    }

    /// `3 left out (2 without evidence, 1 …)`; `None`: nothing was.
    pub fn told(&self) -> Option<String> {
        let all: usize = self.0.values().sum();
        let each: Vec<String> = self.0.iter().map(|(why, n)| format!("{n} {why}")).collect();
        (all > 0).then(|| format!("{all} left out ({})", each.join(", ")))
    }
}

/// To what an answer may refer.
pub(super) struct AnswerScope<'a> {
    pub episodes: &'a HashSet<Uuid>,
    pub known: &'a KnownMemories,
    /// Whether rules may come of it.
    pub rules: bool,
}

/// The answer, as far as it holds. The error says why nothing of it can be used.
pub(super) fn read(answer: &str, asked: &AnswerScope<'_>) -> Result<Learned, String> {
    let value = json_in(answer)?;
    let Value::Object(all) = value else { return Err("the model's answer is JSON, but no object".to_owned()) };
    let lists = ["new_facts", "updated_facts", "new_rules", "confirmations"];
    if !all.is_empty() && !lists.iter().any(|list| all.contains_key(*list)) {
        return Err("the model's answer is a JSON object with none of the lists that were asked for".to_owned());
    }
    let mut learned = Learned::default();
    let mut skipped = Skipped::default();
    let items = |list: &str, skipped: &mut Skipped| -> Vec<Value> {
        let found = match all.get(list) {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items.clone(),
            Some(_) => {
                skipped.add("in no list");
                return Vec::new();
            }
        };
        for _ in MOST..found.len() {
            skipped.add("too many");
        }
        found.into_iter().take(MOST).collect()
    };
    for item in items("new_facts", &mut skipped) {
        match new_fact(&item, asked, &mut skipped) {
            Ok(fact) => learned.facts.push(fact),
            Err(why) => skipped.add(why),
        }
    }
    for item in items("updated_facts", &mut skipped) {
        match update(&item, asked) {
            Ok(update) => learned.updates.push(update),
            Err(why) => skipped.add(why),
        }
    }
    for item in items("new_rules", &mut skipped) {
        match new_rule(&item, asked) {
            Ok(rule) => learned.rules.push(rule),
            Err(why) => skipped.add(why),
        }
    }
    for item in items("confirmations", &mut skipped) {
        let id = item.as_str().and_then(|id| Uuid::parse_str(id.trim()).ok());
        let known =
            id.filter(|id| asked.known.fact(*id).is_some() || asked.known.rules.iter().any(|(rule, _)| rule == id));
        match known {
            Some(id) if learned.confirmations.contains(&id) => {}
            Some(id) => learned.confirmations.push(id),
            None => skipped.add("about a memory that was not shown"),
        }
    }
    learned.skipped = skipped;
    Ok(learned)
}

/// The first block marked as JSON, else what stands between the outermost braces.
pub(super) fn json_in(answer: &str) -> Result<Value, String> {
    const OPEN: &str = "```json";
    let block = answer.find(OPEN).map(|at| &answer[at + OPEN.len()..]);
    let block = block.map(|rest| rest.find("\n```").map_or(rest, |end| &rest[..end]));
    let braces = |text: &str| Some((text.find('{')?, text.rfind('}')?)).filter(|(a, b)| a < b);
    let candidates = block.into_iter().chain([answer]);
    let mut why = "the model's answer holds no JSON object".to_owned();
    for text in candidates {
        let Some((from, to)) = braces(text) else { continue };
        match serde_json::from_str(&text[from..=to]) {
            Ok(value) => return Ok(value),
            Err(e) => why = format!("the model's answer is not valid JSON: {e}"),
        }
    }
    Err(why)
}

type Left<T> = Result<T, &'static str>;

fn words(item: &Value, key: &str) -> Left<String> {
    let text = item.get(key).and_then(Value::as_str).map(|t| text::clean(t).trim().to_owned());
    let text = text.filter(|t| !t.is_empty()).ok_or("with a text missing")?;
    if text.len() > MAX_TEXT { Err("too long") } else { Ok(text) }
}

fn evidence(item: &Value, asked: &AnswerScope<'_>) -> Left<Vec<Uuid>> {
    const NONE: &str = "without evidence";
    let ids = item.get("evidence_episode_ids").and_then(Value::as_array).filter(|ids| !ids.is_empty()).ok_or(NONE)?;
    let mut evidence = Vec::new();
    for id in ids {
        let id = id.as_str().and_then(|id| Uuid::parse_str(id.trim()).ok()).ok_or(NONE)?;
        if !asked.episodes.contains(&id) {
            return Err("with evidence from elsewhere");
        }
        if !evidence.contains(&id) {
            evidence.push(id);
        }
    }
    Ok(evidence)
}

fn tags(item: &Value) -> Vec<String> {
    let all = item.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    all.map(|t| text::clean(t).trim().to_lowercase())
        .filter(|t| !t.is_empty() && t.len() <= 60)
        .take(MAX_TAGS)
        .collect()
}

fn permanence(item: &Value) -> Option<String> {
    let named = item.get("permanence").and_then(Value::as_str).map(|p| p.trim().to_ascii_lowercase());
    named.filter(|p| PERMANENCES.contains(&p.as_str()))
}

fn moment(text: &str) -> Option<Timestamp> {
    let day = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok().map(|day| day.timestamp());
    text.parse::<Timestamp>().ok().or_else(day)
}

fn new_fact(item: &Value, asked: &AnswerScope<'_>, skipped: &mut Skipped) -> Left<NewFact> {
    let evidence = evidence(item, asked)?;
    // Of an entity that the model made up nothing is left but the fact's own words.
    let mut entity = |key: &str| {
        let given = item.get(key).and_then(Value::as_str)?;
        let shown = asked.known.facts.iter().flat_map(|f| [f.entity_id, f.object_entity_id]).flatten();
        let id = Uuid::parse_str(given.trim()).ok().filter(|id| shown.into_iter().any(|known| known == *id));
        if id.is_none() {
            skipped.add("names of entities that were not shown");
        }
        id
    };
    let (entity_id, object_entity_id) = (entity("entity_id"), entity("object_entity_id"));
    let valid_at = match item.get("valid_at") {
        None | Some(Value::Null) => None,
        Some(at) => Some(at.as_str().and_then(moment).ok_or("with a time that can't be read")?),
    };
    let importance = item.get("importance").and_then(Value::as_f64).unwrap_or(5.0).clamp(1.0, 10.0);
    Ok(NewFact {
        subject: words(item, "subject")?,
        predicate: words(item, "predicate")?,
        content: words(item, "content")?,
        permanence: permanence(item).unwrap_or_else(|| "standard".to_owned()),
        importance,
        tags: tags(item),
        entity_id,
        object_entity_id,
        valid_at,
        evidence,
    })
}

fn update(item: &Value, asked: &AnswerScope<'_>) -> Left<Update> {
    let evidence = evidence(item, asked)?;
    let target = item.get("target_id").and_then(Value::as_str).and_then(|id| Uuid::parse_str(id.trim()).ok());
    let target = target.filter(|id| asked.known.fact(*id).is_some());
    let target = target.ok_or("about a memory that was not shown")?;
    Ok(Update { target, content: words(item, "content")?, permanence: permanence(item), evidence })
}

fn new_rule(item: &Value, asked: &AnswerScope<'_>) -> Left<NewRule> {
    if !asked.rules {
        return Err("a rule out of others' words");
    }
    Ok(NewRule { content: words(item, "content")?, tags: tags(item), evidence: evidence(item, asked)? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use memory::sql::known::KnownFact;

    use super::*;

    fn known(id: Uuid, entity: Uuid) -> KnownMemories {
        let fact = KnownFact {
            id,
            subject: "Ada".into(),
            predicate: "works_at".into(),
            content: "Ada works at the mill".into(),
            entity_id: Some(entity),
            object_entity_id: None,
            kind: "property".into(),
            permanence: "stable".into(),
            importance: 5.0,
            scope: "global".into(),
            tags: Vec::new(),
            retention_class: "operational".into(),
            sensitivity: "normal".into(),
        };
        KnownMemories { facts: vec![fact], ..KnownMemories::default() }
    }

    #[test]
    fn json_is_found_in_all_its_wrappings() {
        for (answer, there) in [
            ("Sure.\n```json\n{\"confirmations\": []}\n```\nDone {really}.", true),
            ("```\n{\"confirmations\": []}\n```", true),
            ("{\"confirmations\": []}", true),
            ("Here: {\"confirmations\": []} as asked", true),
            ("```json\n{\"confirmations\": [}\n```", false),
            ("I would rather not.", false),
            ("[1, 2]", false),
        ] {
            assert_eq!(json_in(answer).is_ok(), there, "{answer}");
        }
        let (episodes, known) = (HashSet::new(), KnownMemories::default());
        let asked = AnswerScope { episodes: &episodes, known: &known, rules: true };
        assert!(read("{\"thoughts\": \"none\"}", &asked).is_err(), "not what was asked for");
        assert_eq!(read("{}", &asked), Ok(Learned::default()));
    }

    #[test]
    fn what_has_no_evidence_or_no_right_form_is_left_out_and_counted() {
        let (one, other, fact, entity) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
        let (episodes, known) = (HashSet::from([one]), known(fact, entity));
        let asked = AnswerScope { episodes: &episodes, known: &known, rules: true };
        let item = |evidence: Value| {
            json!({"subject": "Ada", "predicate": "likes", "content": "Ada likes tea",
            "permanence": "for ever", "importance": 99, "tags": ["Drink", 3], "entity_id": entity,
            "valid_at": "2026-05-01", "evidence_episode_ids": evidence})
        };
        let answer = json!({
            "new_facts": [item(json!([one, one])), item(json!([])), item(json!([one, other])), item(json!("x")), "tea",
                {"subject": " ", "predicate": "p", "content": "c", "evidence_episode_ids": [one]}],
            "updated_facts": [{"target_id": fact, "content": "Ada works at the bank", "evidence_episode_ids": [one]},
                {"target_id": other, "content": "x", "evidence_episode_ids": [one]}],
            "new_rules": [{"content": "Call Ada first", "evidence_episode_ids": [one]}],
            "confirmations": [fact, fact, other, 7]});
        let learned = read(&answer.to_string(), &asked).expect("it is read");
        assert_eq!(learned.facts.len(), 1);
        let first = &learned.facts[0];
        assert_eq!((first.permanence.as_str(), first.importance, &first.evidence), ("standard", 10.0, &vec![one]));
        assert_eq!((first.entity_id, first.tags.as_slice()), (Some(entity), ["drink".to_owned()].as_slice()));
        assert_eq!(first.valid_at, Some("2026-05-01T00:00:00Z".parse().expect("a moment")));
        assert_eq!((learned.updates.len(), learned.rules.len()), (1, 1));
        assert_eq!(learned.confirmations, [fact]);
        let told = learned.skipped.told().expect("some were left out");
        assert!(told.starts_with("8 left out (") && told.contains("3 without evidence"), "{told}");
        assert!(told.contains("1 with evidence from elsewhere") && told.contains("3 about a memory"), "{told}");
        let asked = AnswerScope { rules: false, ..asked };
        let learned = read(&answer.to_string(), &asked).expect("it is read");
        assert!(learned.rules.is_empty() && learned.facts.len() == 1);
    }
}
