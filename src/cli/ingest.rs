//! `butlerd ingest`

use std::io;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::lines::Lines;
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::reach::Reach;
use super::text::count;
use super::{Caller, Outcome};

/// Codes of refusals that are about one envelope and say nothing of the next.
const REFUSED_ALONE: [&str; 5] =
    ["invalid_envelope", "too_large", "foreign_channel", "not_authenticated", "sender_limit"];

/// What the daemon answers for an envelope.
#[derive(Deserialize, Serialize)]
struct Accepted {
    request_id: String,
    duplicate: bool,
    /// What else it says.
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// An accepted line, as programs read it.
#[derive(Serialize)]
struct Taken<'a> {
    line: usize,
    #[serde(flatten)]
    accepted: &'a Accepted,
}

/// What became of the lines so far.
#[derive(Default)]
struct Tally {
    accepted: usize,
    duplicates: usize,
    refused: Vec<usize>,
}

pub async fn run(caller: Caller, mut lines: Lines) -> Outcome {
    let mut reach = Reach::new(&caller);
    let mut tally = Tally::default();
    while let Some(line) = lines.recv().await {
        let (number, mut text) = line.map_err(unreadable)?;
        if text.trim().is_empty() {
            continue;
        }
        let mut envelope = serde_json::from_str::<Value>(&text);
        if envelope.as_ref().is_err_and(serde_json::Error::is_eof) {
            // One envelope over several lines: then it is the only one.
            while let Some(more) = lines.recv().await {
                text.push_str(&more.map_err(unreadable)?.1);
            }
            envelope = serde_json::from_str(&text);
        }
        match envelope {
            Ok(envelope) => hand_in(&mut reach, &caller.out, number, &envelope, &mut tally).await?,
            Err(e) => {
                let message = format!("It is not valid JSON: {e}.");
                refuse(&caller.out, number, &Problem::new(FAILED, "invalid_envelope", message, ""), &mut tally);
            }
        }
    }
    Ok(sum_up(&caller.out, &tally))
}

fn unreadable(e: io::Error) -> Problem {
    Problem::usage(format!("The messages can't be read: {e}."), "Write them as UTF-8 text, one envelope on each line.")
}

async fn hand_in(
    reach: &mut Reach,
    out: &Out,
    number: usize,
    envelope: &Value,
    tally: &mut Tally,
) -> Result<(), Problem> {
    let response = match reach.send(Method::POST, "/api/ingest", Some(envelope)).await {
        Ok(response) => response,
        // This one is at fault, and the next may be right.
        Err(problem) if REFUSED_ALONE.contains(&problem.code.as_str()) => {
            refuse(out, number, &problem, tally);
            return Ok(());
        }
        Err(problem) => return Err(problem),
    };
    let accepted: Accepted = response.json().await.map_err(|e| Problem::foreign(&e))?;
    tally.accepted += usize::from(!accepted.duplicate);
    tally.duplicates += usize::from(accepted.duplicate);
    match out.json {
        true => out.record(&Taken { line: number, accepted: &accepted }),
        false => {
            let note = if accepted.duplicate { ", known already" } else { "" };
            out.line(&format!("line {number}: accepted as {}{note}", accepted.request_id));
        }
    }
    Ok(())
}

fn refuse(out: &Out, number: usize, problem: &Problem, tally: &mut Tally) {
    tally.refused.push(number);
    if out.json {
        out.record(&json!({"line": number, "status": "error", "code": problem.code, "error": problem.message}));
    } else {
        out.toned(Tone::Bad, &format!("line {number}: refused: {}", problem.message));
    }
}

fn sum_up(out: &Out, tally: &Tally) -> i32 {
    let Tally { accepted, duplicates, refused } = tally;
    out.aside(&format!("{}, {duplicates} of them known already", count(accepted + duplicates, "message")));
    if refused.is_empty() {
        return 0;
    }
    let names: Vec<String> = refused.iter().take(20).map(ToString::to_string).collect();
    let more = if refused.len() > names.len() { ", …" } else { "" };
    out.aside(&format!("{} refused: line {}{more}", refused.len(), names.join(", ")));
    FAILED
}
