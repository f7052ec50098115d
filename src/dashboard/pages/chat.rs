//! An answer as it is written: what becomes of a message of the chat, as pieces of a list.
//!
//! A piece has an id, and one of the same id takes its place. A browser that lost the stream is told all of it again from
//! the beginning; pieces that it has change into themselves, so nothing is there twice and nothing is missing.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::{Need, Visitor};
use base::task;
use base::text::truncate;
use bytes::Bytes;
use inbox::{Following, News};
use jiff::SignedDuration;
use maud::{Markup, html};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::live::{event, stream};
use crate::parts::line;
use crate::reply::Answer;
use crate::route::{Route, raw};
use crate::time::length;
use crate::visit::Visit;

pub(crate) const ROUTES: &[Route] = &[raw("/live/chat/*", |visit| Box::pin(follow(visit)))];

/// Between two pieces of a text that is being written.
const GATHER: Duration = Duration::from_millis(150);
/// Between two signs of life.
const ALIVE: Duration = Duration::from_secs(15);
/// Pieces that wait for a slow browser; then the stream waits for it.
const WAITING: usize = 16;
/// How much of one text is shown while it is written; the conversation has all of it.
const MOST: usize = 16 * 1024;

async fn follow(visit: &Visit) -> Answer {
    let request: Uuid = visit.parsed(0)?;
    let grant = visit.grant(Need::Work)?;
    let following = visit.calls.follow_chat(&grant, request).await?;
    let (sender, receiver) = mpsc::channel(WAITING);
    let telling = tell(following, sender, visit.visitor.clone(), visit.closing.clone());
    task::spawn(task::Kind::Request, "page-chat", async move {
        // It ends as it may: with the answer, the browser, or the daemon.
        let _ended: Option<()> = telling.await;
    });
    Ok(stream(receiver))
}

/// Tells all that becomes of the message. `None`: nobody listens any more.
async fn tell(
    mut following: Following,
    sender: mpsc::Sender<Bytes>,
    visitor: Visitor,
    closing: CancellationToken,
) -> Option<()> {
    let mut talk = Talk::default();
    let (mut gather, mut alive) = (interval(GATHER), interval(ALIVE));
    gather.set_missed_tick_behavior(MissedTickBehavior::Delay);
    alive.reset();
    sender.send(Bytes::from_static(b"retry: 2000\n\n")).await.ok()?;
    loop {
        let news = {
            // What follows must not be dropped half-way, or news are lost.
            let next = following.next();
            tokio::pin!(next);
            loop {
                tokio::select! {
                    biased;
                    () = sender.closed() => return None,
                    () = closing.cancelled() => return None,
                    news = &mut next => break news,
                    _ = gather.tick(), if talk.grown.is_some() => {
                        visitor.grant(Need::Work).ok()?;
                        if let Some(piece) = talk.growing() {
                            sender.send(event("piece", None, &piece.0)).await.ok()?;
                        }
                    }
                    _ = alive.tick() => {
                        visitor.grant(Need::Work).ok()?;
                        sender.send(Bytes::from_static(b": still here\n\n")).await.ok()?;
                    }
                }
            }
        };
        let Some(news) = news else {
            sender.send(event("over", None, "")).await.ok()?;
            return Some(());
        };
        visitor.grant(Need::Work).ok()?;
        if let Some(piece) = talk.hear(news) {
            sender.send(event("piece", None, &piece.0)).await.ok()?;
        }
    }
}

/// A session's texts, one after the other.
#[derive(Default)]
struct Writing {
    butler: String,
    /// Texts that are whole.
    done: usize,
    /// The one that is being written, as far as it is known.
    text: String,
}

/// What was told, as far as what comes next depends on it.
#[derive(Default)]
struct Talk {
    writing: BTreeMap<Uuid, Writing>,
    /// Whose text has grown since it was last told.
    grown: Option<Uuid>,
    /// The last whole text of each butler, and the id of its piece: an answer may be the same.
    last: BTreeMap<String, (String, String)>,
}

impl Talk {
    /// The piece of the text that has grown.
    fn growing(&mut self) -> Option<Markup> {
        let session = self.grown.take()?;
        let writing = self.writing.get(&session)?;
        Some(text_piece(&text_id(session, writing.done), &writing.butler, &writing.text, true))
    }

    fn hear(&mut self, news: News) -> Option<Markup> {
        match news {
            News::TextDelta { butler, session_id, start, text } => {
                self.grow(butler, session_id, start, &text);
                None
            }
            News::Text { butler, session_id, text, .. } => {
                self.grown = self.grown.filter(|grown| *grown != session_id);
                let writing = self.writing.entry(session_id).or_default();
                let id = text_id(session_id, writing.done);
                (writing.done, writing.text) = (writing.done + 1, String::new());
                let piece = text_piece(&id, &butler, &text, false);
                self.last.insert(butler, (id, text));
                Some(piece)
            }
            News::Reply { seq, butler, message, emoji, kind, .. } => {
                let said = message.or(emoji).unwrap_or_default();
                let same = self.last.get(&butler).filter(|(_, text)| text.trim() == said.trim());
                let id = same.map_or_else(|| format!("answer-{seq}"), |(id, _)| id.clone());
                Some(reply_piece(&id, &butler, &said, kind == "failure"))
            }
            other => aside(other),
        }
    }

    fn grow(&mut self, butler: String, session: Uuid, start: usize, text: &str) {
        let writing = self.writing.entry(session).or_default();
        writing.butler = butler;
        if start == 0 {
            writing.text.clear();
        }
        // What does not fit on comes with the whole text.
        if start == writing.text.len() && start + text.len() <= MOST {
            writing.text.push_str(text);
            self.grown = Some(session);
        }
    }
}

fn text_id(session: Uuid, n: usize) -> String {
    format!("text-{session}-{n}")
}

fn text_piece(id: &str, butler: &str, text: &str, writes: bool) -> Markup {
    html! { li.out id=(id) aria-busy=[writes.then_some("true")] {
        div.dim { strong { (line(butler, 60)) } @if writes { " writes" } @else { " says to itself" } }
        div.said { (truncate(text, MOST)) }
    } }
}

fn reply_piece(id: &str, butler: &str, text: &str, failure: bool) -> Markup {
    html! { li.out.bad[failure] id=(id) {
        div.dim { strong { (line(butler, 60)) } }
        div.said { (truncate(text, MOST)) }
    } }
}

/// What happens on the way to an answer. Of each session one line, which says what it does now.
fn aside(news: News) -> Option<Markup> {
    let session = |id: Uuid, butler: &str, does: &str, what: &str| {
        html! { li.dim id={ "session-" (id) } {
            a href={ "/sessions/" (id) } { (line(butler, 60)) } " " (does) " " code { (line(what, 80)) }
        } }
    };
    Some(match news {
        News::Routed { butler, segment } => {
            html! { li.dim id={ "part-" (segment) } { "Handed to " strong { (line(&butler, 60)) } "." } }
        }
        News::Session { butler, session_id } => html! { li.dim id={ "session-" (session_id) } {
            a href={ "/sessions/" (session_id) } { (line(&butler, 60)) } " is at work."
        } },
        News::ToolCall { butler, session_id, name, .. } => session(session_id, &butler, "calls", &name),
        News::ToolResult { butler, session_id, name, is_error: true, .. } => {
            session(session_id, &butler, "could not call", &name)
        }
        News::Stage { butler, session_id, stage, .. } => session(session_id, &butler, "has got to", &stage),
        News::Waiting { butler, why, again_ms } => {
            let who = butler.unwrap_or_else(|| "The switchboard".to_owned());
            let again = length(SignedDuration::from_millis(i64::try_from(again_ms).unwrap_or(i64::MAX)));
            html! { li.dim id="waits" { (line(&who, 60)) " waits: " (line(&why, 300)) ". Tried again in " (again) "." } }
        }
        News::Ended { state, error } if state == "dead" => html! { li.bad id="ended" {
            "This came to nothing" @if let Some(error) = error { ": " (line(&error, 500)) } "."
        } },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Uuid {
        Uuid::from_u128(7)
    }

    fn delta(start: usize, text: &str) -> News {
        News::TextDelta { butler: "health".to_owned(), session_id: id(), start, text: text.to_owned() }
    }

    fn text(text: &str) -> News {
        News::Text { butler: "health".to_owned(), session_id: id(), seq: Some(1), text: text.to_owned() }
    }

    #[test]
    fn a_text_grows_in_its_own_place_and_becomes_the_answer() {
        let mut talk = Talk::default();
        for (start, part) in [(0, "All "), (4, "is "), (20, "lost"), (7, "<b>well</b>")] {
            assert!(talk.hear(delta(start, part)).is_none());
        }
        let growing = talk.growing().unwrap().0;
        let own = format!("id=\"text-{}-0\"", id());
        assert!(growing.contains(&own) && growing.contains("All is &lt;b&gt;well&lt;/b&gt;"), "{growing}");
        assert!(talk.growing().is_none());
        let whole = talk.hear(text("All is well.")).unwrap().0;
        assert!(whole.contains(&own), "{whole}");
        let reply = |seq, said: &str| News::Reply {
            seq,
            butler: "health".to_owned(),
            kind: "reply".to_owned(),
            message: Some(said.to_owned()),
            emoji: None,
            auto: true,
        };
        let answer = talk.hear(reply(3, "All is well.")).unwrap().0;
        assert!(answer.contains(&own) && !answer.contains("itself"), "{answer}");
        assert!(talk.hear(reply(4, "And more.")).unwrap().0.contains("id=\"answer-4\""));
        let second = talk.hear(text("next")).unwrap().0;
        assert!(second.contains(&format!("id=\"text-{}-1\"", id())), "{second}");
    }

    #[test]
    fn a_stream_keeps_no_more_than_it_shows() {
        let mut talk = Talk::default();
        talk.hear(delta(0, &"x".repeat(MOST)));
        talk.hear(delta(MOST, "y"));
        assert_eq!(talk.writing[&id()].text.len(), MOST);
    }
}
