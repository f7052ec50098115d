//! `butlerd status`

use super::doctor::mark;
use super::out::{Out, Table, Tone, count, span};
use super::{Caller, Outcome};
use admin::ApiClient;
use butler::{ButlerState, ButlerStatus, HouseholdStatus};
use doctor::complaints;
use modules::Health;

pub async fn run(caller: Caller) -> Outcome {
    let status = caller.client.quick()?.status().await.map_err(caller.failed())?;
    match caller.out.json {
        true => caller.out.value(&status),
        false => show(caller.out, &status),
    }
    Ok(0)
}

fn show(out: Out, house: &HouseholdStatus) {
    let up = span((house.uptime_seconds * 1000.0) as i64);
    let ready = if house.ready { out.paint(Tone::Good, "ready") } else { out.paint(Tone::Bad, "not ready") };
    out.line(&format!("butlerd {}, process {}, up for {up}: {ready}", house.version, house.pid));
    let db = &house.database;
    let state = if db.up { out.paint(Tone::Good, "up") } else { out.paint(Tone::Bad, "down") };
    out.line(&format!("database  {}, {}, {state}, {}", db.kind, db.server, count(db.connections, "connection")));
    out.line(&format!("admin     {}", house.admin));
    out.line("");
    out.table(&butlers(&house.butlers));
    let complaints = complaints(house);
    if !complaints.is_empty() {
        out.line("");
    }
    for (level, text) in complaints {
        let (tone, word) = mark(level);
        out.line(&format!("{}  {text}", out.paint(tone, &format!("{word:<7}"))));
    }
}

fn butlers(list: &[ButlerStatus]) -> Table {
    let mut table = Table::new(&["BUTLER", "STATE", "PORT", "MODEL", "RUNNING", "WAITING", "MODULES", "RESTARTS"]);
    for b in list {
        let state = match b.state {
            ButlerState::Up => Tone::Good,
            ButlerState::Stopped if b.removed => Tone::Faint,
            ButlerState::Booting | ButlerState::Draining => Tone::Warn,
            ButlerState::Parked | ButlerState::Stopped => Tone::Bad,
        };
        let model = match &b.model {
            None => (Tone::Plain, String::new()),
            Some(m) if !m.ready => (Tone::Warn, format!("{}, no model", m.runtime)),
            Some(m) => (Tone::Plain, format!("{} {}", m.runtime, m.model.as_deref().unwrap_or("(its default)"))),
        };
        let well = b.modules.values().filter(|m| m.health == Health::Active).count();
        let modules = match b.modules.len() {
            0 => (Tone::Plain, String::new()),
            all if well == all => (Tone::Plain, all.to_string()),
            all => (Tone::Bad, format!("{well} of {all}")),
        };
        let up = b.state == ButlerState::Up;
        let sessions = |n: usize| (Tone::Plain, if up { n.to_string() } else { String::new() });
        table.row(vec![
            (Tone::Plain, b.name.clone()),
            (state, b.state.as_str().to_owned()),
            (Tone::Plain, b.port.map(|p| p.to_string()).unwrap_or_default()),
            model,
            sessions(b.sessions_running),
            sessions(b.sessions_queued),
            modules,
            (if b.restarts > 0 { Tone::Warn } else { Tone::Plain }, b.restarts.to_string()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::sample;

    #[test]
    fn each_butler_has_its_row() {
        let table = format!("{:?}", butlers(&sample::household().butlers));
        for word in ["switchboard", "native, no model", "0 of 1", "parked", "40103"] {
            assert!(table.contains(word), "{word}: {table}");
        }
    }
}
