//! What the browser that comes back is shown: a few words, and nothing that could be loaded or run.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A request that is not whole within this is no browser's.
const PATIENCE: Duration = Duration::from_secs(10);
/// The code and its scopes take 2 KiB; cookies of other programs on this machine come along.
const LONGEST_HEAD: usize = 64 * 1024;

/// A page: its status, and its sentence.
pub(crate) struct Page(pub &'static str, pub &'static str);

pub(crate) const GIVEN: Page = Page("200 OK", "The household got the answer. You can close this page.");
pub(crate) const REFUSED: Page = Page("200 OK", "The account was not connected. You can close this page.");
pub(crate) const NOTHING: Page = Page("404 Not Found", "There is nothing here.");
pub(crate) const FOREIGN: Page = Page(
    "400 Bad Request",
    "This does not belong to the account that is being connected. Use the link that the household gave last.",
);

/// The target of a GET request: path and query. `None`: it is something else, or not whole in time.
pub(crate) async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    // All of it is read: what is left unread would cut off our answer.
    let read = async {
        loop {
            let before = head.len();
            let mut piece = vec![0; LONGEST_HEAD.saturating_sub(before).min(4096)];
            match stream.read(&mut piece).await {
                Ok(read) if read > 0 => head.extend_from_slice(&piece[..read]),
                _ => return None,
            }
            if head[before.saturating_sub(3)..].windows(4).any(|end| end == b"\r\n\r\n") {
                return Some(());
            }
        }
    };
    timeout(PATIENCE, read).await.ok()??;
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    match (words.next(), words.next(), words.next()) {
        (Some("GET"), Some(target), Some("HTTP/1.1" | "HTTP/1.0")) => Some(target.to_owned()),
        // Is answered, so that it does not come again.
        _ => Some(String::new()),
    }
}

/// Shows a page; whether the browser sees it is all the same.
pub(crate) async fn show(mut stream: TcpStream, page: &Page) {
    let Page(status, sentence) = page;
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>butlerd</title><p>{sentence}</p></html>\n"
    );
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'\r\nconnection: close\r\n\r\n{html}",
        html.len()
    );
    let shown = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    let _ = timeout(Duration::from_secs(1), shown).await;
}
