//! `butlerd reload`

use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::text::{count, span};
use super::{Caller, Outcome};
use admin::api::HouseApiClient;
use butler::ButlerState;
use supervisor::{Change, Reloaded};

pub async fn run(caller: Caller) -> Outcome {
    let done = caller.got(caller.patient()?.reload().await)?;
    caller.out.answer(&done, show)?;
    let mut code = 0;
    for (b, error) in done.butlers.iter().filter_map(|b| Some((b, b.error.as_ref()?))) {
        caller.out.aside(&format!("{}: {error}", b.name));
        code = FAILED;
    }
    Ok(code)
}

/// The same for a butler that was just put into the roster: whether it starts.
pub async fn takes_up(caller: Caller, name: &str) -> Outcome {
    let done = caller.got(caller.patient()?.reload().await)?;
    let mine = done.butlers.iter().find(|b| b.name.as_str() == name);
    match mine.and_then(|b| b.error.clone()) {
        Some(why) => Err(Problem::new(FAILED, name, format!("the butler does not start: {why}"), "butlerd doctor")),
        None => Ok(0),
    }
}

fn show(out: &Out, done: &Reloaded) {
    let touched: Vec<_> = done.butlers.iter().filter(|b| b.change != Change::Unchanged || b.error.is_some()).collect();
    if !touched.is_empty() {
        out.table(&touched)
            .column("BUTLER", |b| &b.name)
            .column("WHAT", |b| b.change.as_str())
            .column("STATE", |b| {
                let tone = match (b.state, b.change) {
                    (ButlerState::Up, Change::Kept) => Tone::Warn,
                    (ButlerState::Up, _) => Tone::Good,
                    (ButlerState::Stopped, Change::Removed) => Tone::Faint,
                    _ => Tone::Bad,
                };
                (tone, b.state.as_str())
            })
            .column("PORT", |b| b.port)
            .column("AFTER", |b| span(b.ms as i64))
            .print("");
        out.line("");
    }
    for b in &touched {
        if let Some(note) = &b.note {
            out.line(&format!("{}: {note}.", b.name));
        }
    }
    if !done.restart_for.is_empty() {
        let tables: Vec<String> = done.restart_for.iter().map(|t| format!("[{t}]")).collect();
        out.line(&format!("The settings in {} have changed; restart the daemon to take them up.", tables.join(", ")));
    }
    out.line(&summary(done.butlers.len() - touched.len(), touched.len()));
}

fn summary(untouched: usize, touched: usize) -> String {
    match (touched, untouched) {
        (0, _) => "Nothing has changed.".to_owned(),
        (_, 0) => "There is no other butler.".to_owned(),
        (_, n) => format!("Untouched: {}.", count(n, "butler")),
    }
}
