//! Following one message from the terminal, over restarts of the daemon.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use http::Method;
use reqwest::Response;
use serde_json::Value;
use uuid::Uuid;

use crate::problem::{FAILED, Problem, UNREACHABLE};
use crate::reach::Reach;
use base::SseReader;
use inbox::News;

/// The daemon gives a sign of life every 15 s; a connection that is silent for longer is none.
const SILENCE: Duration = Duration::from_secs(45);
/// A stream that ended is taken up again so often without anything new on it.
const IDLE_STREAMS: u32 = 100;

/// Says one thing and hears what becomes of it.
pub struct Follow {
    reach: Reach,
    seen: Seen,
}

/// How a stream came to its end.
enum Stream {
    /// So did the message. Whether it was done.
    Ended(bool),
    /// The daemon or the connection went away. Whether something new had come.
    Cut(bool),
}

impl Follow {
    pub fn new(reach: Reach) -> Self {
        Self { reach, seen: Seen::default() }
    }

    /// Says one thing; `told` hears each thing that becomes of it once. `false`: it came to nothing. `body` names the
    /// message: sent again under its id it is the same.
    pub async fn say(&mut self, body: &Value, mut told: impl FnMut(&News)) -> Result<bool, Problem> {
        let mut idle = 0;
        loop {
            match self.listen(body, &mut told).await? {
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

    async fn listen(&mut self, body: &Value, told: &mut impl FnMut(&News)) -> Result<Stream, Problem> {
        let mut response = match self.seen.request {
            Some(id) => self.reach.send(Method::GET, &format!("/api/chat/{id}"), None).await?,
            None => self.reach.send(Method::POST, "/api/chat", Some(body)).await?,
        };
        let mut reader = SseReader::default();
        let mut fresh = false;
        while let Some(bytes) = chunk(&mut response).await {
            let events = reader.push(&bytes).map_err(|e| Problem::foreign(&e))?;
            for event in events {
                let news: News = serde_json::from_str(&event.data).map_err(|e| Problem::foreign(&e))?;
                if !self.seen.is_new(&news) {
                    continue;
                }
                fresh = true;
                told(&news);
                if let News::Ended { state, .. } = news {
                    return Ok(Stream::Ended(state == "done"));
                }
            }
        }
        Ok(Stream::Cut(fresh))
    }

    /// The person went away; the message is stored, or was not taken.
    pub fn left(&self) -> Problem {
        let (message, next) = match self.seen.request {
            Some(id) => (
                "The household works on the message all the same.",
                format!("See what became of it: butlerd inbox show {id}"),
            ),
            None => ("It is not known whether the message was taken.", "See: butlerd inbox list".to_owned()),
        };
        Problem::new(FAILED, "interrupted", message, next)
    }
}

/// The next bytes; `None` where none come any more.
async fn chunk(response: &mut Response) -> Option<bytes::Bytes> {
    match tokio::time::timeout(SILENCE, response.chunk()).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) | Err(_) => None,
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
            | News::Stage { session_id, seq, .. }
            | News::ToolCall { session_id, seq, .. }
            | News::ToolResult { session_id, seq, .. } => {
                let last = self.sessions.entry(*session_id).or_default();
                let new = seq.is_none_or(|seq| seq > *last);
                *last = seq.unwrap_or(*last).max(*last);
                new
            }
            News::Reply { seq, .. } => self.replies.insert(*seq),
            News::TextDelta { .. } | News::Waiting { .. } | News::Ended { .. } => true,
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
