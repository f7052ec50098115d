//! The way to the server, on which requests and answers are lost.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::support::hostile_mail::Chance;

const AWAY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    Answered,
    /// It never comes to the server.
    Lost,
    /// The server does it, and nobody hears of that.
    Unanswered,
    /// The answer ends somewhere.
    Cut,
    /// The server says that it can't now.
    Away,
    /// It says so, and has done it.
    DoneAndAway,
}

impl Way {
    pub const ALL: [Self; 6] = [Self::Answered, Self::Lost, Self::Unanswered, Self::Cut, Self::Away, Self::DoneAndAway];
}

struct Ways {
    chance: Chance,
    /// Whether requests are lost.
    bad: bool,
    /// Whether nothing comes through at all.
    shut: bool,
    went: BTreeMap<Way, usize>,
}

/// Stands before the server; gone with all its connections when it is dropped.
pub struct Door {
    pub url: String,
    ways: Arc<Mutex<Ways>>,
    task: JoinHandle<()>,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Door {
    pub async fn before(url: &str, seed: u64) -> Self {
        let there = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let ways = Ways { chance: Chance::new(seed), bad: false, shut: false, went: BTreeMap::new() };
        let ways = Arc::new(Mutex::new(ways));
        let all = ways.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, there.clone(), all.clone()));
            }
        });
        Self { url, ways, task }
    }

    fn with<T>(&self, change: impl FnOnce(&mut Ways) -> T) -> T {
        change(&mut self.ways.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on requests and answers are lost by chance, or none is.
    pub fn bad(&self, bad: bool) {
        self.with(|ways| ways.bad = bad);
    }

    /// Nothing comes through, or again all.
    pub fn shut(&self, shut: bool) {
        self.with(|ways| ways.shut = shut);
    }

    /// How often which way was gone.
    pub fn went(&self) -> BTreeMap<Way, usize> {
        self.with(|ways| ways.went.clone())
    }
}

impl Ways {
    fn next(&mut self) -> Way {
        let way = match (self.shut, self.bad.then(|| self.chance.below(100))) {
            (true, _) => Way::Away,
            (_, Some(0..3)) => Way::Lost,
            (_, Some(3..11)) => Way::Unanswered,
            (_, Some(11..15)) => Way::Cut,
            (_, Some(15..18)) => Way::Away,
            (_, Some(18..20)) => Way::DoneAndAway,
            _ => Way::Answered,
        };
        *self.went.entry(way).or_default() += 1;
        way
    }
}

/// One request on one connection.
async fn carry(mut client: TcpStream, there: String, ways: Arc<Mutex<Ways>>) -> io::Result<()> {
    let Some(request) = request(&mut client).await? else { return Ok(()) };
    let (way, cut) = {
        let mut ways = ways.lock().unwrap_or_else(PoisonError::into_inner);
        (ways.next(), ways.chance.next())
    };
    match way {
        Way::Lost => return client.set_zero_linger(),
        Way::Away => return said(client, AWAY).await,
        _ => {}
    }
    let mut server = TcpStream::connect(&there).await?;
    server.write_all(&request).await?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await?;
    match way {
        Way::Unanswered => client.set_zero_linger(),
        Way::DoneAndAway => said(client, AWAY).await,
        Way::Cut => {
            let length = u64::try_from(answer.len()).unwrap_or(1).max(1);
            said(client, &answer[..usize::try_from(cut % length).unwrap_or(0)]).await
        }
        _ => said(client, &answer).await,
    }
}

async fn said(mut client: TcpStream, answer: &[u8]) -> io::Result<()> {
    client.write_all(answer).await?;
    client.shutdown().await
}

/// The next request with its body, which asks for the connection's end behind it.
async fn request(client: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut all = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let n = client.read(&mut piece).await?;
        if n == 0 {
            return Ok(None);
        }
        all.extend_from_slice(&piece[..n]);
        let Some(head) = all.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&all[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        if all.len() < head + 4 + length.unwrap_or(0) {
            continue;
        }
        all.splice(head..head, *b"\r\nconnection: close");
        return Ok(Some(all));
    }
}
