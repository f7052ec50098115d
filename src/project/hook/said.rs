//! What a hook says, and whom it tells that this was printed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use uuid::Uuid;

use super::block;
use super::events::Event;
use super::injection::Injection;
use crate::connection::Connection;
use crate::place::ProjectPlace;

/// So long a hook that has printed waits to be heard.
const CONFIRMATION: Duration = Duration::from_millis(2);

/// What a hook says.
pub struct Said {
    line: String,
    session: String,
    memories: Vec<Uuid>,
    /// None: no memory stands in it.
    place: Option<ProjectPlace>,
    data_dir: Option<PathBuf>,
}

impl Said {
    /// `text`, which tells those of `told` whose lines stand in it. They are of the project at `place`.
    pub(super) fn new(
        event: Event,
        text: &str,
        told: Injection,
        place: Option<ProjectPlace>,
        data_dir: Option<&Path>,
    ) -> Self {
        Self {
            line: block::output(event.as_str(), text),
            memories: told.standing_in(text),
            session: told.session,
            place,
            data_dir: data_dir.map(Path::to_owned),
        }
    }

    /// One line of JSON, to be printed.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Tells the daemon that the line was printed, so that the session is told its memories no more. Where that gets
    /// lost they are told once again, which is better than never.
    pub fn printed(self) {
        self.confirm(CONFIRMATION);
    }

    /// The same, and waits `within` this time to be heard.
    pub(super) fn confirm(self, within: Duration) {
        let (Some(place), false) = (&self.place, self.memories.is_empty()) else { return };
        let args = json!({"session": self.session, "ids": self.memories});
        // The daemon does it whether or not somebody waits for its answer.
        let _ = Connection::open(self.data_dir.as_deref(), within)
            .and_then(|mut connection| connection.ask(place, "told", args));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::injection::Injected;

    #[test]
    fn what_had_no_room_was_not_told() {
        let memory = |n: u128, line: Option<&str>| Injected { id: Uuid::from_u128(n), line: line.map(str::to_owned) };
        let told = Injection {
            session: "a".to_owned(),
            memories: vec![memory(1, Some("- [1] One.")), memory(2, Some("- [2] Two.")), memory(3, None)],
        };
        let ids = |text| told.standing_in(text).iter().map(Uuid::as_u128).collect::<Vec<_>>();
        assert_eq!(ids("core\n\n=== A ===\n- [1] One.\n- [2] Two.\n=== END ==="), [1, 2, 3]);
        assert_eq!(ids("core\n\n=== A ===\n- [1] One.\n=== END ==="), [1, 3]);
        // A part of a line tells nothing.
        assert_eq!(ids("- [1] One. More\nx - [2] Two."), [3]);
    }
}
