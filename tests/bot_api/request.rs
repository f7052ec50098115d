//! One HTTP request, as far as stand-ins of servers need it.

use std::collections::HashMap;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// Reads one request, its method and its path as the headers `:method` and `:path`; `None`: it was cut off.
pub async fn read(stream: &mut TcpStream) -> Option<(HashMap<String, String>, String)> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let pairs = text.lines().skip(1).filter_map(|l| l.split_once(": "));
    let mut headers: HashMap<String, String> = pairs.map(|(k, v)| (k.to_lowercase(), v.to_owned())).collect();
    headers.insert(":method".to_owned(), text.split(' ').next()?.to_owned());
    headers.insert(":path".to_owned(), text.split(' ').nth(1)?.to_owned());
    let length: usize = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    while bytes.len() < head + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some((headers, String::from_utf8(bytes[head..head + length].to_vec()).ok()?))
}
