//! `butlerd memory`: what a butler knows, for its owner to see, question and correct.

mod args;
mod print;
mod story;
mod travel;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use args::{Add, Kind};
pub use args::{Memory, MemoryArgs};

use super::out::Out;
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome};
use admin::api::{HouseApiClient, WorkApiClient};

pub async fn run(caller: Caller, MemoryArgs { butler, what }: MemoryArgs) -> Outcome {
    let house = RememberingButler { butler: the_one(&caller, butler).await?, caller };
    match what {
        Memory::Search { words, limit, types } => {
            let kinds = (!types.is_empty()).then_some(types);
            let args = json!({"query": words.join(" "), "limit": limit, "types": kinds});
            house.tell("memory_search", args, print::found).await
        }
        Memory::Show { id } => {
            let Which { memory_type, id } = house.memory(&id).await?;
            let shown: Value = house.call("memory_get", json!({"memory_type": memory_type, "memory_id": id})).await?;
            if shown.is_null() {
                let message = format!("The {memory_type} {id} was forgotten.");
                let next = format!("See what was done to it: butlerd memory history {id}");
                return Err(Problem::new(FAILED, "forgotten", message, next));
            }
            house.print(&json!({"memory_type": memory_type, "memory": shown}), print::shown)
        }
        Memory::Why { id } => {
            let id = house.memory(&id).await?.id;
            house.tell("memory_why", json!({ "memory_id": id }), story::why).await
        }
        Memory::Add(add) => house.add(add).await,
        Memory::Edit(edit) => {
            let which = house.memory(&edit.id).await?;
            house.tell("memory_edit", with(which, &edit), print::changed).await
        }
        Memory::Forget { id, purge, reason } => {
            let which = house.memory(&id).await?;
            match purge {
                true => house.tell("memory_purge", with(which, &()), print::purged).await,
                false => house.tell("memory_forget", with(which, &json!({ "reason": reason })), print::forgotten).await,
            }
        }
        Memory::Undo { event, reason } => {
            let event = house.named(&event, "event").await?.id;
            house.tell("memory_undo", json!({"event": event, "reason": reason}), print::undone).await
        }
        Memory::History { id, limit, before } => {
            let args = json!({"limit": limit, "memory_id": house.maybe(id).await?, "before": before});
            house.tell("memory_history", args, story::history).await
        }
        Memory::Export { file } => travel::export(&house, file.as_deref()).await,
        Memory::Import { file } => travel::import(&house, &file).await,
        Memory::Retry { id } => {
            house.tell("memory_retry", json!({ "memory_id": house.maybe(id).await? }), print::retried).await
        }
        Memory::Stats => house.tell("memory_stats", json!({}), print::stats).await,
    }
}

/// A tool's arguments for one memory, and what else is said of it.
fn with(which: Which, more: &impl Serialize) -> Value {
    let mut args = json!({"memory_type": which.memory_type, "memory_id": which.id});
    if let (Some(args), Ok(Value::Object(more))) = (args.as_object_mut(), serde_json::to_value(more)) {
        args.extend(more);
    }
    args
}

/// A butler that remembers, and the way to it.
struct RememberingButler {
    caller: Caller,
    butler: String,
}

/// Names a memory, or an event.
#[derive(Deserialize)]
struct Which {
    memory_type: String,
    id: String,
}

/// What `memory_named` answers.
#[derive(Deserialize)]
struct Named {
    found: Vec<Which>,
}

impl RememberingButler {
    /// Calls a tool of memory. What it refuses is the command's end.
    async fn call<T: DeserializeOwned>(&self, tool: &str, args: Value) -> Result<T, Problem> {
        self.caller.tool(&self.butler, tool, args).await
    }

    /// Calls a tool of memory and prints its answer.
    async fn tell<T: DeserializeOwned>(&self, tool: &str, args: Value, people: impl FnOnce(&Out, &T)) -> Outcome {
        self.print(&self.call(tool, args).await?, people)
    }

    /// Prints an answer: programs get all of it, people what `people` reads in it.
    fn print<T: DeserializeOwned>(&self, answer: &Value, people: impl FnOnce(&Out, &T)) -> Outcome {
        if self.caller.out.json {
            self.caller.out.value(answer);
            return Ok(0);
        }
        let read = T::deserialize(answer).map_err(|e| Problem::foreign(&e))?;
        people(&self.caller.out, &read);
        Ok(0)
    }

    /// What has an id that begins so: a memory, or an event.
    async fn named(&self, beginning: &str, of: &str) -> Result<Which, Problem> {
        let Named { mut found } = self.call("memory_named", json!({ "beginning": beginning })).await?;
        found.retain(|f| (f.memory_type == "event") == (of == "event"));
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => {
                let see = if of == "event" { "history" } else { "search" };
                let message = format!("{} has no {of} whose id begins with {beginning}.", self.butler);
                Err(Problem::new(FAILED, "not_found", message, format!("See: butlerd memory {see}")))
            }
            n => {
                let ids: Vec<&str> = found.iter().map(|f| f.id.as_str()).collect();
                let message = format!("{n} ids begin with {beginning}: {}.", ids.join(", "));
                Err(Problem::new(FAILED, "ambiguous", message, "Write more of the one you mean."))
            }
        }
    }

    async fn memory(&self, beginning: &str) -> Result<Which, Problem> {
        self.named(beginning, "memory").await
    }

    /// The id of a memory, if one is named.
    async fn maybe(&self, beginning: Option<String>) -> Result<Option<String>, Problem> {
        match beginning {
            Some(beginning) => Ok(Some(self.memory(&beginning).await?.id)),
            None => Ok(None),
        }
    }

    async fn add(&self, mut add: Add) -> Outcome {
        if add.content == "-" {
            add.content = std::io::read_to_string(std::io::stdin().lock()).map_err(|e| {
                Problem::usage(format!("Standard input can't be read: {e}."), "Write it as UTF-8 text.")
            })?;
        }
        let kind = add.kind.unwrap_or(Kind::Fact);
        if kind == Kind::Fact {
            add.subject.get_or_insert_with(|| "owner".to_owned());
            add.predicate.get_or_insert_with(|| "note".to_owned());
        } else {
            (add.subject, add.predicate) = (None, None);
        }
        let mut args = json!(add);
        if add.private {
            args["scope"] = json!(self.butler);
        }
        let mut done: Value = self.call(&format!("memory_store_{}", kind.as_str()), args).await?;
        done["memory_type"] = json!(kind.as_str());
        self.print(&done, print::added)
    }
}

/// The butler that is meant: the one that was named, or else the only one that remembers.
async fn the_one(caller: &Caller, named: Option<String>) -> Result<String, Problem> {
    if let Some(named) = named {
        return Ok(named);
    }
    let calls = caller.quick()?;
    let status = caller.got(calls.status().await)?;
    let mut with_memory = Vec::new();
    for butler in status.butlers.into_iter().filter(|b| b.modules.contains_key("memory")) {
        // One that has switched it off has no tools for it, and one that is down tells when it is asked.
        let tools = calls.tool_list(butler.name.clone()).await;
        if tools.is_ok_and(|tools| tools.iter().any(|tool| tool.name == "memory_search")) {
            with_memory.push(butler.name);
        }
    }
    match with_memory.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(Problem::new(
            FAILED,
            "no_memory",
            "No running butler has a memory.",
            "Write [modules.memory] with enabled = true into a butler's butler.toml; `butlerd status` shows which butlers run.",
        )),
        several => Err(Problem::usage(
            format!("Several butlers have a memory: {}.", several.join(", ")),
            format!("Name one: butlerd memory --butler {} …", several[0]),
        )),
    }
}
