//! `butlerd project status`: whether memory is at work here, also where the daemon can't say it.

use serde_json::{Value, json};

use super::super::Outcome;
use super::super::out::{Out, Tone};
use super::super::problem::Problem;
use super::client::ProjectClient;
use super::print;
use super::register;
use project::connection::candidates;
use project::init::{self, Registration};
use project::{hook, place::ProjectPlace};

pub fn show(client: &ProjectClient, out: &Out) -> Outcome {
    let sockets = candidates(client.sockets.data_dir());
    let registered = register::options(&client.sockets, Vec::new(), true)
        .map(|options| init::status(&client.place, &options))
        .unwrap_or_default();
    let missed = hook::missed();
    let missed = missed.map(|m| json!({"missed": m.missed, "last_missed": m.last_missed, "why": m.why}));
    let (daemon, problem) = match client.ask("status", json!({})) {
        Ok(answer) => (answer, None),
        Err(error) => (json!({"available": false, "project": client.place.identity.name}), Some(Problem::from(error))),
    };
    let exit = problem.as_ref().map_or(0, |problem| problem.exit);
    if out.json {
        let mut shown = if daemon.is_object() { daemon } else { json!({}) };
        shown["branch"] = json!(client.place.branch);
        shown["sockets"] = json!(sockets);
        shown["registrations"] = json!(registered);
        shown["missed_hooks"] = missed.unwrap_or_default();
        if let Some(problem) = problem {
            shown["error"] = json!(problem.message);
            shown["next"] = json!(problem.next);
        }
        out.value(&shown);
        return Ok(exit);
    }
    match &problem {
        None => people(out, &client.place, &daemon),
        Some(_) => {
            out.toned(Tone::Bad, "Project memory can't be reached.");
            out.fields().field("project", &client.place.identity.name).field("branch", &client.place.branch).print();
        }
    }
    let sockets: Vec<String> = sockets.iter().map(|path| path.display().to_string()).collect();
    out.section("socket, looked for in this order", &sockets.join("\n"));
    out.heading("registered with");
    registrations(out, &registered);
    out.heading("hooks that were missed");
    match &missed {
        Some(missed) => print::fields(out, missed),
        None => out.line("None"),
    }
    problem.map_or(Ok(0), Err)
}

fn people(out: &Out, place: &ProjectPlace, daemon: &Value) {
    out.fields()
        .field("project", daemon["project"].as_str().unwrap_or(&place.identity.name))
        .field("branch", &place.branch)
        .field("memories", daemon["count"].as_u64())
        .field("kept in", daemon["storage_path"].as_str())
        .field("memory", if daemon["available"] == true { (Tone::Good, "up") } else { (Tone::Bad, "down") })
        .print();
    if let Some(hooks) = daemon["hooks"].as_object().filter(|hooks| !hooks.is_empty()) {
        out.heading("hooks");
        print::fields(out, &Value::Object(hooks.clone()));
    }
}

fn registrations(out: &Out, all: &[Registration]) {
    let known: Vec<&Registration> = all.iter().filter(|r| r.server || r.hooks || r.instructions).collect();
    let mark = |yes: bool| if yes { (Tone::Good, "yes") } else { (Tone::Faint, "no") };
    out.table(&known)
        .column("ASSISTANT", |r| r.assistant.as_str())
        .column("SERVER", |r| mark(r.server))
        .column("HOOKS", |r| mark(r.hooks))
        .column("INSTRUCTIONS", |r| mark(r.instructions))
        .print("No assistant yet; to register: butlerd project init");
}
