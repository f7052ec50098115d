//! The generator of load: keep-alive connections in a closed loop, on one thread, with requests rendered beforehand.
//!
//! Readiness comes from epoll directly, because whatever the generator spends is taken from the servers that share the
//! cores with it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Failed;
use crate::part::{Measured, Window};

/// Stands in a body for what is different in each request; digits take its place.
pub const UNIQUE: &str = "@@@@@@@@@@@@";

/// What to send where.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    pub port: u16,
    /// `/mcp`, or where messages are handed in.
    pub path: String,
    /// The connections take turns with them; none: there is nothing to show.
    pub tokens: Vec<String>,
    pub window: Window,
    /// One connection for each: the body of its requests.
    pub bodies: Vec<String>,
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    /// Where in the request its number stands.
    unique: Option<usize>,
    number: u64,
    sent: Instant,
    buffer: Vec<u8>,
}

/// Takes an order from standard input, carries it out and tells the result.
pub fn run() -> Result<(), Failed> {
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line)?;
    let mut connections = Vec::new();
    for (n, body) in order.bodies.iter().enumerate() {
        let stream = TcpStream::connect(("127.0.0.1", order.port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let token = order.tokens.get(n % order.tokens.len().max(1));
        let request = render(&order, token, body);
        let unique = find(&request, UNIQUE.as_bytes());
        // The rounds of one run follow one another, and none repeats another's numbers.
        let number = started_at();
        let (sent, buffer) = (Instant::now(), Vec::with_capacity(4096));
        connections.push(Connection { stream, request, unique, number, sent, buffer });
    }
    let poll = Poll::new()?;
    for (i, connection) in connections.iter_mut().enumerate() {
        poll.add(connection.stream.as_raw_fd(), i as u64)?;
        connection.send(Instant::now())?;
    }
    let begin = Instant::now() + Duration::from_millis(order.window.warm_up_ms);
    drive(&poll, &mut connections, begin, None)?;
    println!("\"measuring\"");
    let mut kept = Kept { latencies: Vec::with_capacity(1 << 20), errors: 0 };
    let started = Instant::now();
    let end = started + Duration::from_millis(order.window.measured_ms);
    drive(&poll, &mut connections, end, Some(&mut kept))?;
    let measured = Measured::of(kept.latencies, kept.errors, started.elapsed().as_secs_f64());
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

fn render(order: &Order, token: Option<&String>, body: &str) -> Vec<u8> {
    let token = token.map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
    format!(
        "POST {} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{token}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n\
         Content-Length: {}\r\n\r\n{body}",
        order.path,
        order.port,
        body.len()
    )
    .into_bytes()
}

struct Kept {
    latencies: Vec<u32>,
    errors: u64,
}

/// Answers answers with requests until `end`.
fn drive(poll: &Poll, connections: &mut [Connection], end: Instant, mut kept: Option<&mut Kept>) -> Result<(), Failed> {
    let mut ready = Vec::with_capacity(connections.len());
    loop {
        poll.wait(&mut ready)?;
        for index in &ready {
            let connection = &mut connections[*index as usize];
            let Some(well) = connection.receive()? else { continue };
            let now = Instant::now();
            if let Some(kept) = kept.as_deref_mut() {
                let ns = (now - connection.sent).as_nanos();
                kept.latencies.push(u32::try_from(ns).unwrap_or(u32::MAX));
                kept.errors += u64::from(!well);
            }
            connection.send(now)?;
        }
        if Instant::now() >= end {
            return Ok(());
        }
    }
}

impl Connection {
    fn send(&mut self, now: Instant) -> io::Result<()> {
        self.sent = now;
        self.buffer.clear();
        if let Some(at) = self.unique {
            self.number += 1;
            let digits = format!("{:0width$}", self.number, width = UNIQUE.len());
            self.request[at..at + UNIQUE.len()].copy_from_slice(digits.as_bytes());
        }
        // One small request at a time always fits the socket's buffer.
        self.stream.write_all(&self.request)
    }

    /// Whether the answer, once it is there, was a good one.
    fn receive(&mut self) -> Result<Option<bool>, Failed> {
        let mut chunk = [0u8; 4096];
        match self.stream.read(&mut chunk) {
            Ok(0) => return Err("the server closed a connection".into()),
            Ok(n) => self.buffer.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        let Some(head) = find(&self.buffer, b"\r\n\r\n") else { return Ok(None) };
        let length = content_length(&self.buffer[..head]).ok_or("an answer without a Content-Length")?;
        let body = &self.buffer[head + 4..];
        if body.len() < length {
            return Ok(None);
        }
        if self.unique.is_some() {
            return Ok(Some(self.buffer.starts_with(b"HTTP/1.1 202") && find(body, b"\"duplicate\":false").is_some()));
        }
        let well = self.buffer.starts_with(b"HTTP/1.1 200") && find(body, b"\"isError\":true").is_none();
        Ok(Some(well && find(body, b"\"result\"").is_some()))
    }
}

/// Milliseconds since 1970, short enough for the digits, times so many that a window does not reach the next.
fn started_at() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64 % 10_000_000 * 100_000
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|w| w == wanted)
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") { value.trim().parse().ok() } else { None }
    })
}

/// The kernel's list of connections that have something to read.
struct Poll(OwnedFd);

impl Poll {
    fn new() -> io::Result<Self> {
        // SAFETY: a new descriptor that nobody else owns.
        unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(OwnedFd::from_raw_fd(fd))) }
        }
    }

    fn add(&self, fd: i32, index: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: index };
        // SAFETY: both descriptors are open, and the kernel copies the event.
        let done = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Waits at most 100 ms; `ready` gets the indices of those that can be read.
    fn wait(&self, ready: &mut Vec<u64>) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        // SAFETY: the kernel writes at most as many events as there are.
        let n = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), 256, 100) };
        ready.clear();
        match usize::try_from(n) {
            Ok(n) => ready.extend(events[..n].iter().map(|e| e.u64)),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}
