//! `butlerd status`

use super::doctor::mark;
use super::out::{Out, Tone};
use super::table::Table;
use super::text::{count, span};
use butler::{BackupStatus, ButlerState, ButlerStatus, HouseholdStatus};
use modules::Health;
use offline::doctor::complaints;

/// Prints how the household is.
pub fn show(out: &Out, house: &HouseholdStatus) {
    let up = span((house.uptime_seconds * 1000.0) as i64);
    let ready = if house.ready { out.paint(Tone::Good, "ready") } else { out.paint(Tone::Bad, "not ready") };
    out.line(&format!("butlerd {}, process {}, up for {up}: {ready}", house.version, house.pid));
    let db = &house.database;
    let state = if db.up { out.paint(Tone::Good, "up") } else { out.paint(Tone::Bad, "down") };
    out.line(&format!("database  {}, {}, {state}, {}", db.kind, db.server, count(db.connections, "connection")));
    out.line(&format!("admin     {}", house.admin));
    if let Some(line) = house.backup.as_ref().map(backup) {
        out.line(&format!("backup    {line}"));
    }
    out.line("");
    butlers(out, &house.butlers).print("No butlers");
    let complaints = complaints(house);
    if !complaints.is_empty() {
        out.line("");
    }
    for (level, text) in complaints {
        let (tone, word) = mark(level);
        out.line(&format!("{}  {text}", out.paint(tone, &format!("{word:<7}"))));
    }
}

/// The newest backup that the daemon made, and when the next one comes.
fn backup(of: &BackupStatus) -> String {
    let time = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    let newest = match (&of.file, of.newest) {
        (Some(file), Some(at)) => format!("{}, {file}", time(at)),
        _ => "none yet".to_owned(),
    };
    let next = of.due_at.map(|at| format!(", the next one after {}", time(at))).unwrap_or_default();
    format!("{newest}{next}")
}

fn butlers<'a>(out: &'a Out, list: &'a [ButlerStatus]) -> Table<'a, ButlerStatus> {
    let state = |b: &ButlerStatus| match b.state {
        ButlerState::Up => Tone::Good,
        ButlerState::Stopped if b.removed => Tone::Faint,
        ButlerState::Booting | ButlerState::Draining => Tone::Warn,
        ButlerState::Parked | ButlerState::Stopped => Tone::Bad,
    };
    let model = |b: &ButlerStatus| {
        let model = b.model.as_ref()?;
        Some(match model.ready {
            false => (Tone::Warn, format!("{}, no model", model.runtime)),
            true => {
                let name = model.model.as_deref().unwrap_or("(its default)");
                (Tone::Plain, format!("{} {name}", model.runtime))
            }
        })
    };
    let modules = |b: &ButlerStatus| {
        let well = b.modules.values().filter(|m| m.health == Health::Active).count();
        match b.modules.len() {
            0 => None,
            all if well == all => Some((Tone::Plain, all.to_string())),
            all => Some((Tone::Bad, format!("{well} of {all}"))),
        }
    };
    let up = |b: &ButlerStatus| b.state == ButlerState::Up;
    out.table(list)
        .column("BUTLER", |b| &b.name)
        .column("STATE", move |b| (state(b), b.state.as_str()))
        .column("PORT", |b| b.port)
        .column("MODEL", model)
        .column("RUNNING", |b| up(b).then_some(b.sessions_running))
        .column("WAITING", |b| up(b).then_some(b.sessions_queued))
        .column("MODULES", modules)
        .column("RESTARTS", |b| (if b.restarts > 0 { Tone::Warn } else { Tone::Plain }, b.restarts))
}

#[cfg(test)]
mod tests {
    use super::super::out::tests::plain;
    use super::*;
    use admin::sample;

    #[test]
    fn each_butler_has_its_row() {
        let table = butlers(&plain(), &sample::household().butlers).lines().join("\n");
        for word in ["switchboard", "native, no model", "0 of 1", "parked", "40103"] {
            assert!(table.contains(word), "{word}: {table}");
        }
    }
}
