//! How one secret may be written.

use std::collections::BTreeSet;

use base64::Engine;
use base64::alphabet;
use base64::engine::{GeneralPurpose, general_purpose::NO_PAD};
use zeroize::Zeroizing;

/// One way to write a secret.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Form {
    pub text: Vec<u8>,
    /// The character before it holds bits of the secret too: base64 that began somewhere before.
    pub before: bool,
    /// The character after it does.
    pub after: bool,
}

impl Form {
    fn whole(text: impl Into<Vec<u8>>) -> Self {
        Self { text: text.into(), before: false, after: false }
    }
}

/// All the ways to write `secret`: as it is, as JSON and URLs write it, in hexadecimal, and within base64.
pub(super) fn forms(secret: &[u8]) -> Vec<Form> {
    let mut forms = BTreeSet::from([Form::whole(secret)]);
    if let Ok(text) = std::str::from_utf8(secret) {
        forms.extend(json(text).into_iter().map(Form::whole));
    }
    forms.extend(url(secret).into_iter().map(Form::whole));
    for upper in [false, true] {
        let hex: Vec<u8> = secret.iter().flat_map(|b| hex_digits(*b, upper)).collect();
        forms.insert(Form::whole(hex));
    }
    for alphabet in [&alphabet::STANDARD, &alphabet::URL_SAFE] {
        forms.extend((0..3).map(|before| base64(secret, before, alphabet)));
    }
    forms.into_iter().collect()
}

fn hex_digits(byte: u8, upper: bool) -> [u8; 2] {
    let digits: &[u8; 16] = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// Within a JSON string, as different writers escape it, and within a JSON string that is itself in one.
fn json(text: &str) -> Vec<String> {
    let quote = |text: &str| {
        let quoted = Zeroizing::new(serde_json::Value::String(text.to_owned()).to_string());
        quoted[1..quoted.len() - 1].to_owned()
    };
    let escape = |text: &str, which: &dyn Fn(char) -> bool, upper: bool| {
        let mut out = String::new();
        for c in text.chars() {
            if !which(c) {
                out.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") });
            }
        }
        out
    };
    let once = quote(text);
    let html = |c: char| "<>&'+=".contains(c);
    let mut all = vec![once.replace('/', "\\/")];
    for upper in [false, true] {
        all.push(escape(&once, &|c| "<>&".contains(c), upper));
        all.push(escape(&once, &html, upper));
        all.push(escape(&once, &|c| !c.is_ascii(), upper));
        all.push(escape(&once, &|c| html(c) || !c.is_ascii(), upper));
    }
    let twice = quote(&once);
    all.push(quote(&twice));
    all.push(twice);
    all.push(once);
    all
}

/// In a URL: what the standards leave as it is differs between path, query, form and the languages' own functions.
fn url(secret: &[u8]) -> Vec<Vec<u8>> {
    const KEPT: [&[u8]; 6] = [b"", b"-_.", b"-_.~", b"-_.*", b"-_.~!*'()", b"-_.~!*'();/?:@&=+$,#"];
    let mut all = Vec::new();
    for upper in [false, true] {
        for (n, kept) in KEPT.iter().enumerate() {
            for space in [false, true] {
                let mut out = Vec::with_capacity(secret.len() * 3);
                for byte in secret {
                    match byte {
                        b' ' if space => out.push(b'+'),
                        // The first writes every single character in this way.
                        b if n > 0 && (b.is_ascii_alphanumeric() || kept.contains(b)) => out.push(*b),
                        b => {
                            out.push(b'%');
                            out.extend(hex_digits(*b, upper));
                        }
                    }
                }
                all.push(out);
            }
        }
    }
    all
}

/// The characters that the secret alone decides, where `before` bytes (of three) stand before it in what was encoded.
fn base64(secret: &[u8], before: usize, alphabet: &alphabet::Alphabet) -> Form {
    let mut bytes = Zeroizing::new(vec![0; before]);
    bytes.extend_from_slice(secret);
    let text = Zeroizing::new(GeneralPurpose::new(alphabet, NO_PAD).encode(bytes.as_slice()));
    let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
    Form { text: text.as_bytes()[from..to].to_vec(), before: before > 0, after: !(bytes.len() * 8).is_multiple_of(6) }
}
