//! `butlerd memory`: what butlers know, for their owner to see, question and correct.

mod args;
mod butlers;
mod print;
mod story;
mod travel;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use args::{Add, Kind};
pub use args::{Memory, MemoryArgs};
use butlers::{MemoryButlers, Which};

use super::out::Out;
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome};

pub async fn run(caller: Caller, MemoryArgs { butler, what }: MemoryArgs) -> Outcome {
    let butlers = MemoryButlers::find(caller, butler).await?;
    match what {
        Memory::Search { words, limit, types } => butlers.search(&words.join(" "), limit as usize, &types).await,
        Memory::Show { id } => {
            let (of, Which { memory_type, id }) = butlers.memory(&id).await?;
            let shown: Value = of.call("memory_get", json!({"memory_type": memory_type, "memory_id": id})).await?;
            if shown.is_null() {
                let message = format!("The {memory_type} {id} was forgotten.");
                let next = format!("See what was done to it: butlerd memory history {id}");
                return Err(Problem::new(FAILED, "forgotten", message, next));
            }
            of.print(&json!({"memory_type": memory_type, "memory": shown}), print::shown)
        }
        Memory::Why { id } => {
            let (of, which) = butlers.memory(&id).await?;
            of.tell("memory_why", json!({ "memory_id": which.id }), story::why).await
        }
        Memory::Add(add) => butlers.one()?.add(add).await,
        Memory::Edit(edit) => {
            let (of, which) = butlers.memory(&edit.id).await?;
            of.tell("memory_edit", with(which, &edit), print::changed).await
        }
        Memory::Forget { id, purge, reason } => {
            let (of, which) = butlers.memory(&id).await?;
            match purge {
                true => of.tell("memory_purge", with(which, &()), print::purged).await,
                false => of.tell("memory_forget", with(which, &json!({ "reason": reason })), print::forgotten).await,
            }
        }
        Memory::Undo { event, reason } => {
            let (of, event) = butlers.named(&event, "event").await?;
            of.tell("memory_undo", json!({"event": event.id, "reason": reason}), print::undone).await
        }
        Memory::History { id: Some(id), limit, before } => {
            let (of, which) = butlers.memory(&id).await?;
            of.history(json!({"limit": limit, "memory_id": which.id, "before": before})).await
        }
        // Events are numbered by their butler.
        Memory::History { id: None, limit, before: before @ Some(_) } => {
            butlers.one()?.history(json!({"limit": limit, "before": before})).await
        }
        Memory::History { id: None, limit, before: None } => butlers.history(limit as usize).await,
        Memory::Export { file } => travel::export(&butlers.one()?, file.as_deref()).await,
        Memory::Import { file } => travel::import(&butlers.one()?, &file).await,
        Memory::Retry { id: Some(id) } => {
            let (of, which) = butlers.memory(&id).await?;
            of.tell("memory_retry", json!({ "memory_id": which.id }), print::retried).await
        }
        Memory::Retry { id: None } => butlers.retry().await,
        Memory::Stats => butlers.stats().await,
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
struct RememberingButler<'a> {
    caller: &'a Caller,
    butler: &'a str,
}

impl RememberingButler<'_> {
    /// Calls a tool of memory. What it refuses is the command's end.
    async fn call<T: DeserializeOwned>(&self, tool: &str, args: Value) -> Result<T, Problem> {
        self.caller.tool(self.butler, tool, args).await
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

    /// Prints what was done to memories, with the number that names the next page.
    async fn history(&self, args: Value) -> Outcome {
        let mut answer: Value = self.call("memory_history", args).await?;
        let (Value::Array(events), next) = (answer["events"].take(), answer["next_before"].take()) else {
            return Err(Problem::foreign(&"its history is no list"));
        };
        butlers::tell_history(&self.caller.out, &events, next, &[])
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
