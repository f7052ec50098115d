//! All butlers that remember: what is asked of them together, and which of them has a memory.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::common::ambiguous;
use super::super::out::{List, Out, Tone};
use super::super::problem::{FAILED, Problem};
use super::super::{Caller, Outcome};
use super::args::Kind;
use super::{RememberingButler, print, story};
use admin::Unavailable;
use admin::api::{HouseApiClient, WorkApiClient};

/// The butlers that remember, or the one of them that was named.
pub struct MemoryButlers {
    caller: Caller,
    butlers: Vec<String>,
}

/// Names a memory, or an event.
#[derive(Deserialize)]
pub struct Which {
    pub memory_type: String,
    pub id: String,
}

/// What `memory_named` answers.
#[derive(Deserialize)]
struct Named {
    found: Vec<Which>,
}

impl MemoryButlers {
    pub async fn find(caller: Caller, named: Option<String>) -> Result<Self, Problem> {
        if let Some(named) = named {
            return Ok(Self { caller, butlers: vec![named] });
        }
        let calls = caller.quick()?;
        let status = caller.got(calls.status().await)?;
        let mut butlers = Vec::new();
        for butler in status.butlers.into_iter().filter(|b| b.modules.contains_key("memory")) {
            // One that has switched it off has no tools for it, and one that is down tells when it is asked.
            let tools = calls.tool_list(butler.name.clone()).await;
            if tools.is_ok_and(|tools| tools.iter().any(|tool| tool.name == "memory_search")) {
                butlers.push(butler.name);
            }
        }
        if butlers.is_empty() {
            let next = "Write [modules.memory] with enabled = true into a butler's butler.toml; `butlerd status` shows \
                        which butlers run.";
            return Err(Problem::new(FAILED, "no_memory", "No running butler has a memory.", next));
        }
        Ok(Self { caller, butlers })
    }

    fn of<'a>(&'a self, butler: &'a str) -> RememberingButler<'a> {
        RememberingButler { caller: &self.caller, butler }
    }

    /// The only one: for what can't be asked of several together.
    pub fn one(&self) -> Result<RememberingButler<'_>, Problem> {
        match self.butlers.as_slice() {
            [one] => Ok(self.of(one)),
            several => Err(Problem::usage(
                format!("Several butlers have a memory: {}.", several.join(", ")),
                format!("Name one: butlerd memory --butler {} …", several[0]),
            )),
        }
    }

    /// Asks each, and notes who did not answer. If nobody did, the first refusal is the command's end.
    async fn each(&self, tool: &str, args: &Value) -> Result<(Vec<(&str, Value)>, Vec<Unavailable>), Problem> {
        let (mut answers, mut refused, mut first) = (Vec::new(), Vec::new(), None);
        for butler in &self.butlers {
            match self.of(butler).call(tool, args.clone()).await {
                Ok(answer) => answers.push((butler.as_str(), answer)),
                Err(problem) => {
                    refused.push(Unavailable { butler: butler.clone(), reason: problem.message.clone() });
                    first.get_or_insert(problem);
                }
            }
        }
        match first {
            Some(problem) if answers.is_empty() => Err(problem),
            _ => Ok((answers, refused)),
        }
    }

    /// What has an id that begins so, a memory or an event, and whose it is.
    pub async fn named(&self, beginning: &str, of: &str) -> Result<(RememberingButler<'_>, Which), Problem> {
        let (answers, refused) = self.each("memory_named", &json!({ "beginning": beginning })).await?;
        let mut found = Vec::new();
        for (butler, answer) in answers {
            let named = Named::deserialize(answer).map_err(|e| Problem::foreign(&e))?.found;
            let fit = named.into_iter().filter(|which| (which.memory_type == "event") == (of == "event"));
            found.extend(fit.map(|which| (butler, which)));
        }
        match found.len() {
            1 => {
                let (butler, which) = found.remove(0);
                Ok((self.of(butler), which))
            }
            0 => {
                self.caller.out.left_out(&refused);
                let see = if of == "event" { "history" } else { "search" };
                let who = self.butlers.join(", ");
                let message = format!("There is no {of} whose id begins with {beginning} in the memory of {who}.");
                Err(Problem::new(FAILED, "not_found", message, format!("See: butlerd memory {see}")))
            }
            _ => {
                let ids: Vec<&str> = found.iter().map(|(_, which)| which.id.as_str()).collect();
                Err(ambiguous(&beginning, &ids))
            }
        }
    }

    pub async fn memory(&self, beginning: &str) -> Result<(RememberingButler<'_>, Which), Problem> {
        self.named(beginning, "memory").await
    }

    /// The best that all of them find; what is known to the whole house each of them finds.
    pub async fn search(&self, words: &str, limit: usize, kinds: &[Kind]) -> Outcome {
        let kinds = (!kinds.is_empty()).then_some(kinds);
        let (answers, refused) =
            self.each("memory_search", &json!({"query": words, "limit": limit, "types": kinds})).await?;
        let (mut hits, mut seen, mut by_words_alone) = (Vec::new(), BTreeSet::new(), false);
        for (butler, mut answer) in answers {
            by_words_alone |= answer["answered_by"] == "full_text";
            let Value::Array(found) = answer["results"].take() else { continue };
            for mut hit in found {
                hit["butler"] = hit.get("source_butler").filter(|b| b.is_string()).cloned().unwrap_or(json!(butler));
                if seen.insert(hit["id"].to_string()) {
                    hits.push(hit);
                }
            }
        }
        let score = |hit: &Value| hit["score"].as_f64().unwrap_or(0.0);
        hits.sort_by(|a, b| score(b).partial_cmp(&score(a)).unwrap_or(Ordering::Equal));
        hits.truncate(limit);
        let out = &self.caller.out;
        tell(out, &hits, Value::Null, &refused, print::found)?;
        if by_words_alone {
            out.aside("The index is being made; this is what the words alone find.");
        }
        Ok(0)
    }

    /// What was done to memories of all of them, the newest first.
    pub async fn history(&self, limit: usize) -> Outcome {
        if let Ok(one) = self.one() {
            return one.history(json!({ "limit": limit })).await;
        }
        let (answers, refused) = self.each("memory_history", &json!({ "limit": limit })).await?;
        let mut events = Vec::new();
        for (butler, mut answer) in answers {
            let Value::Array(found) = answer["events"].take() else { continue };
            events.extend(found.into_iter().map(|mut event| {
                event["butler"] = json!(butler);
                event
            }));
        }
        let at = |event: &Value| event["at"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
        events.sort_by_key(|event| std::cmp::Reverse(at(event)));
        events.truncate(limit);
        tell_history(&self.caller.out, &events, Value::Null, &refused)
    }

    /// Lets whatever was given up be tried again.
    pub async fn retry(&self) -> Outcome {
        if let Ok(one) = self.one() {
            return one.tell("memory_retry", json!({}), print::retried).await;
        }
        let (answers, refused) = self.each("memory_retry", &json!({})).await?;
        let (butlers, retried): (Vec<&str>, Vec<Value>) = answers.into_iter().unzip();
        tell(&self.caller.out, &retried, Value::Null, &refused, |out, all| {
            for (butler, retried) in butlers.iter().zip(all) {
                out.toned(Tone::Head, butler);
                print::retried(out, retried);
            }
        })
    }

    pub async fn stats(&self) -> Outcome {
        let (answers, refused) = self.each("memory_stats", &json!({})).await?;
        let stats: Vec<Value> = answers.into_iter().map(|(_, stats)| stats).collect();
        tell(&self.caller.out, &stats, Value::Null, &refused, |out, all: &[serde_json::Map<String, Value>]| {
            for (i, stats) in all.iter().enumerate() {
                if i > 0 {
                    out.line("");
                }
                print::stats(out, stats);
            }
        })
    }
}

pub fn tell_history(out: &Out, events: &[Value], next: Value, refused: &[Unavailable]) -> Outcome {
    tell(out, events, next.clone(), refused, story::history)?;
    if !next.is_null() {
        out.aside(&format!("For older ones: butlerd memory history --before {next}"));
    }
    Ok(0)
}

/// Prints a list of what tools answered: programs get all of it, people what `people` reads in it.
fn tell<T: serde::de::DeserializeOwned>(
    out: &Out,
    items: &[Value],
    next: Value,
    refused: &[Unavailable],
    people: impl FnOnce(&Out, &[T]),
) -> Outcome {
    if out.json {
        out.value(&List { items, next: Some(next).filter(|next| !next.is_null()), unavailable: refused });
        return Ok(0);
    }
    let read: Result<Vec<T>, _> = items.iter().map(T::deserialize).collect();
    people(out, &read.map_err(|e| Problem::foreign(&e))?);
    out.left_out(refused);
    Ok(0)
}
