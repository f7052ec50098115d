//! Taking in the files of another layout: the flat one that came before, or a zylos memory folder. The originals stay.

use ::journal::documents::{Document, Documents};
use ::journal::file::{CORE_BUDGET, FileName};
use ::journal::rotate::day_of;
use ::journal::section::Section;
use ::journal::templates::is_untouched;
use ::journal::wire::{FileText, Migrated, Refusal};
use base::{TenantId, Trust};

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
    if core.len() <= CORE_BUDGET {
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
        &self,
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
        let mut done = self.change(tenant, &step, |journal| Ok(take_in(journal, given))).await?;
        // As they were given: each line of the original is there.
        let journal = self.load(tenant, sql::Files::All).await?;
        for FileText { file, text } in given {
            let Some(to) = target(file) else { continue };
            let there = journal.text(&free_log(&to, text));
            let lost = text.lines().filter(|line| !line.trim().is_empty() && !there.contains(line.trim_end())).count();
            if lost > 0 && !text.trim().is_empty() {
                done.notes.push(format!("{file}: {lost} lines are not in {to}"));
            }
        }
        if let Some(context) = given.iter().find(|given| given.file.trim_start_matches("./") == "context.md") {
            done.notes.push(self.split(tenant, &context.text).await);
        }
        done.notes.push(
            "The originals are where they were. To take this back: butlerd journal migrate --rollback".to_owned(),
        );
        Ok(done)
    }

    /// Has a session divide what the old layout kept in one file. Returns a sentence.
    async fn split(&self, tenant: &TenantId, context: &str) -> String {
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
            Ok(session) => format!("A session divides context.md: butlerd sessions show {session}"),
            Err(e) => format!("context.md is reference/context.md and no session could divide it: {e}"),
        }
    }

    /// Takes the last migration back: what it made goes, and what it replaced is there again.
    pub async fn migrate_back(&self, tenant: &TenantId, peer: &str) -> Result<Migrated, JournalError> {
        let mut lease = self.lease(tenant).await?;
        let Some(step) = sql::last_migration(&mut lease, self.schema(), tenant).await? else {
            return Err(JournalError::refused("not_found", "There is no migration to take back."));
        };
        let (made, ended) = sql::step(&mut lease, self.schema(), step).await?;
        drop(lease);
        let back = Step::by_person("migrate_back", peer);
        self.change(tenant, &back, |journal| Ok::<_, Refusal>(undo(journal, &made, ended))).await
    }
}

fn undo(journal: &mut Documents, made: &[uuid::Uuid], ended: Vec<(FileName, Section)>) -> Migrated {
    let mut done = Migrated { taken: Vec::new(), left: Vec::new(), notes: Vec::new() };
    let names: Vec<FileName> = journal.iter().map(|(file, _)| file.clone()).collect();
    let mut gone = 0;
    for file in names {
        let Some(mut document) = journal.take(&file) else { continue };
        let before = document.sections.len();
        document.sections.retain(|section| !made.contains(&section.id));
        if document.sections.len() < before {
            gone += before - document.sections.len();
            done.taken.push(file.to_string());
        }
        journal.set(file, document);
    }
    if gone < made.len() {
        done.notes.push(format!("{} sections of it were changed since and stay.", made.len() - gone));
    }
    let mut at: std::collections::BTreeMap<FileName, usize> = std::collections::BTreeMap::new();
    for (file, section) in ended {
        // As it was before, above what came since.
        let place = at.entry(file.clone()).or_default();
        let sections = &mut journal.open(&file).sections;
        sections.insert((*place).min(sections.len()), section);
        *place += 1;
        if !done.taken.contains(&file.to_string()) {
            done.taken.push(file.to_string());
        }
    }
    done
}
