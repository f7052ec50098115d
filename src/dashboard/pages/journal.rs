//! The journal: its files, its checkpoints, and what somebody edited and nobody took in yet.

use admin::calls::{HouseApiServer, LocalAnswersApiServer};
use journal::wire::{Checked, Checkpoint, Edit, EditId, FileState, Level, Status};
use maud::{Markup, html};

use super::answers::not_now;
use crate::form::encoded;
use crate::parts::{Tone, count, crumbs, empty, line, note, said, toned};
use crate::reply::{Answer, Did, PageError, Reply, View};
use crate::route::{Route, get, post};
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[
    get("/journal", |visit| Box::pin(list(visit))),
    get("/journal/*", |visit| Box::pin(one(visit))),
    get("/journal/*/file", |visit| Box::pin(file(visit))),
    get("/journal/*/checkpoints", |visit| Box::pin(older(visit))),
    post("/journal/*/accept", |visit| Box::pin(accept(visit))),
    post("/journal/*/check", |visit| Box::pin(check(visit))),
];

/// Checkpoints on a page.
const SHOWN: u32 = 50;

/// The butlers that have a module switched on.
pub(super) async fn with_module(visit: &Visit, module: &str) -> Result<Vec<String>, PageError> {
    let house = visit.calls.status(&visit.ext).await?;
    let has = |b: &butler::ButlerStatus| b.modules.get(module).is_some_and(|state| state.enabled);
    Ok(house.butlers.into_iter().filter(has).map(|b| b.name).collect())
}

async fn list(visit: &Visit) -> Answer {
    let butlers = with_module(visit, "journal").await?;
    if let [only] = butlers.as_slice() {
        return Ok(Reply::Go { to: format!("/journal/{only}"), did: Did::Nothing });
    }
    let body = html! {
        @if butlers.is_empty() { (empty("There is no journal. Write [modules.journal] into a butler's butler.toml.")) }
        ul.cards { @for name in &butlers { li { a href={ "/journal/" (name) } { "The journal of " (name) } } } }
    };
    Ok(View::new("Journal", body).into())
}

/// The butler that a path names, which has a journal.
async fn named(visit: &Visit) -> Result<String, PageError> {
    let name = visit.part(0);
    let butlers = with_module(visit, "journal").await?;
    butlers.into_iter().find(|butler| butler == name).ok_or_else(PageError::nothing_here)
}

async fn one(visit: &Visit) -> Answer {
    let (calls, ext, name) = (&visit.calls, &visit.ext, named(visit).await?);
    let (status, edits, checkpoints) = tokio::join!(
        calls.journal_status(ext, name.clone()),
        calls.journal_edits(ext, name.clone()),
        calls.journal_checkpoints(ext, name.clone(), None, SHOWN + 1),
    );
    let body = html! {
        (crumbs(&[("Journals", "/journal"), (&name, &format!("/butlers/{name}"))]))
        @match &edits { Ok(edits) => (edits_of(visit, &name, edits)), Err(why) => (not_now(why)) }
        @match &status { Ok(status) => (state(visit, &name, status)), Err(why) => (not_now(why)) }
        h2 { "Checkpoints" }
        @match &checkpoints { Ok(all) => (checkpoints_of(visit, &name, all)), Err(why) => (not_now(why)) }
    };
    // What is taken in is what was looked at: with an edit to decide on the page stays as it is.
    let still = edits.as_ref().is_ok_and(Vec::is_empty);
    Ok(View::new(format!("The journal of {name}"), body).live_if(still, format!("butler/{name}")).into())
}

/// What somebody edited: shown whole, taken in with one press, by the hashes of what was shown.
fn edits_of(visit: &Visit, butler: &str, edits: &[Edit]) -> Markup {
    html! { @if !edits.is_empty() {
        h2 { "Edited, not taken in yet" }
        @for (n, edit) in edits.iter().enumerate() {
            section.card aria-labelledby={ "edit-" (n) } {
                h3 id={ "edit-" (n) } { (edit.id.file) }
                (diff(&edit.diff))
                @for conflict in &edit.conflicts { (note(Tone::Warn, &html! { (conflict) })) }
                @let fields = [("file", edit.id.file.as_str()), ("sha256", edit.id.sha256.as_str())];
                (visit.button(&format!("/journal/{butler}/accept"), "Accept", "main", &fields))
            }
        }
    } }
}

/// Lines that went and came.
fn diff(text: &str) -> Markup {
    html! { pre.diff tabindex="0" { @for line in text.lines() {
        @if line.starts_with('+') { ins { (line) } } @else if line.starts_with('-') { del { (line) } } @else { (line) }
        "\n"
    } } }
}

fn state(visit: &Visit, butler: &str, status: &Status) -> Markup {
    html! {
        @for trouble in &status.troubles { (note(Tone::Bad, &html! { (trouble) })) }
        h2 { "Files" }
        @if status.files.is_empty() { (empty("It has no files yet. Make them with: butlerd journal init")) }
        @else { (files(butler, &status.files)) }
        p.dim { (count(i128::from(status.sessions))) " logs of earlier days, " (count(i128::from(status.archive))) " files in the archive, in "
            code { (status.dir) } "." }
        (visit.button(&format!("/journal/{butler}/check"), "Check it", "", &[]))
        h2 { "How far conversations are summarized" }
        @match &status.sync {
            None => (note(Tone::Warn, &html! { "It is unknown, because the log of conversations can't be read now." })),
            Some(sync) => dl.facts {
                dt { "Not summarized" } dd { (count(i128::from(sync.unsummarized_count))) " conversations"
                    @if sync.unsummarized_count > i64::from(status.threshold) { " " (toned(Tone::Warn, "due")) } }
                dt { "Summarized from" } dd { (status.threshold) " on" }
                dt { "Last checkpoint" } dd { @match &status.last_checkpoint {
                    Some(last) => { "#" (last.id) ", " (visit.now.when(last.made_at)) ": " (line(&last.summary, 300)) }
                    None => "none",
                } }
            },
        }
    }
}

fn files(butler: &str, all: &[FileState]) -> Markup {
    let kilobytes = |bytes: u64| format!("{:.1} KB", bytes as f64 / 1024.0);
    html! { div.wide tabindex="0" { table {
        thead { tr { th { "File" } th { "What" } th.num { "Size" } th.num { "Budget" } th.num { "Entries" } th { "State" } } }
        tbody { @for file in all { tr {
            td { @if file.level == Level::Missing { (file.file) }
                @else { a href={ "/journal/" (butler) "/file?name=" (encoded(&file.file)) } { (file.file) } } }
            td { (file.label) @if let Some(date) = &file.date { " " span.dim { (date) } } }
            td.num { @if file.level == Level::Missing { "–" } @else { (kilobytes(file.bytes)) } }
            td.num { @if let Some(budget) = file.budget { (kilobytes(budget)) } @else { "–" } }
            td.num { @if let Some(entries) = file.entries { (count(entries)) } @else { "–" } }
            td { @match file.level {
                Level::Ok => (toned(Tone::Good, "ok")),
                Level::Warn => (toned(Tone::Warn, "nearly too large")),
                Level::Over => (toned(Tone::Bad, "too large")),
                Level::Missing => (toned(Tone::Bad, "missing")),
            } }
        } } }
    } } }
}

/// A page of checkpoints; one more than it shows says that there are older ones.
fn checkpoints_of(visit: &Visit, butler: &str, all: &[Checkpoint]) -> Markup {
    let (shown, rest) = all.split_at(all.len().min(SHOWN as usize));
    let last = shown.last().filter(|_| !rest.is_empty());
    html! {
        @if all.is_empty() { (empty("None yet. One is made when conversations are summarized.")) }
        ul.rows { @for one in shown { li {
            "#" (one.id) " " (visit.now.when(one.made_at)) " " span.dim { (count(i128::from(one.count))) " conversations, "
                (one.start_id) " to " (one.end_id) }
            (said(&one.summary))
        } } }
        @if let Some(last) = last {
            p { a rel="next" href={ "/journal/" (butler) "/checkpoints?before=" (last.id) } { "Older checkpoints" } }
        }
    }
}

/// Checkpoints before one.
async fn older(visit: &Visit) -> Answer {
    let name = named(visit).await?;
    let before = visit.query.get("before").map(str::parse::<i64>).transpose();
    let before = before.map_err(|_| PageError::invalid("A checkpoint is named by its number."))?;
    let all = visit.calls.journal_checkpoints(&visit.ext, name.clone(), before, SHOWN + 1).await?;
    let body = html! {
        (crumbs(&[("The journal", &format!("/journal/{name}"))]))
        @if all.is_empty() && before.is_some() { (empty("There is none before that.")) }
        @else { (checkpoints_of(visit, &name, &all)) }
    };
    Ok(View::new(format!("Checkpoints of {name}"), body).into())
}

async fn file(visit: &Visit) -> Answer {
    let name = named(visit).await?;
    let wanted = visit.query.get("name").ok_or_else(PageError::nothing_here)?;
    let shown = visit.calls.journal_file(&visit.ext, name.clone(), wanted.to_owned()).await?;
    let body = html! {
        (crumbs(&[("The journal", &format!("/journal/{name}"))]))
        @if shown.text.trim().is_empty() { (empty("It is empty.")) } @else { (said(&shown.text)) }
    };
    Ok(View::new(shown.file, body).into())
}

async fn accept(visit: &Visit) -> Answer {
    let name = named(visit).await?;
    let field = |name: &str| visit.form.get(name).map(str::to_owned);
    let (Some(file), Some(sha256)) = (field("file"), field("sha256")) else {
        return Err(PageError::invalid("The form does not say what you saw."));
    };
    let edits = vec![EditId { file, sha256 }];
    let accepted = visit.calls.journal_accept(&visit.ext, name.clone(), edits, true).await?;
    if let Some(refused) = accepted.refused.first() {
        return Err(PageError::new(http::StatusCode::CONFLICT, refused.why.clone()));
    }
    if !accepted.changed.is_empty() {
        let why = "The file changed since it was shown, so nothing was taken from it. Look at it again.";
        return Err(PageError::new(http::StatusCode::CONFLICT, why));
    }
    Ok(Reply::Go { to: format!("/journal/{name}"), did: Did::Stored })
}

async fn check(visit: &Visit) -> Answer {
    let name = named(visit).await?;
    let Checked { files: all, findings, ok } = visit.calls.journal_check(&visit.ext, name.clone()).await?;
    let body = html! {
        (crumbs(&[("The journal", &format!("/journal/{name}"))]))
        @if ok { (note(Tone::Good, &html! { "Nothing is left to do." })) }
        @else { (note(Tone::Warn, &html! { "Something is left to do." })) }
        @if !findings.is_empty() { ul { @for finding in &findings { li { (finding) } } } }
        (files(&name, &all))
    };
    Ok(View::new("The journal was checked", body).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_text_with_its_lines_marked() {
        let shown = diff("-<b>old</b>\n+<script>new</script>\n same").into_string();
        assert!(shown.contains("<del>-&lt;b&gt;old") && shown.contains("<ins>+&lt;script"), "{shown}");
    }
}
