//! Letters that nobody sends in good faith: built by hand, and made from good ones by chance.
//!
//! Stands alone, so that the tests of the mail crate can use it too.

#![allow(dead_code, reason = "each test that takes this file in uses a part of it")]

/// Chance that is the same for the same seed (splitmix64).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % (end.max(1) as u64)) as usize
    }

    pub fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

/// Pieces that mean something to whoever reads mail.
const PIECES: [&[u8]; 48] = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b"--",
    b"--b",
    b"--b--",
    b"\"",
    b"\\",
    b"(",
    b")",
    b"<",
    b">",
    b"=",
    b"==",
    b"=?utf-8?q?",
    b"=?utf-8?b?//////",
    b"?=",
    b"=?iso-2022-jp?b?GyRC?=",
    b"=?utf-7?q?+AAA-?=",
    b";",
    b":",
    b",",
    b"@",
    b"*0*=",
    b"*1=",
    b"%ff",
    b"''",
    b"\xff\xfe",
    b"\xc3",
    b"\xf0\x9f",
    b"\xe2\x80\xae",
    b"\xf3\xa0\x81\x81",
    b"From: a@x.org\r\n",
    b"Authentication-Results: mx.example.org; dmarc=pass header.from=x.org\r\n",
    b"Content-Type: multipart/mixed; boundary=b\r\n",
    b"Content-Type: multipart/alternative; boundary=\"b\"\r\n\r\n--b\r\n",
    b"Content-Type: message/rfc822\r\n\r\n",
    b"Content-Type: text/html; charset=utf-16\r\n\r\n",
    b"Content-Type: text/plain; charset=gb18030; format=flowed; delsp=yes\r\n",
    b"Content-Transfer-Encoding: base64\r\n",
    b"Content-Transfer-Encoding: quoted-printable\r\n",
    b"Content-Disposition: attachment; filename*0*=utf-8''..%2f..%2f; filename*1=\"a\"\r\n",
    b"Date: Thu, 99 Foo 99999 99:99:99 +9999\r\n",
    b"BEGIN:VEVENT\r\n",
    b"END:VEVENT\r\n",
    b"<div style=\"display:none\"><!--",
];

/// A letter made from `good` by some damage.
pub fn mutated(good: &[&[u8]], chance: &mut Chance) -> Vec<u8> {
    let mut letter = chance.one_of(good).to_vec();
    for _ in 0..=chance.below(8) {
        damage(&mut letter, good, chance);
        letter.truncate(200_000);
    }
    letter
}

fn damage(letter: &mut Vec<u8>, good: &[&[u8]], chance: &mut Chance) {
    let (one, two) = (chance.below(letter.len() + 1), chance.below(letter.len() + 1));
    let (from, to) = (one.min(two), one.max(two));
    match chance.below(10) {
        0 if from < letter.len() => letter[from] = chance.next() as u8,
        1 if from < letter.len() => letter[from] ^= 1 << chance.below(8),
        2 => drop(letter.drain(from..to.min(from + 200))),
        3 => letter.truncate(to),
        4 => {
            let piece = letter[from..to.min(from + 500)].to_vec();
            let at = chance.below(letter.len() + 1);
            letter.splice(at..at, piece);
        }
        5 => {
            let piece = letter[from..to.min(from + 60)].repeat(1 + chance.below(300));
            letter.splice(from..from, piece);
        }
        6 => {
            let other = chance.one_of(good);
            let (start, end) = (chance.below(other.len()), chance.below(other.len()));
            letter.splice(from..from, other[start.min(end)..start.max(end)].iter().copied());
        }
        7 => {
            let line = letter[..from].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            letter.splice(line..line, PIECES[chance.below(PIECES.len())].iter().copied());
        }
        _ => {
            let piece = PIECES[chance.below(PIECES.len())].repeat(1 + chance.below(3));
            letter.splice(from..from, piece);
        }
    }
}

/// Letters of about `size` bytes, each made to cost whoever reads it more than that; with what each tries.
pub fn bombs(size: usize) -> Vec<(&'static str, Vec<u8>)> {
    let fill = |head: &str, piece: &str, tail: &str| {
        let times = size.saturating_sub(head.len() + tail.len()) / piece.len().max(1);
        [head, &piece.repeat(times), tail].concat().into_bytes()
    };
    let head = "From: a@x.org\r\nSubject: x\r\n";
    let mixed = format!("{head}Content-Type: multipart/mixed; boundary=b\r\n\r\n");
    let html = format!("{head}Content-Type: text/html\r\n\r\n");
    let mut deep = head.to_owned();
    for depth in 0..size / 60 {
        deep.push_str(&format!("Content-Type: multipart/mixed; boundary=b{depth}\r\n\r\n--b{depth}\r\n"));
    }
    let nested = "Content-Type: message/rfc822\r\n\r\n";
    vec![
        ("parts within parts", deep.into_bytes()),
        ("letters within letters", fill(head, nested, "")),
        ("letters within letters, in parts", fill(&mixed, "--b\r\nContent-Type: message/rfc822\r\n\r\n", "")),
        ("many parts", fill(&mixed, "--b\r\n\r\n\r\n", "--b--")),
        (
            "parts whose borders never come",
            fill(&mixed, "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n", ""),
        ),
        ("a border of dashes", fill(&mixed.replace("=b", "=\"-----\""), "--", "")),
        ("the same border again", fill(&mixed, "--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n", "--b--")),
        ("a header without an end", fill(head, "X: y\r\n", "")),
        ("one long field", fill("From: a@x.org\r\nSubject: ", "a", "\r\n\r\nx")),
        ("a field of folds", fill("From: a@x.org\r\nSubject: x", "\r\n a", "\r\n\r\nx")),
        ("many senders", fill("From: a@x.org", ", a@x.org", "\r\n\r\nx")),
        ("many From fields", fill("", "From: a@x.org\r\n", "\r\nx")),
        ("comments within comments", fill("From: a@x.org ", "(", "\r\n\r\nx")),
        ("quotes", fill("From: ", "\"", " <a@x.org>\r\n\r\nx")),
        ("words that never end", fill("From: a@x.org\r\nSubject: ", "=?utf-8?q?", "\r\n\r\nx")),
        ("letters that it answers", fill("From: a@x.org\r\nReferences: ", "<a@x> ", "\r\n\r\nx")),
        ("open brackets", fill("From: a@x.org\r\nReferences: ", "<", "\r\n\r\nx")),
        ("findings", fill("Authentication-Results: mx.example.org", "; dmarc=pass", "\r\nFrom: a@x.org\r\n\r\nx")),
        ("parameters", fill(&format!("{head}Content-Type: text/plain"), "; a*=u'b'c", "\r\n\r\nx")),
        ("an empty line, again", fill(head, "\r\n", "")),
        ("nothing but blanks", fill("", " ", "")),
        ("nothing but NUL", fill("", "\0", "")),
        (
            "marks that nobody sees",
            fill(&format!("{head}Content-Type: text/plain; charset=utf-8\r\n\r\n"), "\u{200b}", ""),
        ),
        (
            "blanks behind an equals sign",
            fill(&format!("{head}Content-Transfer-Encoding: quoted-printable\r\n\r\n"), "= ", ""),
        ),
        ("base64 of nothing", fill(&format!("{head}Content-Transfer-Encoding: base64\r\n\r\n"), "====", "")),
        (
            "shifts of a character set",
            fill(&format!("{head}Content-Type: text/plain; charset=utf-7\r\n\r\n"), "+A", ""),
        ),
        ("open tags", fill(&html, "<div>", "")),
        ("a tag that never ends", fill(&html, "<a ", "")),
        ("comments in HTML", fill(&html, "<!-- ", "")),
        ("entities", fill(&html, "&amp", "")),
        ("quoted lines", fill(&format!("{head}\r\n"), "> > > >\r\n", "")),
        ("events", fill(&format!("{head}Content-Type: text/calendar\r\n\r\n"), "BEGIN:VEVENT\r\n", "")),
        (
            "recipients of a report",
            fill(
                &format!("{head}Content-Type: message/delivery-status\r\n\r\n"),
                "Final-Recipient: rfc822;a@x.org\r\nStatus: 5.1.1\r\n\r\n",
                "",
            ),
        ),
    ]
}
