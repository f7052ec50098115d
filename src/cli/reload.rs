//! `butlerd reload`

use super::out::{Out, Table, Tone, count};
use super::problem::FAILED;
use super::{Caller, Outcome};
use admin::ApiClient;
use butler::ButlerState;
use supervisor::{Change, Reloaded};

pub async fn run(caller: Caller) -> Outcome {
    let done = caller.client.patient()?.reload().await.map_err(caller.failed())?;
    match caller.out.json {
        true => caller.out.value(&done),
        false => show(caller.out, &done),
    }
    Ok(if done.butlers.iter().any(|b| b.error.is_some()) { FAILED } else { 0 })
}

fn show(out: Out, done: &Reloaded) {
    let touched: Vec<_> = done.butlers.iter().filter(|b| b.change != Change::Unchanged || b.error.is_some()).collect();
    let mut table = Table::new(&["BUTLER", "WHAT", "STATE", "PORT", "AFTER"]);
    for b in &touched {
        let tone = match (b.state, b.change) {
            (ButlerState::Up, Change::Kept) => Tone::Warn,
            (ButlerState::Up, _) => Tone::Good,
            (ButlerState::Stopped, Change::Removed) => Tone::Faint,
            _ => Tone::Bad,
        };
        table.row(vec![
            (Tone::Plain, b.name.clone()),
            (Tone::Plain, b.change.as_str().to_owned()),
            (tone, b.state.as_str().to_owned()),
            (Tone::Plain, b.port.map(|p| p.to_string()).unwrap_or_default()),
            (Tone::Plain, super::out::span(b.ms as i64)),
        ]);
    }
    if !touched.is_empty() {
        out.table(&table);
        out.line("");
    }
    for b in &touched {
        if let Some(note) = &b.note {
            out.line(&format!("{}: {note}.", b.name));
        }
        if let Some(error) = &b.error {
            out.line(&format!("{}: {error}", b.name));
        }
    }
    if !done.restart_for.is_empty() {
        let tables: Vec<String> = done.restart_for.iter().map(|t| format!("[{t}]")).collect();
        out.line(&format!("The settings in {} have changed; only a restart takes them up.", tables.join(", ")));
    }
    out.line(&summary(done.butlers.len() - touched.len(), touched.len()));
}

fn summary(untouched: usize, touched: usize) -> String {
    match (touched, untouched) {
        (0, _) => "Nothing has changed.".to_owned(),
        (_, 0) => "No other butler is there.".to_owned(),
        (_, n) => format!("Untouched: {}.", count(n, "butler")),
    }
}
