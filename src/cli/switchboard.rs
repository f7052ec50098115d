//! `butlerd rules` and `butlerd contacts`: the switchboard's own tools, for people.

use serde_json::{Map, Value, json};

use super::args::{Contacts, Rules};
use super::out::{Table, Tone, count, one_line};
use super::problem::{FAILED, Problem};
use super::{Caller, Outcome};
use admin::ApiClient;
use inbox::SWITCHBOARD;

impl Caller {
    /// Calls a tool of the switchboard; its refusal is the command's.
    async fn switchboard(&self, tool: &str, args: Value) -> Result<Value, Problem> {
        let args: Map<String, Value> = args
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let calls = self.client.patient()?;
        let answer =
            calls.tool_call(SWITCHBOARD.to_owned(), tool.to_owned(), Some(args)).await.map_err(self.failed())?;
        if answer.is_error || answer.result["status"] == "error" {
            let said = |field: &str| answer.result[field].as_str().unwrap_or_default().to_owned();
            return Err(Problem::new(FAILED, &said("code"), said("error"), ""));
        }
        Ok(answer.result)
    }
}

/// A field of an answer as a cell.
fn cell(value: &Value, field: &str) -> (Tone, String) {
    let text = match &value[field] {
        Value::String(text) => one_line(text, 60),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    (Tone::Plain, text)
}

pub async fn rules(caller: Caller, what: Rules) -> Outcome {
    let out = caller.out;
    match what {
        Rules::List => {
            let rules = caller.switchboard("triage_rule_list", json!({})).await?;
            if out.json {
                out.value(&rules);
                return Ok(0);
            }
            let list = rules.as_array().cloned().unwrap_or_default();
            if list.is_empty() {
                out.line("There is no rule. Add one with: butlerd rules add KIND PATTERN ACTION");
                return Ok(0);
            }
            let mut table = Table::new(&["RULE", "POSITION", "KIND", "PATTERN", "ACTION", "BUTLER", "STATE", "NOTE"]);
            for rule in &list {
                let state = if rule["enabled"] == true { (Tone::Good, "on") } else { (Tone::Faint, "off") };
                let mut cells: Vec<_> =
                    ["id", "position", "kind", "pattern", "action", "butler"].map(|field| cell(rule, field)).into();
                cells.push((state.0, state.1.to_owned()));
                cells.push(cell(rule, "note"));
                table.row(cells);
            }
            out.table(&table);
        }
        Rules::Add { rule, position, note } => {
            let mut args = json!(rule);
            args["position"] = json!(position);
            args["note"] = json!(note);
            let added = caller.switchboard("triage_rule_add", args).await?;
            match out.json {
                true => out.value(&added),
                false => out.line(&format!(
                    "Rule {} stands at position {}.",
                    added["id"].as_str().unwrap_or_default(),
                    added["position"]
                )),
            }
        }
        Rules::Test { id, kind, pattern, action, butler, last } => {
            let args = json!({"rule_id": id, "kind": kind, "pattern": pattern, "action": action, "butler": butler,
                              "last": last});
            tried(&caller, &caller.switchboard("triage_dry_run", args).await?);
        }
        Rules::Enable { id } => return switched(&caller, id, true).await,
        Rules::Disable { id } => return switched(&caller, id, false).await,
        Rules::Rm { id } => {
            let removed = caller.switchboard("triage_rule_remove", json!({"id": id})).await?;
            match out.json {
                true => out.value(&removed),
                false => out.line(&format!("Rule {id} is gone.")),
            }
        }
    }
    Ok(0)
}

async fn switched(caller: &Caller, id: uuid::Uuid, on: bool) -> Outcome {
    let rule = caller.switchboard("triage_rule_update", json!({"id": id, "enabled": on})).await?;
    match caller.out.json {
        true => caller.out.value(&rule),
        false => caller.out.line(&format!("Rule {id} is {}.", if on { "on" } else { "off" })),
    }
    Ok(0)
}

/// What a dry run found.
fn tried(caller: &Caller, found: &Value) {
    let out = caller.out;
    if out.json {
        return out.value(found);
    }
    let messages = found["messages"].as_array().cloned().unwrap_or_default();
    let looked = usize::try_from(found["looked_at"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    out.line(&format!("{} of {} would be decided.", messages.len(), count(looked, "message")));
    if messages.is_empty() {
        return;
    }
    let mut table = Table::new(&["REQUEST", "CHANNEL", "SENDER", "TEXT", "WOULD", "BUTLER", "WAS"]);
    for message in &messages {
        let fields = ["request_id", "channel", "sender", "text", "would", "butler", "was"];
        table.row(fields.map(|field| cell(message, field)).into());
    }
    out.table(&table);
}

pub async fn contacts(caller: Caller, what: Contacts) -> Outcome {
    let out = caller.out;
    match what {
        Contacts::List => {
            let list = caller.switchboard("contact_identity_list", json!({})).await?;
            let people = list.as_array().cloned().unwrap_or_default();
            if out.json {
                out.value(&list);
            } else if people.is_empty() {
                out.line("Nobody is known yet. Add somebody with: butlerd contacts add NAME CHANNEL IDENTITY");
            } else {
                let mut table = Table::new(&["NAME", "CHANNEL", "IDENTITY"]);
                for person in &people {
                    table.row(["name", "channel", "identity"].map(|field| cell(person, field)).into());
                }
                out.table(&table);
            }
        }
        Contacts::Add { name, channel, identity } => {
            let args = json!({"name": name, "channel": channel, "identity": identity});
            let added = caller.switchboard("contact_identity_add", args).await?;
            match out.json {
                true => out.value(&added),
                false => out.line(&format!("{name} is known on {channel} as {identity}.")),
            }
        }
        Contacts::Rm { channel, identity } => {
            let args = json!({"channel": channel, "identity": identity});
            let removed = caller.switchboard("contact_identity_remove", args).await?;
            match out.json {
                true => out.value(&removed),
                false => out.line(&format!("On {channel} {identity} is a stranger now.")),
            }
        }
    }
    Ok(0)
}
