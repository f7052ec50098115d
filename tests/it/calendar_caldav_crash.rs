//! `kill -9` between every step of a calendar's sync and the next: both sides are equal afterwards, nothing is there twice.
//! The provider is a CalDAV server here; others are killed alike.

use serde_json::{Value, json};

use crate::calendar_caldav::{event, synced, titles};
use crate::support::radicale::Radicale;
use crate::support::tally::died;
use crate::support::{Daemon, Household};

/// What a daemon that is to die is asked for; `None`: it dies by what the server has.
fn call(point: &str, id: &Value) -> Option<(&'static str, Value)> {
    match point {
        "calendar.changed" | "calendar.sending" | "calendar.sent" => {
            Some(("calendar_create_event", event("Made while it died", "2027-06-01T09:00")))
        }
        "calendar.updating" | "calendar.updated" => {
            Some(("calendar_update_event", json!({"event_id": id, "title": "Changed while it died"})))
        }
        "calendar.deleting" | "calendar.deleted" => Some(("calendar_delete_event", json!({"event_id": id}))),
        _ => None,
    }
}

/// What the household and its provider are both changed by.
pub trait Elsewhere {
    /// Another program puts an event there.
    async fn put(&self, name: &str, title: &str);
    /// The titles of its events, in order.
    async fn titles(&self) -> Vec<String>;
}

impl Elsewhere for Radicale {
    async fn put(&self, name: &str, title: &str) {
        self.put(name, title, "").await;
    }
    async fn titles(&self) -> Vec<String> {
        self.titles().await
    }
}

/// Kills the daemon at each of these points, and looks at both sides after the next one is up.
pub async fn killed_at(points: &[&str], household: &Household, mut daemon: Daemon, server: &impl Elsewhere) {
    for (n, point) in points.iter().enumerate() {
        let butler = daemon.mcp("switchboard");
        let made = butler.ok("calendar_create_event", event(&format!("House {n}"), "2027-05-01T09:00")).await;
        synced(&butler).await;
        let mut wanted = titles(&butler).await;
        daemon.kill();
        let asked = call(point, &made["event_id"]);
        if asked.is_none() {
            server.put(&format!("s{n}"), &format!("Server {n}")).await;
        }
        let mut dying = Daemon::spawn(&Household::again(household, "BUTLERD_CRASH_POINT", point));
        if let Some((tool, args)) = asked {
            dying = tokio::task::spawn_blocking(move || dying.wait_ready()).await.expect("it is up");
            synced(&dying.mcp("switchboard")).await;
            // What the server's other programs do meanwhile.
            server.put(&format!("s{n}"), &format!("Server {n}")).await;
            dying.mcp("switchboard").try_call(tool, args).await;
        }
        died(&mut dying, point).await;
        drop(dying);
        daemon = household.start().await;
        synced(&daemon.mcp("switchboard")).await;
        wanted.push(format!("Server {n}"));
        match point.trim_start_matches("calendar.") {
            "changed" | "sending" | "sent" => wanted.push("Made while it died".to_owned()),
            "updating" | "updated" => {
                wanted.retain(|title| *title != format!("House {n}"));
                wanted.push("Changed while it died".to_owned());
            }
            "deleting" | "deleted" => wanted.retain(|title| *title != format!("House {n}")),
            _ => {}
        }
        wanted.sort();
        assert_eq!(titles(&daemon.mcp("switchboard")).await, wanted, "{point}: here");
        assert_eq!(server.titles().await, wanted, "{point}: at the server");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_any_two_steps_of_a_sync() {
    let Some(server) = Radicale::start("calendar_caldav_crash").await else { return };
    let household = Household::few().with_caldav("switchboard", &server, "private = [\"cal\"]\n");
    let points = [
        "calendar.claimed",
        "calendar.listed",
        "calendar.fetched",
        "calendar.writing",
        "calendar.written",
        "calendar.moving",
        "calendar.moved",
        "calendar.synced",
        "calendar.changed",
        "calendar.sending",
        "calendar.sent",
        "calendar.updating",
        "calendar.updated",
        "calendar.deleting",
        "calendar.deleted",
    ];
    let daemon = household.start().await;
    killed_at(&points, &household, daemon, &server).await;
}
