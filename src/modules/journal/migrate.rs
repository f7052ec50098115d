//! Taking in the files of another layout: the flat one that came before, or a zylos memory folder. The originals stay.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::journal::documents::{Document, Documents};
use ::journal::file::{CORE_BUDGET, FileName};
use ::journal::rotate::day_of;
use ::journal::section::Section;
use ::journal::templates::is_untouched;
use ::journal::wire::{FileText, Migrated, Refusal};
use base::{SessionId, TenantId, Trust, task};
use sessions::{SessionResult, SessionState};
use store::StoreError;

use super::journals::{JournalError, Journals};
use super::sql::{self, Step};
use crate::own_sessions::{Cause, SessionRequest};

/// Where a file of another layout goes. `None`: nowhere.
fn target(path: &str) -> Option<FileName> {
    let path = path.trim_start_matches("./");
    let stem = path.strip_suffix(".md")?;
    let slug = |text: &str| {
        let slug: String =
            text.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        slug.trim_matches('-').chars().take(60).collect::<String>()
    };
    let to = match stem {
        "core" => "core".to_owned(),
        "decisions" | "projects" | "preferences" | "ideas" => format!("reference/{stem}"),
        "building-ideas" => "reference/ideas".to_owned(),
        // What is known of the work at hand: core memory is made of it, as far as it fits.
        "context" => "reference/context".to_owned(),
        "identity" | "state" | "references" => format!("reference/{stem}"),
        _ => match stem.split_once('/')? {
            ("users", rest) => format!("users/{}", slug(rest.strip_suffix("/profile").unwrap_or(rest))),
            ("reference", rest) => format!("reference/{}", slug(rest)),
            ("sessions", "current" | "today") => "sessions/today".to_owned(),
            ("sessions", rest) => format!("sessions/{}", slug(rest)),
            ("archive" | "_archive", rest) => format!("archive/{}", slug(rest)),
            _ => return None,
        },
    };
    FileName::read(&to)
}

/// A file with what a session has to divide.
fn to_divide() -> FileName {
    FileName::reference("context")
}

/// Takes files in. Returns what each became, what was left alone, and for each given file that has a place, that place.
fn take_in<'a>(journal: &mut Documents, given: &'a [FileText]) -> (Migrated, Vec<(&'a FileText, FileName)>) {
    let mut done = Migrated { taken: Vec::new(), left: Vec::new(), notes: Vec::new() };
    let mut places = Vec::new();
    for one in given {
        let FileText { file, text } = one;
        let Some(to) = target(file) else {
            done.left.push(format!("{file}: no file of the journal is like it"));
            continue;
        };
        if text.trim().is_empty() {
            done.left.push(format!("{file}: it is empty"));
            continue;
        }
        let mut to = free_log(&to, text);
        if to == FileName::core() && !has_room(journal, text) {
            done.notes.push(format!(
                "{file} has {} bytes, and with it core memory would have {CORE_BUDGET} or more: it is divided.",
                text.len()
            ));
            to = to_divide();
        }
        places.push((one, to.clone()));
        let new = Document::of(text, Trust::Owner);
        let now = journal.get(&to).map(Document::text).unwrap_or_default();
        let fresh = is_fresh(&to, &now);
        if now == *text {
            done.left.push(format!("{file}: {to} is the same already"));
        } else if fresh {
            journal.set(to.clone(), new);
            done.taken.push(format!("{file} -> {to}"));
        } else {
            journal.open(&to).sections.push(Section::new(format!("\n## From {file}\n\n"), Trust::Owner));
            journal.open(&to).sections.extend(new.sections);
            done.taken.push(format!("{file} -> {to} (added to what is there)"));
        }
    }
    compose_core(journal, given, &mut done);
    (done, places)
}

/// Whether a text can be core memory, or be added to it: below its budget, as the specification has it.
fn has_room(journal: &Documents, text: &str) -> bool {
    let now = journal.text(&FileName::core());
    let had = if is_fresh(&FileName::core(), &now) { 0 } else { now.len() + "\n## From core.md\n\n\n".len() };
    now == text || had + text.len() < CORE_BUDGET
}

/// Whether nobody has written anything into a file yet.
fn is_fresh(file: &FileName, text: &str) -> bool {
    text.trim().is_empty() || is_untouched(file, text) || is_begun(file, text)
}

/// Takes files in as they were given: where a line of one would be lost, none is taken.
fn taken_in_whole(journal: &mut Documents, given: &[FileText]) -> Result<(Migrated, Vec<String>), Refusal> {
    let (done, places) = take_in(journal, given);
    let mut divided = Vec::new();
    for (FileText { file, text }, to) in places {
        let there = journal.text(&to);
        let lost = text.lines().filter(|line| !line.trim().is_empty() && !there.contains(line.trim_end())).count();
        if lost > 0 {
            let message = format!(
                "{lost} lines of {file} would not be in {to}. Nothing was taken, and the originals are as they were."
            );
            return Err(Refusal { code: "lost".to_owned(), message });
        }
        if to == to_divide() {
            divided.push(text.clone());
        }
    }
    Ok((done, divided))
}

/// The log of an earlier day is kept under that day.
fn free_log(to: &FileName, text: &str) -> FileName {
    match day_of(text) {
        Some(day) if to.as_str().starts_with("sessions/") && *to != FileName::today() => FileName::day(day, 0),
        _ => to.clone(),
    }
}

/// Whether a file is as `init` made it.
fn is_begun(file: &FileName, text: &str) -> bool {
    match file.as_str() {
        "core.md" => text.contains("Fresh installation. Ready for first interaction."),
        "sessions/today.md" => text.lines().count() <= 2,
        _ => false,
    }
}

/// Core memory out of a zylos folder's always loaded files, where they fit its budget.
fn compose_core(journal: &mut Documents, given: &[FileText], done: &mut Migrated) {
    let text = |name: &str| given.iter().find(|given| given.file == name).map(|given| given.text.trim());
    let (Some(identity), Some(state)) = (text("identity.md"), text("state.md")) else { return };
    let core = format!(
        "# Core Memory\n\n{}\n\n## Active Working State\n{}\n\n## Key References\n{}\n",
        demoted(identity),
        demoted(state),
        text("references.md").map_or("None yet.".to_owned(), demoted)
    );
    if !is_fresh(&FileName::core(), &journal.text(&FileName::core())) {
        let note = "core.md has words of yours already, so identity.md and state.md are reference files alone.";
        done.notes.push(note.to_owned());
    } else if core.len() < CORE_BUDGET {
        journal.set(FileName::core(), Document::of(&core, Trust::Owner));
        done.taken.push("identity.md, state.md, references.md -> core.md".to_owned());
    } else {
        done.notes.push(format!(
            "Together identity.md, state.md and references.md have {} bytes; core memory may have {CORE_BUDGET}. They are reference \
             files; put what every session must know into core.md.",
            core.len()
        ));
    }
}

/// Headings one below core memory's own.
fn demoted(text: &str) -> String {
    let line = |line: &str| {
        if line.starts_with('#') { format!("**{}**", line.trim_start_matches('#').trim()) } else { line.to_owned() }
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

impl Journals {
    /// Takes files of another layout in, or says what that would do.
    pub async fn migrate(
        self: &Arc<Self>,
        tenant: &TenantId,
        peer: &str,
        given: &[FileText],
        dry_run: bool,
    ) -> Result<Migrated, JournalError> {
        if dry_run {
            let mut journal = self.load(tenant, sql::Files::All).await?;
            return Ok(taken_in_whole(&mut journal, given)?.0);
        }
        self.refuse_while_dividing()?;
        let step = Step::by_person("migrate", peer);
        let (mut done, divided) = self.change(tenant, &step, |journal| taken_in_whole(journal, given)).await?;
        if !divided.is_empty() {
            done.notes.push(self.split(tenant, &divided.join("\n")).await);
        }
        done.notes.push(
            "The originals are where they were. To take this back: butlerd journal migrate --rollback".to_owned(),
        );
        Ok(done)
    }

    /// Has a session divide what the old layout kept in one file. Returns a sentence.
    async fn split(self: &Arc<Self>, tenant: &TenantId, context: &str) -> String {
        let prompt = format!(
            "Divide an old memory file. It is reference/context.md of the journal now. Put what is stable (who the user is, \
             principles, services) into core.md (sections User Profile and Services), the current focus in one to three sentences \
             into core.md (Active Working State), paths, ids and addresses of current work into core.md (Key References), \
             decisions, preferences and projects into their reference files, and what happened lately into the day's log, with \
             journal_write and journal_log. core.md may have {CORE_BUDGET} bytes. Then move its entries on with journal_archive \
             where they are kept elsewhere. Answer nobody.\n\n=== CONTEXT.MD ===\n{context}\n=== END ==="
        );
        let tools = ["journal_read", "journal_write", "journal_log", "journal_archive"];
        let cause = Cause::Own { tenant: tenant.clone(), trust: Trust::System };
        let request = SessionRequest {
            tools: Some(tools.map(str::to_owned).into_iter().collect()),
            apart_from_memory: true,
            ..SessionRequest::new(prompt, cause)
        };
        self.dividing.store(true, Ordering::Release);
        match self.sessions.start(request).await {
            Ok((session, end)) => {
                let (journals, tenant) = (self.clone(), tenant.clone());
                task::spawn(task::Kind::Job, "dividing", async move {
                    let ended = journals.divided(&tenant, session, end.await).await;
                    if let Err(e) = ended {
                        let butler = &journals.butler;
                        tracing::warn!(%butler, %session, error = %e, "the end of the session that divides context.md is not kept");
                    }
                    journals.dividing.store(false, Ordering::Release);
                });
                format!("A session divides context.md: butlerd sessions show {session}")
            }
            Err(e) => {
                self.dividing.store(false, Ordering::Release);
                format!("context.md is reference/context.md and no session could divide it: {e}")
            }
        }
    }

    /// What a session writes while a migration is taken back would stay.
    fn refuse_while_dividing(&self) -> Result<(), JournalError> {
        match self.dividing.load(Ordering::Acquire) {
            true => Err(JournalError::refused(
                "dividing",
                "A session divides context.md just now, and nothing was changed. Wait until it has ended, or stop it: \
                 butlerd sessions (shows it), butlerd sessions cancel ID",
            )),
            false => Ok(()),
        }
    }

    /// The session that divides a file is over. Of one that did not come to its end nothing stays: the file is whole in
    /// `reference/context.md`.
    async fn divided(
        &self,
        tenant: &TenantId,
        began: SessionId,
        end: Option<SessionResult>,
    ) -> Result<(), JournalError> {
        // One that failed before it wrote anything may have had a successor.
        let session = end.as_ref().map_or(began, |end| end.session_id);
        let steps =
            sql::migration_steps(&mut self.lease(tenant).await?, (self.schema(), tenant), Some(session)).await?;
        // One that wrote nothing has divided nothing.
        if end.is_some_and(|end| end.state == SessionState::Succeeded) && !steps.is_empty() {
            return self.note_divided(tenant, session).await;
        }
        let mut stays = Vec::new();
        for step in steps {
            let by = Step::new("migrate_back", sql::HOUSE, None, Trust::System);
            stays.extend(self.take_back(tenant, step, by, (false, false)).await?.1);
        }
        let butler = &self.butler;
        tracing::warn!(%butler, %session, ?stays, "the session that divided context.md came to nothing: what it wrote is taken back");
        Ok(())
    }

    /// Notes beside a session's steps that it came to its end. Where the note is missing, a kill came in between.
    async fn note_divided(&self, tenant: &TenantId, session: SessionId) -> Result<(), JournalError> {
        let mut lease = self.lease(tenant).await?;
        let mut tx = lease.begin().await.map_err(StoreError::query("beginning"))?;
        let done = Step::new("migrate", sql::HOUSE, Some(session), Trust::System);
        sql::apply(&mut tx, self.schema(), &done, &[]).await?;
        Ok(tx.commit().await.map_err(StoreError::query("noting that a file is divided"))?)
    }

    /// What is wrong with the last migration, in a sentence.
    pub async fn migration_trouble(&self, tenant: &TenantId) -> Result<Option<String>, StoreError> {
        if self.dividing.load(Ordering::Acquire) {
            return Ok(None);
        }
        let division = sql::division(&mut self.lease(tenant).await?, (self.schema(), tenant), &to_divide()).await?;
        let trouble = match division {
            sql::Division::Broken => {
                "A session that divided context.md was interrupted, and what it wrote is there. To take the migration back: \
                 butlerd journal migrate --rollback"
            }
            sql::Division::TakenBack => {
                "The session that was to divide context.md came to nothing, and what it wrote was taken back. The file is whole \
                 in reference/context.md: run `butlerd journal migrate` again, or divide it by hand."
            }
            sql::Division::Undone => {
                "No session divided context.md: it is whole in reference/context.md. Run `butlerd journal migrate` again, or \
                 divide it by hand."
            }
            sql::Division::Done => return Ok(None),
        };
        Ok(Some(trouble.to_owned()))
    }

    /// Takes the last migration back: what it and its session made goes, and what they replaced is there again.
    pub async fn migrate_back(&self, tenant: &TenantId, peer: &str) -> Result<Migrated, JournalError> {
        self.refuse_while_dividing()?;
        let steps = sql::migration_steps(&mut self.lease(tenant).await?, (self.schema(), tenant), None).await?;
        if steps.is_empty() {
            return Err(JournalError::refused("not_found", "There is no migration to take back."));
        }
        let mut done = Migrated { taken: Vec::new(), left: Vec::new(), notes: Vec::new() };
        for step in steps {
            let by = Step::by_person("migrate_back", peer);
            let (files, stays) = self.take_back(tenant, step, by, (false, false)).await?;
            done.taken.extend(files.into_iter().map(|change| change.file));
            done.notes.extend(stays);
        }
        done.taken.sort();
        done.taken.dedup();
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(files: &[(&str, &str)]) -> Vec<FileText> {
        files.iter().map(|(file, text)| FileText { file: (*file).to_owned(), text: (*text).to_owned() }).collect()
    }

    fn text(journal: &Documents, file: &str) -> String {
        journal.text(&FileName::read(file).unwrap())
    }

    #[test]
    fn a_memory_folder_of_zylos_is_taken_in() {
        let files = given(&[
            ("identity.md", "# Identity\n\nI am Zylos.\n"),
            ("state.md", "# State\n\nThe garden.\n"),
            ("references.md", "- plan: ~/garden.md\n"),
            ("users/4711/profile.md", "# Ada\n\nLikes mint.\n"),
            ("reference/decisions.md", "# Decisions\n\n### [2026-02-01] Tea\n- **Decision:** mint\n"),
            ("sessions/2026-02-06.md", "# Session Log: 2026-02-06\n\n**09:00** - Dug.\n"),
            ("archive/old.md", "# Old\n\nLong ago.\n"),
            ("notes.txt", "x\n"),
        ]);
        let mut journal = Documents::default();
        let (done, divided) = taken_in_whole(&mut journal, &files).unwrap();
        let core = text(&journal, "core.md");
        for words in ["**Identity**\n\nI am Zylos.", "## Active Working State\n**State**\n\nThe garden.", "~/garden.md"]
        {
            assert!(core.contains(words), "{words}: {core}");
        }
        for (file, words) in [
            ("users/4711.md", "Likes mint."),
            ("reference/decisions.md", "### [2026-02-01] Tea"),
            ("sessions/2026-02-06.md", "**09:00** - Dug."),
            ("archive/old.md", "Long ago."),
        ] {
            assert!(text(&journal, file).contains(words), "{file}: {}", text(&journal, file));
        }
        assert_eq!(done.left, ["notes.txt: no file of the journal is like it"]);
        assert!(divided.is_empty());
    }

    #[test]
    fn a_core_memory_over_its_budget_is_divided() {
        let (fits, over) = ("c".repeat(CORE_BUDGET - 2) + "\n", "c".repeat(CORE_BUDGET - 1) + "\n");
        let mut journal = Documents::default();
        assert!(taken_in_whole(&mut journal, &given(&[("core.md", &fits)])).unwrap().1.is_empty());
        assert_eq!(text(&journal, "core.md"), fits);
        // Neither alone nor added to what is there.
        for mut journal in [Documents::default(), journal] {
            let before = text(&journal, "core.md");
            let (done, divided) = taken_in_whole(&mut journal, &given(&[("core.md", &over)])).unwrap();
            assert_eq!((text(&journal, "core.md"), divided), (before, vec![over.clone()]));
            assert!(text(&journal, "reference/context.md").contains(over.trim_end()));
            assert!(done.notes[0].contains("core.md has 3072 bytes"), "{done:?}");
        }
    }

    #[test]
    fn where_a_line_would_be_lost_nothing_is_taken() {
        // Both are today's log, and the first is so short that it looks like a new one.
        let files = given(&[
            ("sessions/current.md", "**08:00** - Rose.\n"),
            ("sessions/today.md", "# Session Log: 2026-02-07\n\n**09:00** - Dug.\n"),
        ]);
        let refusal = taken_in_whole(&mut Documents::default(), &files).unwrap_err();
        assert_eq!(refusal.code, "lost");
        assert!(refusal.message.starts_with("1 lines of sessions/current.md"), "{}", refusal.message);
    }
}
