//! What may be done to a journal without a person: each within its budget, and none beyond what its author is trusted
//! with.

use base::Trust;
use jiff::civil::{Date, DateTime};
use serde::{Deserialize, Serialize};

use crate::documents::{Document, Documents};
use crate::file::{CORE_BUDGET, FileName, Kind, REFERENCE_BUDGET};
use crate::section::{Section, harmless, one_line, title_of};
use crate::wire::Refusal;

/// Sections of core memory that are written once, when another layout is taken in, and then by a person alone.
const STABLE_SECTIONS: [&str; 2] = ["User Profile", "Services"];
/// Sections of core memory that may be written without a person.
pub const CORE_SECTIONS: [&str; 2] = ["Active Working State", "Key References"];
/// Longest title.
const LONGEST_TITLE: usize = 120;
/// Longest text of one entry.
const LONGEST_TEXT: usize = 4000;
/// Longest line of a day's log.
const LONGEST_EVENT: usize = 1000;
/// An archive larger than this is full, and another one begins.
const ARCHIVE_SIZE: usize = 256 * 1024;
/// What a day's log never grows over.
const LOG_LIMIT: usize = 256 * 1024;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Adds an entry to a reference or user file, or gives the one of this title a new text; or the text of a section of
    /// core memory.
    Write {
        file: String,
        title: String,
        text: String,
        /// Of a decision: why, in one sentence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        /// Of a decision: `active`, `superseded` or `archived`. Of a project: `active`, `completed`, `blocked` or
        /// `planned`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<String>,
        /// Of a preference: `conversation` or `observation`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<String>,
    },
    /// Adds a line to the day's log.
    Log { text: String },
    /// Moves an entry to the archive.
    Archive { file: String, title: String },
}

/// When and by whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct By {
    /// How far the author is believed.
    pub trust: Trust,
    /// In the owner's zone.
    pub now: DateTime,
    /// It takes another layout in, and may write the stable sections of core memory, too.
    pub migrates: bool,
}

fn refused(code: &str, message: impl Into<String>) -> Refusal {
    Refusal { code: code.to_owned(), message: message.into() }
}

/// Does it. Returns which file changed.
pub fn apply(journal: &mut Documents, op: &Op, by: By) -> Result<FileName, Refusal> {
    match op {
        Op::Log { text } => log(journal, text, by),
        Op::Archive { file, title } => archive(journal, &named(file)?, title, by),
        Op::Write { file, title, text, context, status, source } => {
            let file = named(file)?;
            let title = title_given(title)?;
            let text = text_given(text)?;
            match file.kind() {
                Kind::Core => core(journal, &title, &text, by),
                Kind::Reference | Kind::Users => {
                    let rest =
                        Rest { context: context.as_deref(), status: status.as_deref(), source: source.as_deref() };
                    entry(journal, &file, &title, &text, &rest, by)
                }
                Kind::Today => {
                    Err(refused("append_only", "The day's log only grows: add a line to it with journal_log."))
                }
                Kind::Day | Kind::Archive => Err(refused(
                    "read_only",
                    format!("{file} is kept as it is. Write to a reference file or to the day's log."),
                )),
            }
        }
    }
}

fn named(file: &str) -> Result<FileName, Refusal> {
    FileName::read(file).ok_or_else(|| {
        let names = "core.md, reference/decisions.md, reference/projects.md, reference/preferences.md, reference/ideas.md, \
                     users/<person>.md (lower case)";
        refused("no_such_file", format!("There is no file `{}`. There are: {names}.", one_line(file)))
    })
}

fn title_given(title: &str) -> Result<String, Refusal> {
    let title = one_line(title.trim_start_matches('#'));
    let title = title_of(&format!("### {title}")).unwrap_or_default().to_owned();
    match title.chars().count() {
        0 => Err(refused("no_title", "The entry needs a title.")),
        n if n > LONGEST_TITLE => {
            Err(refused("too_long", format!("A title has at most {LONGEST_TITLE} characters; this one has {n}.")))
        }
        _ => Ok(title),
    }
}

fn text_given(text: &str) -> Result<String, Refusal> {
    let text = harmless(text);
    match text.chars().count() {
        0 => Err(refused("no_text", "The entry needs a text.")),
        n if n > LONGEST_TEXT => Err(refused(
            "too_long",
            format!("An entry has at most {LONGEST_TEXT} characters; this one has {n}. Say it shorter."),
        )),
        _ => Ok(text),
    }
}

fn log(journal: &mut Documents, text: &str, by: By) -> Result<FileName, Refusal> {
    let text = one_line(text);
    if text.is_empty() {
        return Err(refused("no_text", "The line needs a text."));
    }
    if text.chars().count() > LONGEST_EVENT {
        return Err(refused("too_long", format!("A line of the log has at most {LONGEST_EVENT} characters.")));
    }
    crate::rotate::rotate(journal, by.now.date());
    let file = FileName::today();
    if journal.text(&file).len() + text.len() > LOG_LIMIT {
        return Err(refused("over_budget", "The day's log is full."));
    }
    let time = by.now.time();
    let line = format!("**{:02}:{:02}** - {text}\n", time.hour(), time.minute());
    let document = journal.open(&file);
    if let Some(last) = document.sections.last_mut()
        && !last.text.ends_with('\n')
    {
        *last = Section::new(last.text.clone(), last.trust);
    }
    document.sections.push(Section::new(line, by.trust));
    Ok(file)
}

/// A section of core memory gets another text.
fn core(journal: &mut Documents, title: &str, text: &str, by: By) -> Result<FileName, Refusal> {
    if by.trust < Trust::System {
        return Err(refused(
            "untrusted",
            "Core memory is told to every session, so only what the owner or the house said goes there. Write this to a \
             reference file or to the day's log.",
        ));
    }
    let stable = STABLE_SECTIONS.into_iter().filter(|_| by.migrates);
    let Some(section) = CORE_SECTIONS.into_iter().chain(stable).find(|section| section.eq_ignore_ascii_case(title))
    else {
        return Err(refused(
            "stable",
            format!("Of core memory only {} may be written; the rest is the owner's.", CORE_SECTIONS.join(" and ")),
        ));
    };
    let file = FileName::core();
    let had = journal.text(&file).len();
    let document = journal.open(&file);
    let is_it = |own: &Section| own.title().is_some_and(|title| title.eq_ignore_ascii_case(section));
    let places: Vec<usize> = (0..document.sections.len()).filter(|at| is_it(&document.sections[*at])).collect();
    let new = Section::new(format!("## {section}\n{text}\n\n"), by.trust);
    match places[..] {
        [] => {
            let end = document.sections.len();
            put(document, end, new);
        }
        [at] => document.sections[at] = new,
        // One of them is a person's, and nobody but a person knows which is so now.
        [..] => {
            let n = places.len();
            return Err(refused(
                "taken",
                format!(
                    "{file} has {n} sections `{section}`, as after an edit while the journal went on. A person has to make one \
                     of them first, in the file, and take that in with `butlerd journal accept`. Nothing was written: until \
                     then, put it into the day's log (journal_log)."
                ),
            ));
        }
    }
    // Taken in from another layout it stays below it, as the specification has it.
    within(journal, &file, had, CORE_BUDGET - usize::from(by.migrates))?;
    Ok(file)
}

/// What an entry may have besides its text.
struct Rest<'a> {
    context: Option<&'a str>,
    status: Option<&'a str>,
    source: Option<&'a str>,
}

fn entry(
    journal: &mut Documents,
    file: &FileName,
    title: &str,
    text: &str,
    rest: &Rest<'_>,
    by: By,
) -> Result<FileName, Refusal> {
    let today = by.now.date();
    let had = journal.text(file).len();
    let document = journal.open(file);
    // Words of somebody who is believed less do not become this author's.
    let old = document.find(title).map(|at| &document.sections[at]).filter(|old| old.trust >= by.trust);
    let old = Old(old.map_or("", |old| old.text.as_str()));
    let (body, group) = body(file, title, text, rest, today, &old)?;
    let new = Section::new(format!("{body}\n"), by.trust);
    if let Some(at) = document.find(title) {
        let old = &document.sections[at];
        if old.text.starts_with("## ") {
            return Err(refused("taken", format!("`{title}` is a heading of {file}. Give the entry another title.")));
        }
        if old.trust > by.trust && by.trust < Trust::System {
            return Err(refused(
                "untrusted",
                format!("`{title}` was written by somebody who is trusted more. Write it under another title."),
            ));
        }
        document.sections.remove(at);
        let at = if group.is_some() { place_of(document, group) } else { at };
        put(document, at, new);
    } else {
        let at = place_of(document, group);
        put(document, at, new);
    }
    within(journal, file, had, REFERENCE_BUDGET)?;
    Ok(file.clone())
}

/// What an entry had before; empty: it is new.
struct Old<'a>(&'a str);

impl Old<'_> {
    /// The day in its heading.
    fn day(&self) -> Option<Date> {
        self.0.lines().next()?.strip_prefix("### [")?.split_once(']')?.0.parse().ok()
    }

    /// What one of its lines has, such as `- **Added:** 2026-02-07`.
    fn field(&self, name: &str) -> Option<&str> {
        let mark = format!("- **{name}:**");
        self.0.lines().find_map(|line| line.strip_prefix(&*mark)).map(str::trim).filter(|text| !text.is_empty())
    }

    /// The day when it was added.
    fn added(&self) -> Option<Date> {
        self.field("Added")?.parse().ok()
    }
}

/// The lines of an entry, and below which heading it stands. What became of a decision changes neither when it was made
/// nor why, and what is known longer keeps the day when it came.
fn body(
    file: &FileName,
    title: &str,
    text: &str,
    rest: &Rest<'_>,
    today: Date,
    old: &Old<'_>,
) -> Result<(String, Option<&'static str>), Refusal> {
    // As a Markdown list has a text of several lines.
    let text = text.lines().collect::<Vec<_>>().join("\n  ");
    let one_of = |what: &str, given: Option<&str>, known: &'static [&'static str]| -> Result<&'static str, Refusal> {
        let given = given.unwrap_or(known[0]);
        let found = known.iter().find(|word| word.eq_ignore_ascii_case(given.trim()));
        found.copied().ok_or_else(|| refused("bad_status", format!("{what} is one of: {}.", known.join(", "))))
    };
    Ok(match file.as_str() {
        "reference/decisions.md" => {
            let status = one_of("The status of a decision", rest.status, &["active", "superseded", "archived"])?;
            let is_over = status != "active";
            let day = old.day().filter(|_| is_over).unwrap_or(today);
            let context = rest.context.map(one_line).filter(|context| !context.is_empty());
            let context = context.or_else(|| old.field("Context").filter(|_| is_over).map(str::to_owned));
            let context = context.map(|context| format!("- **Context:** {context}\n")).unwrap_or_default();
            (format!("### [{day}] {title}\n- **Decision:** {text}\n{context}- **Status:** {status}\n"), None)
        }
        "reference/projects.md" => {
            let status =
                one_of("The status of a project", rest.status, &["active", "completed", "blocked", "planned"])?;
            let group = match status {
                "completed" => "Completed",
                "planned" => "Planned",
                _ => "Active",
            };
            (format!("### {title}\n- **Status:** {status}\n- **Updated:** {today}\n- **Notes:** {text}\n"), Some(group))
        }
        "reference/preferences.md" => {
            let source = one_of("The source of a preference", rest.source, &["conversation", "observation"])?;
            let added = old.added().unwrap_or(today);
            (format!("### {title}\n- **Value:** {text}\n- **Source:** {source}\n- **Added:** {added}\n"), None)
        }
        _ => {
            let added = old.added().unwrap_or(today);
            (format!("### {title}\n- **Notes:** {text}\n- **Added:** {added}\n"), None)
        }
    })
}

/// Where the next entry below a heading goes; without one, at the end.
fn place_of(document: &Document, group: Option<&str>) -> usize {
    let sections = &document.sections;
    let Some(at) = group.and_then(|group| sections.iter().position(|s| is_group(s) && s.title() == Some(group))) else {
        return sections.len();
    };
    let next = sections[at + 1..].iter().position(is_group);
    next.map_or(sections.len(), |next| at + 1 + next)
}

/// Whether entries stand below it.
fn is_group(section: &Section) -> bool {
    section.text.starts_with("## ")
}

/// Puts a section at its place: an empty line stands above it, and the heading above an entry does not say that none is
/// there. Who is believed less than the house changes nothing of the house's for that.
fn put(document: &mut Document, at: usize, new: Section) {
    let above = &mut document.sections[..at];
    if new.is_own() {
        if !is_group(&new)
            && let Some(group) = above.iter_mut().rfind(|section| is_group(section))
            && let Some(with_entry) = group.with_entry()
        {
            *group = with_entry;
        }
        if let Some(last) = above.last_mut()
            && let Some(spaced) = last.spaced()
        {
            *last = spaced;
        }
    }
    document.sections.insert(at, new);
}

fn archive(journal: &mut Documents, file: &FileName, title: &str, by: By) -> Result<FileName, Refusal> {
    if !matches!(file.kind(), Kind::Reference | Kind::Users) {
        return Err(refused("read_only", format!("Entries of {file} are not archived.")));
    }
    let title = title_given(title)?;
    let document = journal.open(file);
    let found = document.find(&title).filter(|at| document.sections[*at].text.starts_with("### "));
    let Some(at) = found else {
        let titles: Vec<&str> = document.sections.iter().filter_map(Section::title).take(30).collect();
        let message = format!("{file} has no entry `{title}`. It has: {}.", titles.join("; "));
        return Err(refused("not_found", message));
    };
    if document.sections[at].trust > by.trust && by.trust < Trust::System {
        return Err(refused("untrusted", format!("`{title}` was written by somebody who is trusted more.")));
    }
    let section = document.sections.remove(at);
    put_into_archive(journal, file, section);
    Ok(file.clone())
}

/// Moves a section that was taken out of a file to the end of that file's archive.
pub fn put_into_archive(journal: &mut Documents, file: &FileName, section: Section) {
    let full = |n: &u32| journal.text(&file.archived(*n)).len() > ARCHIVE_SIZE;
    let n = (0..).find(|n| !full(n)).unwrap_or(0);
    let archive = journal.open(&file.archived(n));
    if archive.sections.is_empty() {
        archive.sections.push(Section::new(format!("# Archive of {file}\n\n"), Trust::System));
    }
    archive.sections.push(section);
}

/// Whether a file that `had` so many bytes is within its budget now. One that a person or a migration took over it may
/// become smaller step by step.
fn within(journal: &Documents, file: &FileName, had: usize, most: usize) -> Result<(), Refusal> {
    let bytes = journal.text(file).len();
    if bytes <= most || bytes < had {
        return Ok(());
    }
    let what = match file.kind() {
        Kind::Core => "Say it shorter, or put the details into a reference file.",
        _ => {
            "First move what is settled (superseded, archived, completed) to the archive with journal_archive, then write \
             this again."
        }
    };
    Err(refused("over_budget", format!("{file} would have {bytes} bytes; it may have {most}. {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    fn write(journal: &mut Documents, file: &str, day: i8, given: (&str, Option<&str>, Option<&str>), trust: Trust) {
        let (text, context, status) = given;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let op = Op::Write {
            file: file.to_owned(),
            title: "Tea".to_owned(),
            text: text.to_owned(),
            context: owned(context),
            status: owned(status),
            source: None,
        };
        apply(journal, &op, By { trust, now: date(2026, 2, day).at(9, 0, 0, 0), migrates: false }).unwrap();
    }

    #[test]
    fn a_decision_that_is_over_keeps_its_day_and_reason() {
        let mut journal = Documents::default();
        let file = FileName::reference("decisions");
        write(&mut journal, "decisions", 1, ("mint", Some("it grows here"), None), Trust::Owner);
        write(&mut journal, "decisions", 7, ("mint", None, Some("superseded")), Trust::Owner);
        let want =
            "### [2026-02-01] Tea\n- **Decision:** mint\n- **Context:** it grows here\n- **Status:** superseded\n";
        assert!(journal.text(&file).contains(want), "{}", journal.text(&file));
        // Another decision is made today, for its own reason.
        write(&mut journal, "decisions", 8, ("sage", None, None), Trust::Owner);
        let want = "### [2026-02-08] Tea\n- **Decision:** sage\n- **Status:** active\n";
        assert!(journal.text(&file).contains(want), "{}", journal.text(&file));
    }

    #[test]
    fn a_preference_keeps_the_day_when_it_came() {
        let mut journal = Documents::default();
        for (day, text) in [(1, "mint"), (7, "sage")] {
            write(&mut journal, "preferences", day, (text, None, None), Trust::Owner);
        }
        let text = journal.text(&FileName::reference("preferences"));
        assert!(text.contains("- **Value:** sage\n") && text.contains("- **Added:** 2026-02-01\n"), "{text}");
    }

    const BY: By = By { trust: Trust::System, now: date(2026, 2, 7).at(9, 0, 0, 0), migrates: false };

    fn written(file: &str, title: &str, text: &str) -> Op {
        let (file, title, text) = (file.to_owned(), title.to_owned(), text.to_owned());
        Op::Write { file, title, text, context: None, status: None, source: None }
    }

    #[test]
    fn a_reference_file_takes_its_budget_and_not_a_byte_more() {
        for name in ["preferences", "reference/recipes", "users/bea"] {
            let file = FileName::read(name).unwrap();
            let empty = {
                let mut journal = Documents::default();
                apply(&mut journal, &written(name, "Tea", "x"), BY).unwrap();
                journal.text(&file).len() - 1
            };
            let with = |bytes: usize| Document::of(&format!("# T\n{}\n\n", "x".repeat(bytes - 6)), Trust::Owner);
            for over in [0, 1] {
                let mut journal = Documents::new([(file.clone(), with(REFERENCE_BUDGET - empty - 100 + over))]);
                let done = apply(&mut journal, &written(name, "Tea", &"y".repeat(100)), BY);
                assert_eq!(journal.text(&file).len(), REFERENCE_BUDGET + over);
                match (over, done) {
                    (0, Ok(_)) => {}
                    (1, Err(refusal)) => assert!(
                        refusal.code == "over_budget"
                            && refusal.message.contains("may have 20480. First move what is settled"),
                        "{refusal:?}"
                    ),
                    (_, done) => panic!("{name}: {over} over: {done:?}"),
                }
            }
        }
    }

    #[test]
    fn a_file_that_a_person_took_over_its_budget_may_shrink() {
        let file = FileName::reference("context");
        let entry = |title: &str| format!("### {title}\n- **Notes:** {}\n\n", "x".repeat(3000));
        let text: String = (0..10).map(|n| entry(&format!("Old {n}"))).collect();
        let whole = Documents::new([(file.clone(), Document::of(&text, Trust::Owner))]);
        let had = whole.text(&file).len();
        assert!(had > REFERENCE_BUDGET);
        let change = |op: &Op| {
            let mut journal = whole.clone();
            apply(&mut journal, op, BY).map(|_| journal.text(&file).len())
        };
        let shorter = change(&written("reference/context", "Old 3", "Short.")).unwrap();
        assert!(shorter < had && shorter > REFERENCE_BUDGET, "{shorter}");
        let archived = Op::Archive { file: file.to_string(), title: "Old 3".to_owned() };
        assert!(change(&archived).unwrap() < had);
        for (title, text) in [("New", "One more."), ("Old 3", &*"y".repeat(3500))] {
            assert_eq!(change(&written("reference/context", title, text)).unwrap_err().code, "over_budget");
        }
    }

    #[test]
    fn of_two_sections_of_core_memory_with_one_title_no_session_writes_either() {
        let text = "# Core\n\n## Active Working State\nFresh.\n\n## Key References\nNone yet.\n";
        let mut journal = Documents::new([(FileName::core(), Document::of(text, Trust::System))]);
        let edited = "## active working state\nAda writes this herself.\n\n";
        journal.open(&FileName::core()).sections.push(Section::new(edited, Trust::Owner));
        let before = journal.clone();
        for migrates in [false, true] {
            let by = By { migrates, ..BY };
            let refusal = apply(&mut journal, &written("core", "Active Working State", "x"), by).unwrap_err();
            for words in
                ["2 sections `Active Working State`", "A person has to make one of them first", "journal accept"]
            {
                assert!(refusal.message.contains(words), "{words}: {refusal:?}");
            }
            assert_eq!(journal, before);
        }
        apply(&mut journal, &written("core", "Key References", "~/garden.md"), BY).unwrap();
        // A person made one of them.
        journal.open(&FileName::core()).sections.retain(|section| section.trust != Trust::Owner);
        apply(&mut journal, &written("core", "Active Working State", "The fence."), BY).unwrap();
        assert!(
            journal.text(&FileName::core()).contains("## Active Working State\nThe fence.\n\n## Key References\n~/g")
        );
    }

    #[test]
    fn a_strangers_reason_becomes_nobody_elses() {
        let mut journal = Documents::default();
        write(&mut journal, "decisions", 1, ("mint", Some("EVIL"), None), Trust::Stranger);
        write(&mut journal, "decisions", 7, ("mint", None, Some("superseded")), Trust::Owner);
        let text = journal.text(&FileName::reference("decisions"));
        assert!(text.contains("### [2026-02-07] Tea") && !text.contains("EVIL"), "{text}");
    }
}
