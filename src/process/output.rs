//! What a child says, read as it comes, within bounds.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

/// Bounds of what is kept of a child's output at any time. The child itself is never held up by them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputLimits {
    /// Bytes of one line; a longer one is cut.
    pub line: usize,
    /// Bytes of standard output in all, and as many of standard error; what comes after is thrown away.
    pub total: u64,
    /// Bytes of standard error that are kept, the last ones.
    pub stderr_tail: usize,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self { line: 1 << 20, total: 64 << 20, stderr_tail: 16 << 10 }
    }
}

/// One line of standard output, without its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Bytes that are no UTF-8 are replaced.
    pub text: String,
    /// It was longer than allowed, and this is its beginning.
    pub cut: bool,
    /// It had a line feed. The last line of a process that died while writing has none.
    pub ended: bool,
}

/// What comes next of a child's standard output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    Line(Line),
    /// The child has written more than [`OutputLimits::total`]. Said once; nothing but the end follows.
    TooMuch,
}

const CHUNK: usize = 64 << 10;

/// The lines of a pipe.
pub struct Lines {
    pipe: pipe::Receiver,
    limits: OutputLimits,
    chunk: Box<[u8]>,
    /// The part of `chunk` that is read from the pipe but not yet taken.
    from: usize,
    to: usize,
    line: Vec<u8>,
    cut: bool,
    total: u64,
    said_too_much: bool,
}

impl fmt::Debug for Lines {
    /// Without what was read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("limits", &self.limits).field("total", &self.total).finish_non_exhaustive()
    }
}

impl Lines {
    /// Reads from the pipe's end `fd`. Needs a runtime.
    pub(super) fn new(fd: OwnedFd, limits: OutputLimits) -> io::Result<Self> {
        Ok(Self {
            pipe: pipe::Receiver::from_owned_fd(fd)?,
            limits,
            chunk: vec![0; CHUNK].into_boxed_slice(),
            from: 0,
            to: 0,
            line: Vec::new(),
            cut: false,
            total: 0,
            said_too_much: false,
        })
    }

    /// The next line, or `None` when everybody has closed the pipe. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> io::Result<Option<Output>> {
        loop {
            if self.total > self.limits.total {
                self.from = self.to;
                if !self.said_too_much {
                    self.said_too_much = true;
                    self.line = Vec::new();
                    return Ok(Some(Output::TooMuch));
                }
            } else if let Some(line) = self.take() {
                return Ok(Some(Output::Line(line)));
            }
            match read(&self.pipe, &mut self.chunk).await? {
                0 if self.line.is_empty() => return Ok(None),
                0 => return Ok(Some(Output::Line(self.finish(false)))),
                n => {
                    (self.from, self.to) = (0, n);
                    self.total += n as u64;
                }
            }
        }
    }

    /// The next line, if all of it was read already. To be asked between two calls of [`Lines::next`], it spares
    /// whoever waits for other things too the waiting: in a flood there are thousands of lines to one read.
    pub fn at_hand(&mut self) -> Option<Line> {
        if self.total > self.limits.total { None } else { self.take() }
    }

    /// Takes what there is of the line at hand, and the line itself if that ends it.
    fn take(&mut self) -> Option<Line> {
        let rest = &self.chunk[self.from..self.to];
        let end = rest.iter().position(|b| *b == b'\n');
        let part = &rest[..end.unwrap_or(rest.len())];
        let room = self.limits.line - self.line.len();
        self.cut |= part.len() > room;
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        self.from += part.len() + usize::from(end.is_some());
        end.map(|_| self.finish(true))
    }

    fn finish(&mut self, ended: bool) -> Line {
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        let text = String::from_utf8_lossy(&self.line).into_owned();
        // One long line shall not hold its memory for the rest of the session.
        if self.line.capacity() > CHUNK {
            self.line = Vec::new()
        } else {
            self.line.clear()
        }
        Line { text, cut: std::mem::take(&mut self.cut), ended }
    }
}

/// What is there to read, at least one byte; 0 at the end. Nothing is lost if the future is dropped.
async fn read(pipe: &pipe::Receiver, into: &mut [u8]) -> io::Result<usize> {
    loop {
        pipe.readable().await?;
        match pipe.try_read(into) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            other => return other,
        }
    }
}

/// The last bytes of a stream.
#[derive(Default)]
pub(super) struct Tail {
    bytes: Vec<u8>,
    dropped: bool,
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tail({} bytes)", self.bytes.len())
    }
}

impl Tail {
    fn push(&mut self, part: &[u8], max: usize) {
        self.bytes.extend_from_slice(part);
        if let Some(over) = self.bytes.len().checked_sub(max).filter(|over| *over > 0) {
            self.bytes.drain(..over);
            self.dropped = true;
        }
    }

    /// As text, without control characters; its first line is left out where its beginning is gone.
    pub fn text(&self) -> String {
        let mut bytes = self.bytes.as_slice();
        if self.dropped
            && let Some(end) = bytes.iter().position(|b| *b == b'\n')
        {
            bytes = &bytes[end + 1..];
        }
        base::text::clean(&String::from_utf8_lossy(bytes))
    }
}

/// Reads standard error to its end and keeps its last bytes in `tail`. Once it is more than allowed, `flooded` fires.
pub(super) async fn keep_tail(
    pipe: pipe::Receiver,
    limits: OutputLimits,
    tail: std::sync::Arc<std::sync::Mutex<Tail>>,
    flooded: CancellationToken,
) {
    let mut chunk = vec![0; 8 << 10];
    let mut total = 0;
    while let Ok(n @ 1..) = read(&pipe, &mut chunk).await {
        tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(&chunk[..n], limits.stderr_tail);
        total += n as u64;
        if total > limits.total {
            flooded.cancel();
        }
    }
}
