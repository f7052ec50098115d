//! Server-sent events out of a stream of bytes.

/// One event: its name (empty where the server gave none) and its data lines, joined.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    pub name: String,
    pub data: String,
}

/// An event without end would fill the memory.
const LARGEST_EVENT: usize = 16 * 1024 * 1024;

/// Gathers bytes until events are whole. Understands LF and CRLF line ends.
#[derive(Debug, Default)]
pub struct SseReader {
    buffer: Vec<u8>,
    searched: usize,
    current: SseEvent,
    has_data: bool,
}

/// A single event larger than 16 MiB.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the server sent an event of more than 16 MiB")]
pub struct EventTooLarge;

impl SseReader {
    /// Takes the next bytes and returns the events that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLarge> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut start = 0;
        while let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
            let end = self.searched + at;
            let line = String::from_utf8_lossy(&self.buffer[start..end]).into_owned();
            events.extend(self.line(line.trim_end_matches('\r')));
            start = end + 1;
            self.searched = start;
        }
        self.buffer.drain(..start);
        self.searched = self.buffer.len();
        if self.buffer.len() + self.current.data.len() > LARGEST_EVENT {
            return Err(EventTooLarge);
        }
        Ok(events)
    }

    /// The stream has ended. An event whose blank line is missing counts all the same: some servers leave it out.
    pub fn finish(mut self) -> Option<SseEvent> {
        let rest = String::from_utf8_lossy(&self.buffer).into_owned();
        self.line(rest.trim_end_matches('\r')).or_else(|| self.line(""))
    }

    fn line(&mut self, line: &str) -> Option<SseEvent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.current);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.current.name = value.to_owned(),
            "data" => {
                if self.has_data {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(value);
                self.has_data = true;
            }
            // Comments (an empty field) keep the connection alive; ids and reconnection times don't concern a POST.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str =
        ": hello\r\nevent: a\r\ndata: {\"x\":\r\ndata: \"ä\"}\r\n\r\nevent: ping\n\ndata:[DONE]\n\nevent: b\ndata: 2";

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let wanted = [("a", "{\"x\":\n\"ä\"}"), ("", "[DONE]"), ("b", "2")];
        for size in 1..STREAM.len() {
            let mut reader = SseReader::default();
            let mut events = Vec::new();
            for chunk in STREAM.as_bytes().chunks(size) {
                events.extend(reader.push(chunk).unwrap());
            }
            events.extend(reader.finish());
            let got: Vec<(&str, &str)> = events.iter().map(|e| (e.name.as_str(), e.data.as_str())).collect();
            assert_eq!(got, wanted, "cut into {size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut reader = SseReader::default();
        let chunk = vec![b'x'; 4 * 1024 * 1024];
        let mut outcome = Ok(Vec::new());
        for _ in 0..5 {
            outcome = reader.push(&chunk);
        }
        assert_eq!(outcome, Err(EventTooLarge));
    }
}
