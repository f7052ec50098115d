//! What happens in sessions, told as it comes: to the table `session_events` and to whoever watches.
//!
//! Everything is redacted and cut to bounds here, so that rows and live events are the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use super::types::{EventKind, SessionEvent};
use base::redact::household;
use base::{Clock, SessionId, TenantId, text};
use tools::{Auditor, EventRecord};

/// Bytes of one event's JSON, about.
const MAX_EVENT: usize = 16 << 10;
/// Of one session's events: after these only what ends it is stored.
const MAX_EVENTS: i32 = 5000;
const MAX_BYTES: usize = 8 << 20;
/// Those last ones have a bound too: a session that is tried again for ever is none of ours.
const MAX_LAST: i32 = MAX_EVENTS + 100;

/// Tells of one butler's sessions. Cheap to clone.
#[derive(Clone)]
pub struct Transcript {
    inner: Arc<Inner>,
}

struct Inner {
    butler: String,
    clock: Clock,
    auditor: Auditor,
    watchers: broadcast::Sender<SessionEvent>,
    open: Mutex<HashMap<SessionId, Progress>>,
}

/// How far one session's transcript is.
struct Progress {
    tenant: TenantId,
    last: i32,
    bytes: usize,
    full: bool,
    /// Calls without a result so far: name, and when they began.
    calls: HashMap<String, (String, Instant)>,
    /// The text that is being written.
    written: Written,
}

/// A text that is being written: what is there of it, and what was told.
#[derive(Default)]
struct Written {
    raw: String,
    told: String,
}

impl Written {
    /// Takes the next piece. What can be told of the text by now and was not: where it begins, and the text.
    fn push(&mut self, start: usize, piece: &str) -> Option<(usize, String)> {
        if start == 0 {
            *self = Self::default();
        }
        // Whoever has missed a piece waits for the whole, and so does who has heard as much as a row holds.
        if start != self.raw.len() || start + piece.len() > MAX_EVENT {
            return None;
        }
        self.raw.push_str(piece);
        // A secret that has only begun is not known for one yet: what may be its begin is held back.
        let settled = &self.raw[..household().settled(&self.raw)];
        let clean = household().clean(settled.replace('\0', ""));
        let fresh = clean.strip_prefix(self.told.as_str()).filter(|fresh| !fresh.is_empty())?.to_owned();
        Some((std::mem::replace(&mut self.told, clean).len(), fresh))
    }
}

impl Transcript {
    pub fn new(butler: &str, clock: Clock, auditor: Auditor, watchers: broadcast::Sender<SessionEvent>) -> Self {
        Self { inner: Arc::new(Inner { butler: butler.to_owned(), clock, auditor, watchers, open: Mutex::default() }) }
    }

    /// From now on events of this session are stored. To be called when its row is there.
    pub fn open(&self, session: SessionId, tenant: TenantId) {
        let progress =
            Progress { tenant, last: 0, bytes: 0, full: false, calls: HashMap::new(), written: Written::default() };
        self.open_ones().insert(session, progress);
    }

    /// The session's row is closed: tells how it ended. That is not stored here, because the row has it.
    pub fn close(&self, session: SessionId, ended: EventKind) {
        let progress = self.open_ones().remove(&session);
        let (_, kind) = bounded(ended);
        self.send(session, progress.map(|p| p.last + 1), kind);
    }

    /// The session's row can't be closed; the next start does.
    pub fn forget(&self, session: SessionId) {
        self.open_ones().remove(&session);
    }

    /// Tells that something happened. Of a session that is not open only those who watch hear it.
    pub fn tell(&self, session: SessionId, kind: EventKind) {
        let mut open = self.open_ones();
        let Some(progress) = open.get_mut(&session) else {
            drop(open);
            return self.send(session, None, bounded(kind).1);
        };
        if matches!(kind, EventKind::Text { .. }) {
            progress.written = Written::default();
        }
        let (body, kind) = bounded(progress.named(kind));
        // Under the lock, so that numbers are told and written in their order.
        let full = progress.last >= MAX_EVENTS || progress.bytes >= MAX_BYTES;
        if full && !std::mem::replace(&mut progress.full, true) {
            let message = format!(
                "the transcript is full: {} events, {} bytes; what follows is not kept",
                progress.last, progress.bytes
            );
            let (body, cut) = bounded(EventKind::Cut { message });
            self.store(session, progress, body, cut);
        }
        if !full || kind.closes() && progress.last < MAX_LAST {
            self.store(session, progress, body, kind);
        } else {
            self.send(session, None, kind);
        }
    }

    /// Tells those who watch of a piece of text that is being written. It is not stored: the whole text is.
    pub fn write(&self, session: SessionId, start: usize, piece: &str) {
        let mut open = self.open_ones();
        let Some(progress) = open.get_mut(&session) else { return };
        if let Some((start, text)) = progress.written.push(start, piece) {
            // Under the lock, so that it is told before the whole.
            self.send(session, None, EventKind::TextDelta { after: progress.last, start, text });
        }
    }

    /// What was told of the text that a session writes just now. Empty: it writes none.
    pub fn writing(&self, session: SessionId) -> String {
        self.open_ones().get(&session).map(|progress| progress.written.told.clone()).unwrap_or_default()
    }

    /// Waits until all that was told is written.
    pub async fn flush(&self) {
        self.inner.auditor.flush().await;
    }

    fn store(&self, session: SessionId, progress: &mut Progress, body: Map<String, Value>, kind: EventKind) {
        progress.last += 1;
        progress.bytes += length(&body);
        let at = self.inner.clock.now();
        self.inner.auditor.event(EventRecord {
            session_id: session,
            tenant: progress.tenant.clone(),
            seq: progress.last,
            at,
            kind: kind.name(),
            body: Value::Object(body),
        });
        self.send_at(session, Some(progress.last), at, kind);
    }

    fn send(&self, session: SessionId, seq: Option<i32>, kind: EventKind) {
        self.send_at(session, seq, self.inner.clock.now(), kind);
    }

    fn send_at(&self, session_id: SessionId, seq: Option<i32>, at: jiff::Timestamp, kind: EventKind) {
        let butler = self.inner.butler.clone();
        // An error means that nobody watches.
        let _ = self.inner.watchers.send(SessionEvent { butler, session_id, seq, at, kind });
    }

    fn open_ones(&self) -> MutexGuard<'_, HashMap<SessionId, Progress>> {
        self.inner.open.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Progress {
    /// Gives a result the name of its call, and how long it took.
    fn named(&mut self, mut kind: EventKind) -> EventKind {
        match &mut kind {
            EventKind::ToolCall { call: Some(call), name, .. } => {
                self.calls.insert(call.clone(), (name.clone(), Instant::now()));
            }
            EventKind::ToolResult { call: Some(call), name, duration_ms, .. } => {
                if let Some((called, began)) = self.calls.remove(call.as_str()) {
                    *name = called;
                    *duration_ms = i64::try_from(began.elapsed().as_millis()).ok();
                }
            }
            _ => {}
        }
        kind
    }
}

/// The event's body for its row, and the event itself as that has it: redacted and cut.
fn bounded(kind: EventKind) -> (Map<String, Value>, EventKind) {
    let Ok(Value::Object(mut body)) = serde_json::to_value(&kind) else { return (Map::new(), kind) };
    household().clean_members(&mut body);
    body.values_mut().for_each(text::strip_nul);
    let mut most = MAX_EVENT;
    // How a session ended is as long as its row allows.
    while length(&body) > MAX_EVENT + 1024 && !matches!(kind, EventKind::Ended(_)) {
        if most < 64 {
            // Many small things: none of them can be cut.
            for value in body.values_mut().filter(|v| v.is_array() || v.is_object()) {
                *value = json!({"cut": format!("{} bytes", value.to_string().len())});
            }
            break;
        }
        body.values_mut().for_each(|value| shorten(value, most));
        most /= 4;
    }
    let cut = serde_json::from_value(Value::Object(body.clone())).unwrap_or(kind);
    body.remove("event");
    (body, cut)
}

/// Cuts every text in the value to `most` bytes.
fn shorten(value: &mut Value, most: usize) {
    match value {
        Value::String(long) if long.len() > most => *long = text::truncate(long, most),
        Value::Array(items) => items.iter_mut().for_each(|item| shorten(item, most)),
        Value::Object(members) => members.values_mut().for_each(|member| shorten(member, most)),
        _ => {}
    }
}

fn length(body: &Map<String, Value>) -> usize {
    text::json_length(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: Value) -> EventKind {
        EventKind::ToolCall { call: Some("1".into()), name: "t".into(), arguments }
    }

    #[test]
    fn an_event_is_cut_and_says_so() {
        let (body, kind) = bounded(EventKind::Text { text: "x".repeat(100_000) });
        let EventKind::Text { text } = kind else { panic!("{kind:?}") };
        assert!(text.len() < MAX_EVENT + 100 && text.ends_with("bytes cut]"), "{} bytes", text.len());
        assert_eq!(body["text"], text);
        assert!(!body.contains_key("event"));
    }

    #[test]
    fn large_arguments_keep_their_shape_as_far_as_they_can() {
        let (body, _) = bounded(call(json!({"a": "x".repeat(50_000), "b": 1, "c": ["y".repeat(50_000)]})));
        assert!(length(&body) < MAX_EVENT + 2048);
        assert_eq!(body["arguments"]["b"], 1);
        let (body, kind) = bounded(call(json!((0..50_000).collect::<Vec<_>>())));
        assert!(body["arguments"]["cut"].as_str().is_some_and(|cut| cut.ends_with(" bytes")), "{body:?}");
        assert!(matches!(kind, EventKind::ToolCall { .. }));
    }

    #[test]
    fn half_a_secret_is_held_back_until_it_is_none() {
        let secret = base::Secret::new("transcript-secret-2".to_owned());
        let _hidden = household().hide_while(&secret);
        let mut written = Written::default();
        let (mut at, mut told) = (0, String::new());
        for (piece, least) in [
            ("The key: trans", "The key:"),
            ("cript-sec", "The key:"),
            ("ret-2, you see,", "The key: [hidden], you"),
            (" trans", "The key: [hidden], you see"),
            ("late it by yourself; it says", "The key: [hidden], you see, translate it by yourself; it"),
        ] {
            if let Some((start, text)) = written.push(at, piece) {
                assert_eq!(start, told.len());
                told.push_str(&text);
            }
            at += piece.len();
            assert!(told.starts_with(least), "{told:?} after {piece:?}");
            assert!("The key: [hidden], you see, translate it by yourself; it says".starts_with(&told), "{told:?}");
        }
        assert_eq!(written.push(at + 1, "of which something was missed"), None);
        assert!(written.push(0, "begun anew").is_some_and(|(start, _)| start == 0));
    }

    #[test]
    fn what_can_not_be_stored_or_must_not_be_is_taken_out() {
        let secret = base::Secret::new("transcript-secret-1".to_owned());
        let _hidden = household().hide_while(&secret);
        let (body, kind) = bounded(call(json!({"k\0": "a\0b transcript-secret-1"})));
        assert_eq!(body["arguments"], json!({"k": "ab [hidden]"}));
        let EventKind::ToolCall { arguments, .. } = kind else { panic!("{kind:?}") };
        assert_eq!(arguments, json!({"k": "ab [hidden]"}));
    }

    #[test]
    fn names_in_rows_are_those_in_json() {
        let all = [
            EventKind::Prompt { prompt: String::new(), system_bytes: 1 },
            EventKind::Followed { by: SessionId::new(), runtime: String::new(), class: String::new() },
            EventKind::Connected { connected: true },
            call(json!({})),
            EventKind::Usage(Default::default()),
            EventKind::Signal { signal: "SIGTERM".into(), why: String::new() },
            EventKind::Exit { status: None, strays: 0, survivors: vec![], stderr: None },
            EventKind::Skill { name: String::new() },
            EventKind::Unknown,
        ];
        for kind in all {
            let json = serde_json::to_value(&kind).unwrap();
            assert_eq!(json["event"], kind.name());
            let back: EventKind = serde_json::from_value(json).unwrap();
            assert_eq!(back.name(), kind.name());
        }
        let future: EventKind = serde_json::from_value(json!({"event": "dreamt", "of": 1})).unwrap();
        assert_eq!(future.name(), "unknown");
    }
}
