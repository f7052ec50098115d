//! `butlerd memory`: what a butler knows, for its owner to see, question and correct.

mod args;
mod print;
mod travel;

use serde_json::{Map, Value, json};

pub use args::Memory;
use args::{Add, Edit, Kind};

use super::out::text;
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome, args::MemoryArgs};
use admin::ApiClient;

pub async fn run(caller: Caller, MemoryArgs { butler, what }: MemoryArgs) -> Outcome {
    let house = RememberingButler { butler: the_one(&caller, butler).await?, caller };
    let (out, zone) = (house.caller.out, house.caller.zone());
    let (answer, tell): (Value, fn(super::out::Out, &Value, &jiff::tz::TimeZone)) = match what {
        Memory::Search { words, limit, types } => {
            let mut args = json!({"query": words.join(" "), "limit": limit});
            if !types.is_empty() {
                args["types"] = json!(types.iter().map(|kind| kind.as_str()).collect::<Vec<_>>());
            }
            (house.call("memory_search", args).await?, print::found)
        }
        Memory::Show { id } => {
            let (kind, id) = house.memory(&id).await?;
            let shown = house.call("memory_get", json!({"memory_type": kind, "memory_id": id})).await?;
            if shown.is_null() {
                return Err(Problem::new(
                    FAILED,
                    "forgotten",
                    format!("The {kind} {id} was forgotten."),
                    format!("What was done to it: butlerd memory history {id}"),
                ));
            }
            (json!({"memory_type": kind, "memory": shown}), print::shown)
        }
        Memory::Why { id } => {
            let (_, id) = house.memory(&id).await?;
            (house.call("memory_why", json!({"memory_id": id})).await?, print::why)
        }
        Memory::Add(add) => (house.add(add).await?, print::added),
        Memory::Edit(edit) => (house.edit(edit).await?, print::changed),
        Memory::Forget { id, purge, reason } => {
            let (kind, id) = house.memory(&id).await?;
            let mut args = json!({"memory_type": kind, "memory_id": id});
            if purge {
                (house.call("memory_purge", args).await?, print::purged)
            } else {
                if let Some(reason) = reason {
                    args["reason"] = json!(reason);
                }
                (house.call("memory_forget", args).await?, print::forgotten)
            }
        }
        Memory::Undo { event, reason } => {
            let event = house.named(&event, "event").await?.1;
            let mut args = json!({"event": event});
            if let Some(reason) = reason {
                args["reason"] = json!(reason);
            }
            (house.call("memory_undo", args).await?, print::undone)
        }
        Memory::History { id, limit, before } => {
            let mut args = json!({"limit": limit});
            if let Some(id) = id {
                args["memory_id"] = json!(house.memory(&id).await?.1);
            }
            if let Some(before) = before {
                args["before"] = json!(before);
            }
            (house.call("memory_history", args).await?, print::history)
        }
        Memory::Export { file } => return travel::export(&house, file.as_deref()).await,
        Memory::Import { file } => return travel::import(&house, &file).await,
        Memory::Retry { id } => {
            let mut args = json!({});
            if let Some(id) = id {
                args["memory_id"] = json!(house.memory(&id).await?.1);
            }
            (house.call("memory_retry", args).await?, print::retried)
        }
        Memory::Stats => (house.call("memory_stats", json!({})).await?, print::stats),
    };
    match out.json {
        true => out.value(&answer),
        false => tell(out, &answer, &zone),
    }
    Ok(0)
}

/// A butler that remembers, and the way to it.
struct RememberingButler {
    caller: Caller,
    butler: String,
}

impl RememberingButler {
    /// Calls a tool of memory. What it refuses is the command's end.
    async fn call(&self, tool: &str, args: Value) -> Result<Value, Problem> {
        let args: Option<Map<String, Value>> = args.as_object().cloned();
        // A purge looks through the whole house.
        let calls = self.caller.client.patient()?;
        let answer = calls.tool_call(self.butler.clone(), tool.to_owned(), args).await.map_err(self.caller.failed())?;
        if answer.is_error || answer.result["status"] == "error" {
            let code = answer.result["code"].as_str().unwrap_or("failed");
            let said = answer.result["error"].as_str().map_or_else(|| answer.result.to_string(), str::to_owned);
            return Err(Problem::new(FAILED, code, said, ""));
        }
        Ok(answer.result)
    }

    /// The kind and the id of what has an id that begins so; of a memory, or of an event.
    async fn named(&self, beginning: &str, of: &str) -> Result<(String, String), Problem> {
        let found = self.call("memory_named", json!({"beginning": beginning})).await?;
        let all = found["found"].as_array().map(Vec::as_slice).unwrap_or_default();
        let fits: Vec<&Value> = all.iter().filter(|f| (text(f, "memory_type") == "event") == (of == "event")).collect();
        match fits.as_slice() {
            [one] => Ok((text(one, "memory_type").to_owned(), text(one, "id").to_owned())),
            [] => {
                let see = if of == "event" { "history" } else { "search" };
                let next = format!("See: butlerd memory {see}");
                Err(Problem::new(
                    FAILED,
                    "not_found",
                    format!("{} has no {of} whose id begins with {beginning}.", self.butler),
                    next,
                ))
            }
            several => {
                let ids: Vec<&str> = several.iter().map(|f| text(f, "id")).collect();
                let message = format!("{} ids begin with {beginning}: {}.", ids.len(), ids.join(", "));
                Err(Problem::new(FAILED, "ambiguous", message, "Write more of the one you mean."))
            }
        }
    }

    async fn memory(&self, beginning: &str) -> Result<(String, String), Problem> {
        self.named(beginning, "memory").await
    }

    async fn add(&self, add: Add) -> Result<Value, Problem> {
        let content = match add.text.as_str() {
            "-" => std::io::read_to_string(std::io::stdin().lock())
                .map_err(|e| Problem::usage(format!("What to remember can't be read: {e}."), "It is text in UTF-8."))?,
            _ => add.text,
        };
        let mut args = json!({"content": content});
        let mut given = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                args[name] = value;
            }
        };
        given("scope", add.private.then(|| json!(self.butler)));
        given("tags", (!add.tags.is_empty()).then(|| json!(add.tags)));
        given("importance", add.importance.map(|n| json!(n)));
        given("permanence", add.permanence.map(|p| json!(p)));
        given("sensitivity", add.sensitivity.map(|s| json!(s)));
        let kind = add.kind.unwrap_or(Kind::Fact);
        let tool = match kind {
            Kind::Fact => {
                given("subject", Some(json!(add.subject.unwrap_or_else(|| "owner".to_owned()))));
                given("predicate", Some(json!(add.predicate.unwrap_or_else(|| "note".to_owned()))));
                "memory_store_fact"
            }
            Kind::Rule => "memory_store_rule",
            Kind::Episode => "memory_store_episode",
        };
        let mut done = self.call(tool, args).await?;
        done["memory_type"] = json!(kind.as_str());
        Ok(done)
    }

    async fn edit(&self, edit: Edit) -> Result<Value, Problem> {
        let (kind, id) = self.memory(&edit.id).await?;
        let mut args = json!({"memory_type": kind, "memory_id": id});
        let texts = [
            ("content", edit.content),
            ("subject", edit.subject),
            ("predicate", edit.predicate),
            ("permanence", edit.permanence),
            ("sensitivity", edit.sensitivity),
            ("valid_from", edit.valid_from),
            ("valid_to", edit.valid_to),
            ("reason", edit.reason),
        ];
        for (name, value) in texts.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            args[name] = json!(value);
        }
        for (name, value) in [("importance", edit.importance), ("confidence", edit.confidence)] {
            if let Some(value) = value {
                args[name] = json!(value);
            }
        }
        self.call("memory_edit", args).await
    }
}

/// The butler that is meant: the one that was named, or else the only one that remembers.
async fn the_one(caller: &Caller, named: Option<String>) -> Result<String, Problem> {
    if let Some(named) = named {
        return Ok(named);
    }
    let calls = caller.client.quick()?;
    let status = calls.status().await.map_err(caller.failed())?;
    let mut with = Vec::new();
    for butler in status.butlers.into_iter().filter(|b| b.modules.contains_key("memory")) {
        // One that has switched it off has no tools for it, and one that is down tells when it is asked.
        let tools = calls.tool_list(butler.name.clone()).await;
        if tools.is_ok_and(|tools| tools.iter().any(|tool| tool.name == "memory_search")) {
            with.push(butler.name);
        }
    }
    match with.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Problem::new(
            FAILED,
            "no_memory",
            "No butler that runs has a memory.",
            "Write [modules.memory] into a butler's butler.toml; `butlerd status` tells which butlers run.",
        )),
        several => Err(Problem::usage(
            format!("Several butlers have a memory: {}.", several.join(", ")),
            format!("Say whose you mean: butlerd memory --butler {} …", several[0]),
        )),
    }
}
