//! Who attacks: each as fast as the daemon answers, until the attack is over.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::http;

/// Sockets that are held open at one port: a third idle, a third in the middle of a head, a third a byte at a time.
pub const SOCKETS: usize = 1200;
/// The daemon's limit of a body, by default.
const LIMIT: usize = 4 << 20;
/// How often a slow one sends something.
const SLOW: Duration = Duration::from_millis(100);

/// What an attack came to: how many tries, and how many of each status.
#[derive(Clone, Default)]
pub struct Done {
    pub tried: usize,
    statuses: BTreeMap<u16, usize>,
}

impl Done {
    pub fn of(&self, status: u16) -> usize {
        self.statuses.get(&status).copied().unwrap_or(0)
    }

    fn add(&mut self, status: Option<u16>) {
        self.tried += 1;
        *self.statuses.entry(status.unwrap_or(0)).or_default() += 1;
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tries, by status {:?}", self.tried, self.statuses)
    }
}

/// One that is under way.
pub struct Attack {
    stop: CancellationToken,
    attackers: JoinSet<()>,
    done: Arc<Mutex<Done>>,
}

/// Where big bodies go.
#[derive(Clone)]
pub struct Body {
    pub port: u16,
    pub path: &'static str,
    pub token: String,
}

impl Attack {
    fn new() -> Self {
        Self { stop: CancellationToken::new(), attackers: JoinSet::new(), done: Arc::default() }
    }

    /// What it came to so far.
    pub fn so_far(&self) -> Done {
        self.done.lock().expect("the tries").clone()
    }

    /// Ends it; what it came to. What was being sent just then does not count.
    pub async fn end(self) -> Done {
        self.stop.cancel();
        self.attackers.join_all().await;
        self.done.lock().expect("the tries").clone()
    }

    /// Tries one after the other, each of which gives a status.
    fn attacker<F>(&mut self, mut one: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = Option<u16>> + Send,
    {
        let (stop, done) = (self.stop.clone(), self.done.clone());
        self.attackers.spawn(async move {
            while let Some(status) = stop.run_until_cancelled(one()).await {
                done.lock().expect("the tries").add(status);
            }
        });
    }

    /// So many at once post what `body` makes of a number.
    pub fn messages(
        at_once: usize,
        url: &str,
        token: &str,
        body: impl Fn(usize) -> String + Send + Sync + 'static,
    ) -> Self {
        let mut attack = Self::new();
        let (body, next) = (Arc::new(body), Arc::new(AtomicUsize::new(0)));
        let http = http();
        for _ in 0..at_once {
            let (url, token, body, next, http) =
                (url.to_owned(), token.to_owned(), body.clone(), next.clone(), http.clone());
            attack.attacker(move || {
                let request = http.post(&url).bearer_auth(&token).header("content-type", "application/json");
                let request = request.header("accept", "application/json, text/event-stream");
                let request = request.header("mcp-protocol-version", "2025-06-18");
                let request = request.body(body(next.fetch_add(1, Ordering::Relaxed)));
                async move {
                    let answer = request.send().await.ok()?;
                    let status = answer.status().as_u16();
                    answer.bytes().await.ok()?;
                    Some(status)
                }
            });
        }
        attack
    }

    /// Holds sockets open at these ports without a token, and replaces each as soon as it is closed.
    pub fn sockets(ports: &[u16]) -> Self {
        let mut attack = Self::new();
        for port in ports.iter().copied() {
            for n in 0..SOCKETS {
                attack.attacker(move || hold(port, n % 3));
            }
        }
        attack
    }

    /// Sends bodies to each of these, within the limit, past it, and slowly.
    pub fn bodies(targets: &[Body]) -> Self {
        let mut attack = Self::new();
        for target in targets {
            for (declared, slow) in
                [(LIMIT - 1024, false), (LIMIT + 1, false), (LIMIT * 16, false), (LIMIT - 1024, true), (1 << 20, true)]
            {
                for _ in 0..if slow { 16 } else { 1 } {
                    let target = target.clone();
                    attack.attacker(move || send(target.clone(), declared, slow));
                }
            }
        }
        attack
    }
}

/// A connection that is there until the daemon closes it.
async fn hold(port: u16, kind: usize) -> Option<u16> {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else {
        // No descriptor or port is left: the attacker's own trouble.
        tokio::time::sleep(SLOW).await;
        return None;
    };
    let head: &[u8] = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-filler: ";
    if kind > 0 {
        stream.write_all(head).await.ok()?;
    }
    let mut buffer = [0; 256];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => if !matches!(read, Ok(1..)) { return None; },
            () = tokio::time::sleep(SLOW), if kind == 2 => stream.write_all(b"a").await.ok()?,
        }
    }
}

/// Sends a body of this length; the answer's status. A slow one sends a little at a time.
async fn send(target: Body, declared: usize, slow: bool) -> Option<u16> {
    let stream = TcpStream::connect(("127.0.0.1", target.port)).await.ok()?;
    let (mut read, mut write) = stream.into_split();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nconnection: close\r\ncontent-length: {declared}\r\n\r\n",
        target.path, target.token
    );
    let sending = async move {
        write.write_all(head.as_bytes()).await.ok()?;
        let piece = vec![b'['; if slow { 4096 } else { 65_536 }];
        let mut left = declared;
        while left > 0 {
            let next = left.min(piece.len());
            write.write_all(&piece[..next]).await.ok()?;
            left -= next;
            if slow {
                tokio::time::sleep(SLOW).await;
            }
        }
        // Kept open until the answer is there.
        std::future::pending::<Option<()>>().await
    };
    let answer = async {
        let mut text = Vec::new();
        read.read_to_end(&mut text).await.ok();
        String::from_utf8_lossy(&text).split(' ').nth(1).and_then(|status| status.parse().ok())
    };
    tokio::pin!(sending);
    tokio::pin!(answer);
    // One whose sending failed may have an answer all the same.
    tokio::select! {
        status = &mut answer => status,
        _ = &mut sending => answer.await,
    }
}
