//! Reading a secret: typed without being shown, or piped in.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroize;

use super::problem::{FAILED, Problem};
use base::Secret;

/// Longer values are not taken by the daemon anyway.
const MOST: u64 = 64 * 1024 + 2;

/// Asks for a value on the terminal, or reads all of standard input where that is none.
pub fn secret(question: &str) -> Result<Secret<String>, Problem> {
    let stdin = io::stdin();
    let read = if stdin.is_terminal() { typed(question) } else { piped(&mut stdin.lock()) };
    let value = read.map_err(|e| match e.kind() {
        io::ErrorKind::Interrupted => Problem::new(FAILED, "interrupted", "Nothing was changed.", ""),
        _ => Problem::usage(
            format!("The value can't be read: {e}."),
            "Pipe it in, as in: butlerd secret set NAME < file",
        ),
    })?;
    if value.expose().is_empty() {
        return Err(Problem::usage(
            "The value is empty, and nothing was changed.",
            "Pipe it in, or type it and press Enter.",
        ));
    }
    Ok(value)
}

/// Asks for a value on the terminal; `None` if just Enter is pressed.
pub fn optional_secret(question: &str) -> Result<Option<Secret<String>>, Problem> {
    let value =
        typed(question).map_err(|e| Problem::new(FAILED, "interrupted", format!("Nothing was changed: {e}."), ""))?;
    Ok(Some(value).filter(|value| !value.expose().trim().is_empty()))
}

/// Reads all of standard input, be it a terminal or not.
pub fn piped_secret() -> Result<Secret<String>, Problem> {
    let value = piped(&mut io::stdin().lock());
    let value = value.map_err(|e| Problem::usage(format!("The value can't be read: {e}."), ""))?;
    match value.expose().is_empty() {
        true => Err(Problem::usage("Standard input is empty, and nothing was changed.", "Pipe the key in.")),
        false => Ok(value),
    }
}

/// Asks for a line on the terminal; an empty one stands for what is `usual`.
pub fn line(question: &str, usual: &str) -> Result<String, Problem> {
    let failed = |e: io::Error| Problem::new(FAILED, "interrupted", format!("Nothing was changed: {e}."), "");
    let mut stderr = io::stderr();
    let hint = if usual.is_empty() { String::new() } else { format!(" [{usual}]") };
    write!(stderr, "{question}{hint}: ").and_then(|()| stderr.flush()).map_err(failed)?;
    let mut answer = String::new();
    if io::stdin().read_line(&mut answer).map_err(failed)? == 0 {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    let answer = answer.trim();
    Ok(if answer.is_empty() { usual.to_owned() } else { answer.to_owned() })
}

/// All of the input but for one end of line.
fn piped(input: &mut impl Read) -> io::Result<Secret<String>> {
    let mut bytes = Vec::with_capacity(1024);
    input.take(MOST).read_to_end(&mut bytes)?;
    for end in [b'\n', b'\r'] {
        if bytes.last() == Some(&end) {
            bytes.pop();
        }
    }
    text(bytes)
}

fn text(bytes: Vec<u8>) -> io::Result<Secret<String>> {
    String::from_utf8(bytes).map(Secret::new).map_err(|e| {
        e.into_bytes().zeroize();
        io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text")
    })
}

fn typed(question: &str) -> io::Result<Secret<String>> {
    let stdin = io::stdin();
    let mut stderr = io::stderr();
    // Before anybody is asked: what is typed earlier is thrown away, and who answers at once would be cut short.
    let quiet = Quiet::new(stdin.as_fd().try_clone_to_owned()?)?;
    write!(stderr, "{question}: ")?;
    stderr.flush()?;
    let read = keys(&mut stdin.lock());
    drop(quiet);
    writeln!(stderr)?;
    read
}

/// The terminal without echo. Signals from keys are off, too: otherwise Ctrl-C would end the process and leave the
/// terminal mute.
pub(super) struct Quiet {
    terminal: std::os::fd::OwnedFd,
    before: Termios,
}

impl Quiet {
    pub fn new(terminal: std::os::fd::OwnedFd) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        let mut quiet = before.clone();
        quiet.local_flags.remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::ISIG);
        quiet.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
        quiet.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(&terminal, SetArg::TCSAFLUSH, &quiet)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = tcsetattr(&self.terminal, SetArg::TCSADRAIN, &self.before);
    }
}

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const CTRL_U: u8 = 21;
const DELETE: u8 = 127;

/// Keys up to Enter, with the few that edit a line.
fn keys(input: &mut impl Read) -> io::Result<Secret<String>> {
    let mut bytes: Vec<u8> = Vec::with_capacity(1024);
    let mut key = [0u8; 1];
    loop {
        if input.read(&mut key)? == 0 {
            break;
        }
        match key[0] {
            b'\n' | b'\r' | CTRL_D => break,
            CTRL_C => {
                bytes.zeroize();
                return Err(io::ErrorKind::Interrupted.into());
            }
            BACKSPACE | DELETE => {
                // A character of several bytes goes as one.
                while bytes.pop().is_some_and(|b| b & 0xC0 == 0x80) {}
            }
            CTRL_U => {
                bytes.zeroize();
                bytes.clear();
            }
            byte if bytes.len() as u64 <= MOST => bytes.push(byte),
            _ => {}
        }
    }
    text(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_end_of_line_is_not_part_of_a_piped_value() {
        for (input, value) in [("key\n", "key"), ("key\r\n", "key"), ("key", "key"), ("a\nb\n\n", "a\nb\n"), ("", "")] {
            assert_eq!(piped(&mut input.as_bytes()).unwrap().expose(), value);
        }
        assert!(piped(&mut &b"\xff\xfe"[..]).is_err());
    }

    #[test]
    fn typed_keys_can_be_taken_back() {
        for (typed, value) in [
            (&b"key\r"[..], "key"),
            (b"kex\x7fy\n", "key"),
            ("kä\u{8}ey\n".as_bytes(), "key"),
            (b"wrong\x15key\n", "key"),
            (b"key\x04more", "key"),
            (b"\x7fkey", "key"),
        ] {
            assert_eq!(keys(&mut &typed[..]).unwrap().expose(), value);
        }
        assert_eq!(keys(&mut &b"ke\x03y\n"[..]).unwrap_err().kind(), io::ErrorKind::Interrupted);
    }
}
