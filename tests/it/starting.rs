//! The admin port answers from the first moment of a start: probes are told at once what is being done, and all else is
//! answered once the household stands, over the connection that it came on.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Daemon, Household, eventually, ports};
use crate::two_daemons::Shared;

/// What whoever brings the household's own tables up to date holds meanwhile: `src/store/migrate.rs`.
const LOCK: &str = "SELECT pg_advisory_lock(hashtext('shared.shared'))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(hashtext('shared.shared'))";

/// Asks over a connection of its own.
async fn ask(admin: &str, host: &str, path: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(admin).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

/// The whole answer: status and body.
async fn answer(mut stream: TcpStream) -> io::Result<(u16, String)> {
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let cut = || io::Error::other(format!("this is no answer: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(cut)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(cut)?;
    Ok((status, body.to_owned()))
}

async fn get(admin: &str, path: &str) -> io::Result<(u16, String)> {
    answer(ask(admin, admin, path).await?).await
}

/// Asks without end until the household is ready. No question may stay without its answer.
async fn until_ready(admin: String) {
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    loop {
        tick.tick().await;
        assert_eq!(get(&admin, "/healthz").await.expect("an answer").0, 200);
        let (status, body) = get(&admin, "/readyz").await.expect("an answer");
        let told: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(told["ready"].as_bool(), Some(status == 200), "{status} {body}");
        if status == 200 {
            return;
        }
        assert!(status == 503 && told["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_is_told_from_its_first_moment_and_nobody_is_refused() {
    let shared = Shared::start().await;
    let admin = format!("127.0.0.1:{}", ports::free(1)[0]);
    let household = Household::few().env("BUTLERD_DATABASE__URL", &shared.url).env("BUTLERD_ADMIN__LISTEN", &admin);
    let holder = shared.client().await;
    holder.batch_execute(LOCK).await.expect("the lock");
    let daemon = Daemon::spawn(&household);
    let doing = "bringing the database up to date";
    let starting = json!({"ready": false, "reasons": ["starting"], "doing": doing, "butlers": {}});
    eventually("the start waits for the lock, and says so", || async {
        match get(&admin, "/readyz").await {
            Ok((503, body)) if serde_json::from_str::<Value>(&body).is_ok_and(|told| told == starting) => Ok(()),
            // The port is refused until it is bound.
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(get(&admin, "/healthz").await.expect("an answer"), (200, json!({"status": "ok"}).to_string()));
    let foreign = ask(&admin, "example.org", "/readyz").await.expect("a connection");
    assert_eq!(answer(foreign).await.expect("an answer").0, 403, "another Host is refused as ever");
    let waiting = tokio::spawn(answer(ask(&admin, &admin, "/metrics").await.expect("a connection")));
    // Connections are accepted in their order: the one before this is with the daemon.
    assert_eq!(get(&admin, "/healthz").await.expect("an answer").0, 200);
    assert!(!waiting.is_finished(), "there is nothing to be told yet");
    let asking = tokio::spawn(until_ready(admin.clone()));
    holder.batch_execute(UNLOCK).await.expect("the lock is given back");
    tokio::time::timeout(Duration::from_secs(120), asking).await.expect("it gets ready").expect("there is no gap");
    let (status, text) = waiting.await.expect("no panic").expect("an answer over the same connection");
    assert!(status == 200 && text.contains("butlerd_"), "{status} {text}");
    let mut daemon = tokio::task::spawn_blocking(move || daemon.wait_ready()).await.expect("it is up");
    assert_eq!(daemon.admin(), admin);
    assert_eq!(daemon.stop_blocking(), 0);
}
