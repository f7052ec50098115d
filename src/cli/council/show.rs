//! `butlerd council list` and `show`.

use admin::api::WorkApiClient;
use offline::setup::COUNCIL;
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::caller::Caller;
use crate::common::Id;
use crate::out::{Out, Tone};
use crate::problem::{FAILED, Problem};
use crate::text::{block, one_line};

async fn ask(caller: &Caller, tool: &str, args: Value) -> Result<Value, Problem> {
    let args: Map<String, Value> = args.as_object().cloned().unwrap_or_default();
    let answer = caller.patient()?.tool_call(COUNCIL.to_owned(), tool.to_owned(), Some(args)).await;
    let answer = caller.got(answer)?;
    match answer.is_error || answer.result["status"] == "error" {
        true => {
            let why = answer.result["error"].as_str().unwrap_or("it failed").to_owned();
            Err(Problem::new(FAILED, "council", why, "butlerd council init"))
        }
        false => Ok(answer.result),
    }
}

/// The newest questions.
pub async fn list(caller: Caller, most: u32) -> Outcome {
    let listed = ask(&caller, "council_questions", json!({"limit": most})).await?;
    caller.out.answer(&listed, |out, listed| {
        let questions = listed["questions"].as_array().cloned().unwrap_or_default();
        let text = |question: &Value, key: &str| question[key].as_str().unwrap_or_default().to_owned();
        out.table(&questions)
            .column("ID", |q| text(q, "id"))
            .column("ASKED", |q| text(q, "asked_at"))
            .column("BY", |q| {
                q["way"].as_str().unwrap_or(if q["failure"].is_null() { "…" } else { "failed" }).to_owned()
            })
            .column("QUESTION", |q| one_line(&text(q, "question"), 80))
            .print("The council was asked nothing yet. Ask it: butlerd council ask \"…\"");
        let count = |key: &str| listed[key].as_i64().unwrap_or(0);
        if count("episodes_waiting") + count("episodes_refused") > 0 {
            out.line(&format!(
                "{} wait for the knowledge graph, which has refused {}.",
                crate::text::count(usize::try_from(count("episodes_waiting")).unwrap_or(0), "episode"),
                count("episodes_refused")
            ));
        }
    })
}

/// One question with its stages, each by name.
pub async fn one(caller: Caller, id: Id) -> Outcome {
    let shown = ask(&caller, "council_question", json!({"id": id.to_string()})).await?;
    if shown.is_null() {
        let see = "See: butlerd council list";
        return Err(Problem::new(FAILED, "not_found", format!("The council was asked no question {id}."), see));
    }
    caller.out.answer(&shown, print)
}

fn print(out: &Out, shown: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let head = |words: &str| out.line(&format!("\n{}", out.paint(Tone::Head, words)));
    out.line(&block(&text(&shown["question"])));
    for step in shown["steps"].as_array().into_iter().flatten() {
        let round =
            step["round"].as_i64().filter(|round| *round > 0).map(|n| format!(", round {n}")).unwrap_or_default();
        let (stage, member, model) = (text(&step["stage"]), text(&step["member"]), text(&step["model"]));
        head(&format!("{stage}{round}: {} ({})", one_line(&member, 60), one_line(&model, 60)));
        match step["failure"].as_str() {
            Some(why) => out.line(&format!("left out: {}", one_line(why, 400))),
            None => out.line(&block(&text(&step["said"]))),
        }
        if let Some(letters) = step["letters"].as_object() {
            let who: Vec<String> = letters
                .iter()
                .map(|(letter, member)| format!("{letter} was {}", one_line(&text(member), 60)))
                .collect();
            out.line(&out.paint(Tone::Faint, &who.join(", ")));
        }
    }
    if let Some(ranking) = shown["ranking"].as_array() {
        head("ranking");
        for place in ranking {
            let mean = place["mean"].as_f64().map_or_else(|| "not ranked".to_owned(), |mean| format!("{mean:.2}"));
            out.line(&format!("{mean}  {}", one_line(&text(&place["member"]), 60)));
        }
    }
    if let Some(confidence) = shown["confidence"].as_object() {
        head("memory");
        let best = confidence["candidates"].get(0).and_then(|best| best["confidence"].as_f64());
        out.line(&match (best, confidence["why"].as_str()) {
            (Some(best), _) => format!("confidence {best:.2}, threshold {}", confidence["threshold"]),
            (None, Some(why)) => format!("not weighed: {}", one_line(why, 400)),
            (None, None) => "no memory answered the question".to_owned(),
        });
    }
    match (shown["answer"].as_str(), shown["failure"].as_str()) {
        (Some(answer), _) => {
            head(&format!("answer, by {}", text(&shown["way"])));
            out.line(&block(answer));
        }
        (None, Some(why)) => {
            head("no answer");
            out.line(&block(why));
        }
        (None, None) => out.line("\nIt has no answer yet."),
    }
}
