//! Keys as they are pressed, without Enter.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;

use tokio::sync::mpsc;

use super::prompt::Quiet;

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The arrow to the right or down, or the space bar.
    On,
    /// The arrow to the left or up.
    Back,
    Enter,
    Backspace,
    /// Ctrl-C or Ctrl-D.
    End,
    Char(char),
}

/// The terminal, which echoes nothing as long as this is there.
pub struct Keys {
    pressed: mpsc::Receiver<Key>,
    _quiet: Quiet,
}

impl Keys {
    pub fn open() -> io::Result<Self> {
        let quiet = Quiet::new(io::stdin().as_fd().try_clone_to_owned()?)?;
        let (give, pressed) = mpsc::channel(16);
        // In a thread of its own, because a terminal can't be read any other way without waiting for it.
        std::thread::spawn(move || {
            let mut bytes = io::stdin().lock().bytes().map_while(Result::ok);
            while let Some(key) = next(&mut bytes) {
                if give.blocking_send(key).is_err() {
                    return;
                }
            }
        });
        Ok(Self { pressed, _quiet: quiet })
    }

    /// The next key; when nobody can press one any more, the end.
    pub async fn next(&mut self) -> Key {
        self.pressed.recv().await.unwrap_or(Key::End)
    }

    /// Asks for a line, which is shown as it is typed. `None`: the person left it.
    pub async fn line(&mut self, question: &str) -> Option<String> {
        let echo = |text: &str| {
            // Without a terminal the next key is the end.
            let _ = io::stderr().write_all(text.as_bytes());
        };
        echo(question);
        let mut line = String::new();
        loop {
            match self.next().await {
                Key::Enter => break,
                Key::End => {
                    echo("\n");
                    return None;
                }
                Key::Backspace if line.pop().is_some() => echo("\u{8} \u{8}"),
                Key::Char(c) => {
                    line.push(c);
                    echo(c.encode_utf8(&mut [0; 4]));
                }
                Key::On | Key::Back | Key::Backspace => {}
            }
        }
        echo("\n");
        Some(line.trim().to_owned())
    }
}

/// Reads one key; `None` at the end of the input.
fn next(bytes: &mut impl Iterator<Item = u8>) -> Option<Key> {
    loop {
        return Some(match bytes.next()? {
            b'\r' | b'\n' => Key::Enter,
            3 | 4 => Key::End,
            8 | 127 => Key::Backspace,
            // An arrow is Escape, a bracket and a letter.
            0x1b if matches!(bytes.next()?, b'[' | b'O') => match bytes.next()? {
                b'A' | b'D' => Key::Back,
                b'B' | b'C' => Key::On,
                _ => continue,
            },
            byte if byte < 0x20 => continue,
            byte if byte < 0x80 => Key::Char(char::from(byte)),
            first => {
                let more = usize::try_from(first.leading_ones()).unwrap_or(0).saturating_sub(1).min(3);
                let letter: Vec<u8> = std::iter::once(first).chain(bytes.by_ref().take(more)).collect();
                match std::str::from_utf8(&letter).ok().and_then(|text| text.chars().next()) {
                    Some(letter) => Key::Char(letter),
                    None => continue,
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_letters_and_ends_are_told_apart() {
        let mut bytes = "\x1b[C\x1b[D\x1bOB\x1b[Hyä \r\x7f\x03".bytes();
        let keys: Vec<Key> = std::iter::from_fn(|| next(&mut bytes)).collect();
        use Key::{Back, Backspace, Char, End, Enter, On};
        assert_eq!(keys, [On, Back, On, Char('y'), Char('ä'), Char(' '), Enter, Backspace, End]);
    }
}
