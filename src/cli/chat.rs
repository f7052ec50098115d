//! `butlerd chat`

use std::collections::{HashMap, HashSet};
use std::io::IsTerminal;
use std::time::Duration;

use http::Method;
use reqwest::Response;
use serde_json::{Value, json};
use uuid::Uuid;

use super::args::ChatArgs;
use super::events::SHOWN;
use super::lines;
use super::out::{Out, Tone, block, brief, one_line};
use super::problem::{FAILED, Problem, UNREACHABLE};
use super::reach::Reach;
use super::{Caller, Outcome};
use base::SseReader;
use inbox::News;
use outbox::Note;

/// The daemon gives a sign of life every 15 s; a connection that is silent for longer is none.
const SILENCE: Duration = Duration::from_secs(45);
/// A stream that ended is taken up again so often without anything new on it.
const IDLE_STREAMS: u32 = 100;
/// So many seconds a question for notes waits for one.
const WAIT: u64 = 25;

pub async fn run(caller: Caller, args: ChatArgs) -> Outcome {
    let out = caller.out;
    let terminal = std::io::stdin().is_terminal();
    let mut lines = lines::typed();
    let mut talk = Talk { reach: Reach::new(&caller), out, args, seen: Seen::default(), held: HashMap::new() };
    if terminal {
        let who = talk.args.butler.as_deref().unwrap_or("the household");
        out.aside(&out.paint(Tone::Faint, &format!("You talk to {}. Ctrl-D ends it.", one_line(who, 40))));
    }
    let mut exit = 0;
    let mut notes = Notes::new(&caller);
    // What came while nobody was there.
    notes.look(out, 0).await;
    loop {
        if terminal {
            out.ask("> ");
        }
        let line = loop {
            tokio::select! {
                line = lines.recv() => break line,
                shown = notes.next(out) => if shown && terminal {
                    out.ask("> ");
                },
                _ = tokio::signal::ctrl_c() => return Ok(exit),
            }
        };
        let Some(line) = line else { return Ok(exit) };
        let (_, text) = line.map_err(|e| Problem::usage(format!("What was typed can't be read: {e}."), ""))?;
        if text.trim().is_empty() {
            continue;
        }
        match talk.say(text.trim_end()).await {
            Ok(true) => {}
            Ok(false) => exit = FAILED,
            // The next one may be right.
            Err(problem) if terminal && problem.code == "invalid_envelope" => problem.tell(out),
            Err(problem) => return Err(problem),
        }
    }
}

/// A conversation.
struct Talk {
    reach: Reach,
    out: Out,
    args: ChatArgs,
    seen: Seen,
    /// The last text of each session: it may turn out to be the answer, which is shown once.
    held: HashMap<Uuid, (String, String)>,
}

/// How a stream came to its end.
enum Stream {
    /// So did the message. Whether it was done.
    Ended(bool),
    /// The daemon or the connection went away. Whether something new had come.
    Cut(bool),
}

impl Talk {
    /// Says one thing and shows what becomes of it, over restarts of the daemon. `false`: it came to nothing.
    async fn say(&mut self, text: &str) -> Result<bool, Problem> {
        // Sent again under this id it is the same message.
        let body = json!({"text": text, "butler": self.args.butler, "thread": self.args.thread,
                          "id": Uuid::now_v7().to_string()});
        self.seen = Seen::default();
        let mut idle = 0;
        loop {
            let ended = tokio::select! {
                ended = self.listen(&body) => ended?,
                _ = tokio::signal::ctrl_c() => return Err(self.left()),
            };
            match ended {
                Stream::Ended(done) => return Ok(done),
                Stream::Cut(true) => idle = 0,
                Stream::Cut(false) => idle += 1,
            }
            if idle > IDLE_STREAMS {
                let message = "The daemon closes the connection again and again.";
                return Err(Problem::new(UNREACHABLE, "unreachable", message, "Look at its log."));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn listen(&mut self, body: &Value) -> Result<Stream, Problem> {
        let mut response = match self.seen.request {
            Some(id) => self.reach.send(Method::GET, &format!("/api/chat/{id}"), None).await?,
            None => self.reach.send(Method::POST, "/api/chat", Some(body)).await?,
        };
        let mut reader = SseReader::default();
        let mut fresh = false;
        while let Some(bytes) = chunk(&mut response).await {
            let events = reader.push(&bytes).map_err(|e| foreign(&e.to_string()))?;
            for event in events {
                let news: News = serde_json::from_str(&event.data).map_err(|e| foreign(&e.to_string()))?;
                if !self.seen.is_new(&news) {
                    continue;
                }
                fresh = true;
                match self.out.json {
                    true => self.out.record(&news),
                    false => self.show(&news),
                }
                if let News::Ended { state, .. } = news {
                    return Ok(Stream::Ended(state == "done"));
                }
            }
        }
        Ok(Stream::Cut(fresh))
    }

    fn show(&mut self, news: &News) {
        let out = self.out;
        let faint = |text: &str| out.line(&out.paint(Tone::Faint, text));
        match news {
            News::Routed { butler, .. } if self.args.butler.is_none() => faint(&format!("→ {}", one_line(butler, 40))),
            News::Text { butler, session_id, text, .. } => {
                self.release(Some(*session_id));
                self.held.insert(*session_id, (butler.clone(), text.clone()));
            }
            News::ToolCall { session_id, name, arguments, .. } => {
                self.release(Some(*session_id));
                faint(&format!("  {} {}", one_line(name, 80), brief(arguments, SHOWN)));
            }
            News::ToolResult { is_error: true, name, content, .. } => {
                faint(&format!("  {} failed: {}", one_line(name, 80), one_line(content, SHOWN)));
            }
            News::Reply { butler, kind, message, emoji, .. } => {
                let said = message.as_deref().or(emoji.as_deref()).unwrap_or_default();
                self.held.retain(|_, (who, text)| who != butler || text.trim() != said.trim());
                let tone = if kind == "failure" { Tone::Bad } else { Tone::Head };
                out.line(&format!("{} {}", out.paint(tone, &format!("{}:", one_line(butler, 40))), block(said)));
            }
            News::Ended { state, error } => {
                self.release(None);
                if let (Some(error), "dead") = (error, state.as_str()) {
                    out.aside(&out.paint(Tone::Bad, &format!("It came to nothing: {}", one_line(error, 1000))));
                }
            }
            _ => {}
        }
    }

    /// Shows what was held back, of one session or of all: it was no answer.
    fn release(&mut self, session: Option<Uuid>) {
        let ids: Vec<Uuid> = self.held.keys().copied().filter(|id| session.is_none_or(|s| s == *id)).collect();
        for (_, text) in ids.iter().filter_map(|id| self.held.remove(id)) {
            for line in block(&text).lines() {
                self.out.line(&self.out.paint(Tone::Faint, &format!("  {line}")));
            }
        }
    }

    /// The person went away; the message is stored, or was not taken.
    fn left(&self) -> Problem {
        match self.seen.request {
            Some(id) => Problem::new(
                FAILED,
                "interrupted",
                "The message is dealt with all the same.",
                format!("See what became of it: butlerd inbox show {id}"),
            ),
            None => Problem::new(
                FAILED,
                "interrupted",
                "Whether the message was taken is not known.",
                "See: butlerd inbox list",
            ),
        }
    }
}

/// The next bytes; `None` where none come any more.
async fn chunk(response: &mut Response) -> Option<bytes::Bytes> {
    match tokio::time::timeout(SILENCE, response.chunk()).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) | Err(_) => None,
    }
}

fn foreign(why: &str) -> Problem {
    let message = format!("The daemon's answer makes no sense here: {why}.");
    Problem::new(FAILED, "foreign_answer", message, "Run the same version of butlerd as the daemon.")
}

/// What butlers and butlerd itself have for the owner, as it comes.
struct Notes {
    reach: Reach,
    /// Shown here, whether or not the daemon knows.
    shown: HashSet<Uuid>,
}

impl Notes {
    fn new(caller: &Caller) -> Self {
        Self { reach: Reach::new(caller), shown: HashSet::new() }
    }

    /// Waits for the next ones and shows them. Dropped while it waits, it has shown nothing.
    async fn next(&mut self, out: Out) -> bool {
        let shown = self.look(out, WAIT).await;
        if !shown {
            // It may have been refused at once.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        shown
    }

    /// Shows what there is, or comes within so many seconds. A daemon that can't be asked shows nothing: what is typed
    /// finds out why.
    async fn look(&mut self, out: Out, wait: u64) -> bool {
        let path = format!("/api/chat/notes?wait={wait}");
        let Ok(response) = self.reach.send(Method::GET, &path, None).await else { return false };
        let notes = match response.bytes().await.map(|bytes| serde_json::from_slice::<Value>(&bytes)) {
            Ok(Ok(mut answer)) => serde_json::from_value::<Vec<Note>>(answer["notes"].take()).unwrap_or_default(),
            _ => return false,
        };
        if notes.is_empty() {
            return false;
        }
        for note in notes.iter().filter(|note| self.shown.insert(note.id)) {
            match out.json {
                true => out.record(&json!({"event": "note", "note": note})),
                false => {
                    let who = out.paint(Tone::Head, &format!("{}:", one_line(&note.from, 40)));
                    out.line(&format!("{who} {}", block(&note.message)));
                }
            }
        }
        let ids: Vec<Uuid> = notes.iter().map(|note| note.id).collect();
        // Not taken, they are offered again, and known here.
        let _ = self.reach.send(Method::POST, "/api/chat/notes", Some(&json!({"seen": ids}))).await;
        true
    }
}

/// What was shown of one message, so that a stream taken up again shows nothing twice.
#[derive(Default)]
struct Seen {
    request: Option<Uuid>,
    parts: HashSet<Uuid>,
    /// The last event of each session.
    sessions: HashMap<Uuid, i32>,
    replies: HashSet<i64>,
}

impl Seen {
    fn is_new(&mut self, news: &News) -> bool {
        match news {
            News::Accepted { request_id, .. } => self.request.replace(*request_id).is_none(),
            News::Routed { segment, .. } => self.parts.insert(*segment),
            News::Session { session_id, .. } => match self.sessions.contains_key(session_id) {
                true => false,
                false => self.sessions.insert(*session_id, 0).is_none(),
            },
            News::Text { session_id, seq, .. }
            | News::ToolCall { session_id, seq, .. }
            | News::ToolResult { session_id, seq, .. } => {
                let last = self.sessions.entry(*session_id).or_default();
                let new = seq.is_none_or(|seq| seq > *last);
                *last = seq.unwrap_or(*last).max(*last);
                new
            }
            News::Reply { seq, .. } => self.replies.insert(*seq),
            News::Ended { .. } => true,
            News::Unknown => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_taken_up_again_shows_nothing_twice() {
        let (request_id, session_id) = (Uuid::now_v7(), Uuid::now_v7());
        let butler = || "health".to_owned();
        let text = |seq| News::Text { butler: butler(), session_id, seq: Some(seq), text: "t".into() };
        let reply = News::Reply {
            seq: 9,
            butler: butler(),
            kind: "reply".into(),
            message: Some("m".into()),
            emoji: None,
            auto: false,
        };
        let first = [
            News::Accepted { request_id, duplicate: false },
            News::Routed { butler: butler(), segment: request_id },
            News::Session { butler: butler(), session_id },
            text(4),
            reply,
        ];
        let mut seen = Seen::default();
        assert!(first.iter().all(|news| seen.is_new(news)));
        assert!(!first.iter().any(|news| seen.is_new(news)));
        assert!(seen.is_new(&text(5)) && seen.request == Some(request_id));
    }
}
