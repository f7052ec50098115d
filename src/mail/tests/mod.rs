//! Letters as programs write them, and as nobody does.

mod ordinary;
mod robust;

use std::time::Duration;

use crate::{ParsedMail, ReadError, ReadOptions};

#[path = "../../../tests/it/support/hostile_mail.rs"]
mod hostile;

/// What this thread has used of the processor: the same on a busy machine. Zero where the system does not say.
pub fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(told.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default())
}

fn options() -> ReadOptions {
    ReadOptions {
        trusted_servers: vec!["mx.example.org".to_owned()],
        most_text: 20_000,
        most_files: 10,
        largest_file: 100_000,
    }
}

fn try_read(raw: impl AsRef<[u8]>) -> Result<ParsedMail, ReadError> {
    crate::read(raw.as_ref(), &options())
}

fn read(raw: impl AsRef<[u8]>) -> ParsedMail {
    let raw = raw.as_ref();
    try_read(raw).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(raw)))
}

/// A letter from Ada with the given further header fields and body.
fn from_ada(rest: &str) -> ParsedMail {
    read(format!("From: Ada <ada@example.org>\r\nTo: house@example.org\r\nSubject: Hi\r\n{rest}"))
}
