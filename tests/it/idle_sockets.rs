//! Connections without a token, idle or a byte at a time, take no port away from those who have one.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::{Daemon, Household, http};

/// As many as once made a butler's port deaf.
const IDLE: usize = 641;
const SLOW: usize = 200;
/// An idle connection was kept for 15 seconds once.
const PROMPT: Duration = Duration::from_secs(8);

/// Both ends of each connection are descriptors; the other one is the daemon's.
pub fn more_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(65_536);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// Opens idle connections and slow ones, and keeps them open.
async fn crowd(port: u16) -> (Vec<TcpStream>, JoinHandle<()>) {
    let connect = || async move { TcpStream::connect(("127.0.0.1", port)).await.expect("a connection") };
    let idle = futures_util::future::join_all((0..IDLE).map(|_| connect())).await;
    let mut slow = futures_util::future::join_all((0..SLOW).map(|_| connect())).await;
    let byte_by_byte = tokio::spawn(async move {
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        let head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-filler: ".iter().chain(std::iter::repeat(&b'a'));
        for byte in head {
            pace.tick().await;
            for one in &mut slow {
                // An error is what it is to get.
                let _ = one.write_all(&[*byte]).await;
            }
        }
    });
    (idle, byte_by_byte)
}

/// A connection that stays open, and calls with the operator's token.
struct Kept {
    stream: TcpStream,
    call: Vec<u8>,
}

impl Kept {
    async fn open(daemon: &Daemon, port: u16) -> Self {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
        let call = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            daemon.token(),
            body.len(),
        );
        Self { stream: TcpStream::connect(("127.0.0.1", port)).await.expect("a connection"), call: call.into_bytes() }
    }

    /// Makes the call; the start of its answer.
    async fn ask(&mut self) -> String {
        self.stream.write_all(&self.call).await.expect("the connection is open");
        let mut buffer = vec![0; 4096];
        let read = self.stream.read(&mut buffer).await.expect("an answer");
        String::from_utf8_lossy(&buffer[..read]).into_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_a_token_is_served_beside_hundreds_who_have_none() {
    more_descriptors();
    let household = Household::few();
    let daemon = household.start().await;
    let butler = daemon.port("switchboard");
    let mut kept = Kept::open(&daemon, butler).await;
    assert!(kept.ask().await.starts_with("HTTP/1.1 200 "));

    let _crowd = crowd(butler).await;
    let called = tokio::time::timeout(PROMPT, daemon.mcp("switchboard").ok("status", json!({}))).await;
    assert!(called.is_ok(), "the butler's port is deaf");
    let answer = tokio::time::timeout(PROMPT, kept.ask()).await;
    assert!(
        answer.as_ref().is_ok_and(|a| a.starts_with("HTTP/1.1 200 ")),
        "one that has had a token stays: {answer:?}"
    );

    let admin: u16 = daemon.admin().rsplit_once(':').expect("a port").1.parse().expect("a port");
    let _crowd = crowd(admin).await;
    let asked = tokio::time::timeout(PROMPT, daemon.get("/readyz")).await;
    // Whether it is ready is another question.
    assert!(asked.is_ok_and(|(status, _)| [200, 503].contains(&status)), "the admin port is deaf");

    let gateway = u16::try_from(daemon.info["gateway"].as_u64().expect("a gateway")).expect("a port");
    let _crowd = crowd(gateway).await;
    let asked = http().get(format!("http://127.0.0.1:{gateway}/v1/models")).send();
    let asked = tokio::time::timeout(PROMPT, asked).await.expect("the gateway is deaf").expect("an answer");
    assert_eq!(asked.status(), 401);
}

/// Answers without a token end their connection soon, though its client would keep it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_never_brings_a_token_ends() {
    let household = Household::few();
    let daemon = household.start().await;
    let mut stream = TcpStream::connect(daemon.admin()).await.expect("a connection");
    let mut read = String::new();
    let asking = async {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("the connection is open");
        stream.read_to_string(&mut read).await.expect("its end");
    };
    tokio::time::timeout(Duration::from_secs(14), asking).await.expect("it ends before any other limit");
    assert!(read.starts_with("HTTP/1.1 200 "), "{read}");
}
