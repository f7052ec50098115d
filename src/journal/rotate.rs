//! The turn of the day: yesterday's log gets its name, today's begins.

use base::Trust;
use jiff::civil::Date;

use crate::documents::{Document, Documents};
use crate::file::FileName;

const HEADER: &str = "# Session Log: ";
const TEMPLATE: &str = include_str!("templates/session-day.md");

/// The day in a log's header.
pub fn day_of(text: &str) -> Option<Date> {
    let header = text.lines().find_map(|line| line.strip_prefix(HEADER))?;
    header.trim().get(..10)?.parse().ok()
}

/// A log without an event.
pub fn fresh(today: Date) -> Document {
    Document::of(&TEMPLATE.replace("{{DATE}}", &today.to_string()), Trust::System)
}

/// Gives the log of an earlier day its name and begins one for today. Does nothing where today's log is there, so it
/// may run any number of times. A log without a day in its header is kept under today's date, with a number. Returns
/// what was done, a sentence each, as the specification's program prints it.
pub fn rotate(journal: &mut Documents, today: Date) -> Vec<String> {
    let current = FileName::today();
    let mut done = Vec::new();
    if let Some(old) = journal.get(&current) {
        let text = old.text();
        match day_of(&text) {
            // A clock that was put back is no reason to begin a day twice.
            Some(day) if day >= today => return vec!["No rotation needed (same day).".to_owned()],
            day if day.is_some() || !text.trim().is_empty() => {
                let named = day.unwrap_or(today);
                let first = u32::from(day.is_none());
                let free = (first..).map(|n| FileName::day(named, n)).find(|file| !journal.has(file));
                if let (Some(to), Some(log)) = (free, journal.take(&current)) {
                    done.push(format!("Rotated: today.md -> {}.md", to.stem()));
                    journal.set(to, log);
                }
            }
            _ => drop(journal.take(&current)),
        }
    }
    journal.set(current, fresh(today));
    done.push(format!("Created fresh today.md for {today}"));
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn a_day_is_rotated_once() {
        let mut journal = Documents::default();
        assert_eq!(rotate(&mut journal, day("2026-02-06")), ["Created fresh today.md for 2026-02-06"]);
        assert_eq!(journal.text(&FileName::today()), "# Session Log: 2026-02-06\n\n");
        assert_eq!(rotate(&mut journal, day("2026-02-06")), ["No rotation needed (same day)."]);
        let done = rotate(&mut journal, day("2026-02-07"));
        assert_eq!(done, ["Rotated: today.md -> 2026-02-06.md", "Created fresh today.md for 2026-02-07"]);
        assert_eq!(rotate(&mut journal, day("2026-02-05")), ["No rotation needed (same day)."]);
    }

    #[test]
    fn nothing_is_overwritten() {
        let mut journal = Documents::default();
        let old = FileName::day(day("2026-02-06"), 0);
        journal.set(old.clone(), Document::of("# Session Log: 2026-02-06\n\nkept\n", Trust::Owner));
        journal.set(FileName::today(), Document::of("# Session Log: 2026-02-06\n\nsecond\n", Trust::Owner));
        assert_eq!(rotate(&mut journal, day("2026-02-07"))[0], "Rotated: today.md -> 2026-02-06-1.md");
        assert!(journal.text(&old).contains("kept"));
        journal.set(FileName::today(), Document::of("no header\n", Trust::Owner));
        assert_eq!(rotate(&mut journal, day("2026-02-07"))[0], "Rotated: today.md -> 2026-02-07-1.md");
        assert!(journal.text(&FileName::day(day("2026-02-07"), 1)).contains("no header"));
    }
}
