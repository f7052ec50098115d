//! What each of the council's models is asked. What others wrote goes into the context, which its model is shown fenced
//! as data; the prompt holds the question and the program's own words.

use serde_json::{Map, Value, json};

use crate::anonymous::{Labelled, Names, unsigned};
use crate::ranking::{Place, without_marker};

/// What a member is told of its part.
pub const MEMBER: &str = include_str!("member.md");
/// A judge.
pub const JUDGE: &str = include_str!("judge.md");
/// The chairman.
pub const CHAIRMAN: &str = include_str!("chairman.md");
/// Whoever answers alone.
pub const DIRECT: &str = include_str!("direct.md");
/// Whoever decides whether one is enough.
pub const ROUTER: &str = include_str!("router.md");
/// Whoever decides whether memory is enough.
pub const CONFIDENCE: &str = include_str!("confidence.md");
/// Whoever names the question.
pub const TITLE: &str = include_str!("title.md");

/// A prompt, and the data that goes with it.
#[derive(Clone, PartialEq, Debug)]
pub struct Ask {
    pub prompt: String,
    pub context: Option<Value>,
}

/// What the question comes with.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub text: &'a str,
    /// What came with it: an object, with what was said before in the conversation among others.
    pub came_with: Option<&'a Value>,
    /// What the house remembers about it, fenced.
    pub remembered: Option<&'a str>,
}

impl Question<'_> {
    fn context(&self) -> Map<String, Value> {
        let mut context = self.came_with.and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(remembered) = self.remembered {
            context.insert("remembered".to_owned(), json!(remembered));
        }
        context
    }

    /// The question as it is, to a member, or to whoever answers alone.
    pub fn ask(&self) -> Ask {
        let context = self.context();
        Ask { prompt: self.text.to_owned(), context: (!context.is_empty()).then_some(Value::Object(context)) }
    }

    /// The question to whoever decides about it.
    pub fn ask_about(&self) -> Ask {
        Ask { prompt: format!("The question:\n\n{}", self.text), context: self.came_with.cloned() }
    }
}

/// An answer and a judgement that stand under letters.
fn label_of(labels: &[Labelled], member: usize) -> Option<String> {
    labels.iter().find(|labelled| labelled.member == member).map(|labelled| format!("Response {}", labelled.label))
}

/// What a judge said and how the round ended, for the next one. A judge's letters stay the same over all rounds.
#[derive(Clone, Debug)]
pub struct Earlier<'a> {
    /// The joined ranking.
    pub places: &'a [Place],
    /// This judge's own words.
    pub said: &'a str,
}

/// Asks a judge to rank the answers that stand under its letters. No word of it depends on who wrote an answer.
pub fn judge(
    question: Question<'_>,
    answers: &[Option<String>],
    labels: &[Labelled],
    names: &Names,
    earlier: Option<&Earlier<'_>>,
) -> Ask {
    let mut shown = Map::new();
    for Labelled { label, member } in labels {
        let answer = answers.get(*member).and_then(Option::as_deref).unwrap_or_default();
        shown.insert(format!("Response {label}"), json!(without_marker(&names.without(answer))));
    }
    let mut came_with = question.came_with.cloned().unwrap_or_else(|| json!({}));
    without_names(&mut came_with, names);
    let mut context = json!({"answers": shown, "came_with": came_with});
    let mut prompt = format!("The question:\n\n{}\n\nJudge the answers in the context.", question.text);
    if let Some(earlier) = earlier {
        context["your_earlier_judgement"] = json!(names.without(earlier.said));
        let order: Vec<String> = earlier.places.iter().filter_map(|place| label_of(labels, place.member)).collect();
        context["joint_ranking_so_far"] = json!(order);
        prompt.push_str(
            " The judges do not agree yet. Weigh the joint ranking so far against your own earlier judgement; change what \
             you were wrong about, and nothing else.",
        );
    }
    Ask { prompt, context: Some(context) }
}

fn without_names(value: &mut Value, names: &Names) {
    match value {
        Value::String(text) => *text = names.without(text),
        Value::Array(items) => items.iter_mut().for_each(|item| without_names(item, names)),
        Value::Object(fields) => fields.values_mut().for_each(|item| without_names(item, names)),
        _ => {}
    }
}

/// The text with the letters of now in the place of those of then.
fn relabelled(text: &str, then: &[Labelled], now: &[Labelled]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("Response ") {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        let after = &found["Response ".len()..];
        let label = after.chars().next();
        let ends = !after.chars().nth(1).is_some_and(char::is_alphanumeric);
        let member = then.iter().find(|labelled| Some(labelled.label) == label && ends).map(|labelled| labelled.member);
        match member.and_then(|member| label_of(now, member)) {
            Some(label) => {
                out.push_str(&label);
                rest = &after[1..];
            }
            None => {
                out.push_str("Response ");
                rest = after;
            }
        }
    }
    out + rest
}

/// What the chairman is given besides the answers.
#[derive(Clone, Debug)]
pub struct Judged<'a> {
    /// The letters of its own: neither does it know who wrote what.
    pub labels: &'a [Labelled],
    pub places: &'a [Place],
    /// What each judge said last, with the letters that it had.
    pub said: &'a [(String, Vec<Labelled>)],
}

/// Asks the chairman for the council's answer. It sees letters, and nobody's signature; what is said of models stays.
pub fn chairman(question: Question<'_>, answers: &[Option<String>], judged: &Judged<'_>) -> Ask {
    let mut context = question.context();
    let mut shown = Map::new();
    for Labelled { label, member } in judged.labels {
        let answer = answers.get(*member).and_then(Option::as_deref).unwrap_or_default();
        shown.insert(format!("Response {label}"), json!(without_marker(&unsigned(answer))));
    }
    let order: Vec<String> = judged.places.iter().filter_map(|place| label_of(judged.labels, place.member)).collect();
    let said: Vec<String> =
        judged.said.iter().map(|(said, then)| relabelled(&unsigned(said), then, judged.labels)).collect();
    context.insert("answers".to_owned(), Value::Object(shown));
    if !said.is_empty() {
        context.insert("ranking".to_owned(), json!(order));
        context.insert("judgements".to_owned(), json!(said));
    }
    let prompt = format!("The question:\n\n{}\n\nWrite the answer out of what is in the context.", question.text);
    Ask { prompt, context: Some(Value::Object(context)) }
}

/// Whether a router's word calls for one answer alone. All but a clear word calls for the council.
pub fn is_direct(said: &str) -> bool {
    let word = said.trim().trim_matches(|c: char| !c.is_alphanumeric());
    word.eq_ignore_ascii_case("direct")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anonymous::labels_for;

    const QUESTION: Question<'_> = Question { text: "Tea or coffee?", came_with: None, remembered: None };

    #[test]
    fn a_judge_sees_the_others_answers_and_nobodys_name() {
        let names = Names::of(["grok-4", "gpt-5"], QUESTION.text).unwrap();
        let answers = [Some("As Grok, I say tea.".to_owned()), Some("Coffee. — gpt-5".to_owned()), None];
        let labels = labels_for(1, 0, &[0, 1]);
        let history = json!({"conversation_before": [{"from": "assistant", "text": "gpt-5 here"}]});
        let ask = judge(Question { came_with: Some(&history), ..QUESTION }, &answers, &labels, &names, None);
        let shown = ask.context.unwrap().to_string();
        assert!(shown.contains("Coffee.") && !shown.contains("tea") && !shown.contains("gpt"), "{shown}");
    }

    #[test]
    fn the_chairman_sees_no_signature_of_whoever_answered_or_judged() {
        let answers = [Some("As Grok, I say tea.".to_owned()), Some("Coffee.\n— GPT-5".to_owned())];
        let labels = labels_for(1, 9, &[0, 1]);
        let said = [("I am Grok, and Response A is fine.\nFINAL RANKING:\n1. Response A".to_owned(), labels.clone())];
        let judged = Judged { labels: &labels, places: &[], said: &said };
        let shown = chairman(QUESTION, &answers, &judged).context.unwrap().to_string().to_lowercase();
        assert!(shown.contains("tea") && shown.contains("coffee") && shown.contains("is fine"), "{shown}");
        for name in ["grok", "gpt"] {
            assert!(!shown.contains(name), "{name} in {shown}");
        }
    }

    #[test]
    fn letters_of_an_earlier_round_become_those_of_now() {
        let then = [Labelled { label: 'A', member: 1 }, Labelled { label: 'B', member: 2 }];
        let now = [Labelled { label: 'A', member: 2 }, Labelled { label: 'B', member: 1 }];
        let said = "Response A is good, Response B is bad. Response Z? Response As.";
        assert_eq!(relabelled(said, &then, &now), "Response B is good, Response A is bad. Response Z? Response As.");
    }

    #[test]
    fn only_a_clear_word_is_direct() {
        for (said, direct) in [
            ("direct", true),
            (" Direct.\n", true),
            ("`direct`", true),
            ("deliberate", false),
            ("direct or deliberate", false),
            ("", false),
            ("{\"type\": \"direct\"}", false),
        ] {
            assert_eq!(is_direct(said), direct, "{said}");
        }
    }
}
