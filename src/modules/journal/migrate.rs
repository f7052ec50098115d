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

/// Takes files in. Returns what each became, and what was left alone.
fn take_in(journal: &mut Documents, given: &[FileText]) -> Migrated {
    let mut done = Migrated { taken: Vec::new(), left: Vec::new(), notes: Vec::new() };
    for FileText { file, text } in given {
        let Some(to) = target(file) else {
            done.left.push(format!("{file}: no file of the journal is like it"));
            continue;
        };
        if text.trim().is_empty() {
            done.left.push(format!("{file}: it is empty"));
            continue;
        }
        if to == FileName::core() && text.len() > CORE_BUDGET {
            done.notes.push(format!(
                "{file} has {} bytes and core memory may have {CORE_BUDGET}: shorten it in the journal.",
                text.len()
            ));
        }
        let to = free_log(&to, text);
        let new = Document::of(text, Trust::Owner);
        let now = journal.get(&to).map(Document::text).unwrap_or_default();
        let fresh = now.trim().is_empty() || is_untouched(&to, &now) || is_begun(&to, &now);
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
    done
}

/// Takes files in as they were given: where a line of one would be lost, none is taken.
fn taken_in_whole(journal: &mut Documents, given: &[FileText]) -> Result<Migrated, Refusal> {
    let done = take_in(journal, given);
    for FileText { file, text } in given {
        let Some(to) = target(file) else { continue };
        let there = journal.text(&free_log(&to, text));
        let lost = text.lines().filter(|line| !line.trim().is_empty() && !there.contains(line.trim_end())).count();
        if lost > 0 {
            let message = format!(
                "{lost} lines of {file} would not be in {to}. Nothing was taken, and the originals are as they were."
            );
            return Err(Refusal { code: "lost".to_owned(), message });
        }
    }
    Ok(done)
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
    if core.len() < CORE_BUDGET {
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
            return Ok(take_in(&mut journal, given));
        }
        let step = Step::by_person("migrate", peer);
        let mut done = self.change(tenant, &step, |journal| taken_in_whole(journal, given)).await?;
        if let Some(context) = given.iter().find(|given| given.file.trim_start_matches("./") == "context.md") {
            done.notes.push(self.split(tenant, &context.text).await);
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
        match self.sessions.start(request).await {
            Ok((session, end)) => {
                self.dividing.store(true, Ordering::Release);
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
            Err(e) => format!("context.md is reference/context.md and no session could divide it: {e}"),
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
        if end.is_some_and(|end| end.state == SessionState::Succeeded) {
            return self.note_divided(tenant, session).await;
        }
        let steps = sql::migration_steps(&mut self.lease(tenant).await?, self.schema(), tenant, Some(session)).await?;
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
        Ok(match sql::division(&mut self.lease(tenant).await?, self.schema(), tenant).await? {
            sql::Division::Broken => Some(
                "A session that divided context.md was interrupted, and what it wrote is there. To take the migration back: \
                 butlerd journal migrate --rollback"
                    .to_owned(),
            ),
            sql::Division::TakenBack => Some(
                "The session that was to divide context.md came to nothing, and what it wrote was taken back. The file is whole \
                 in reference/context.md: run `butlerd journal migrate` again, or divide it by hand."
                    .to_owned(),
            ),
            sql::Division::Done => None,
        })
    }

    /// Takes the last migration back: what it and its session made goes, and what they replaced is there again.
    pub async fn migrate_back(&self, tenant: &TenantId, peer: &str) -> Result<Migrated, JournalError> {
        let steps = sql::migration_steps(&mut self.lease(tenant).await?, self.schema(), tenant, None).await?;
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
