//! Lines of a file or of standard input, as they come.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use tokio::sync::mpsc;

use super::problem::Problem;

/// Lines, each with its number, from 1.
pub type Lines = mpsc::Receiver<io::Result<(usize, String)>>;

/// The longest line that is read.
const LONGEST: u64 = 64 << 20;

/// Reads a file; `-` or nothing is standard input.
pub fn of(file: Option<&Path>) -> Result<Lines, Problem> {
    match file.filter(|file| *file != Path::new("-")) {
        Some(path) => {
            let file = File::open(path).map_err(|e| {
                Problem::usage(
                    format!("{} can't be read: {e}.", path.display()),
                    "Name another, or - for standard input.",
                )
            })?;
            Ok(read(BufReader::new(file)))
        }
        None => Ok(typed()),
    }
}

/// Lines of standard input.
pub fn typed() -> Lines {
    read(BufReader::new(io::stdin()))
}

/// Whether the answer to a question that ends in `[y/N]` is yes.
pub fn is_yes(answer: &str) -> bool {
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

/// In a thread of its own, because a terminal can't be read any other way without waiting for it.
fn read(mut from: impl BufRead + Send + 'static) -> Lines {
    let (give, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for number in 1.. {
            let mut line = String::new();
            let got = match (&mut from).take(LONGEST).read_line(&mut line) {
                Ok(0) => return,
                Ok(_) => Ok((number, line)),
                Err(e) => Err(e),
            };
            let failed = got.is_err();
            if give.blocking_send(got).is_err() || failed {
                return;
            }
        }
    });
    lines
}
