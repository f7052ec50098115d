//! Tokens of CSS, and the numbers in them.

/// A token; escapes are decoded, comments are gone.
#[derive(Clone, PartialEq, Debug)]
pub enum Token {
    Word(String),
    /// A name and the bracket that opens behind it.
    Function(String),
    At(String),
    Hash(String),
    Text(String),
    Url,
    /// A number and its unit in lower case; `%` is one.
    Number(f64, String),
    Sign(char),
    Space,
}

use Token::{At, Function, Hash, Number, Sign, Space, Text, Url, Word};

impl Token {
    pub fn is(&self, sign: char) -> bool {
        matches!(self, Sign(c) if *c == sign)
    }

    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Word(w) if w.eq_ignore_ascii_case(word))
    }

    pub fn opens(&self) -> bool {
        matches!(self, Function(_) | Sign('(' | '[' | '{'))
    }

    pub fn closes(&self) -> bool {
        matches!(self, Sign(')' | ']' | '}'))
    }
}

struct Reader<'a> {
    rest: &'a str,
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn is_name(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit() || c == '-'
}

impl Reader<'_> {
    fn peek(&self, at: usize) -> Option<char> {
        self.rest.chars().nth(at)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn escape_at(&self, at: usize) -> bool {
        self.peek(at) == Some('\\') && self.peek(at + 1).is_some_and(|c| c != '\n')
    }

    fn name_at(&self, at: usize) -> bool {
        match self.peek(at) {
            Some('-') => matches!(self.peek(at + 1), Some(c) if is_name_start(c) || c == '-') || self.escape_at(at + 1),
            Some(c) if is_name_start(c) => true,
            _ => self.escape_at(at),
        }
    }

    fn number_at(&self) -> bool {
        let signed = usize::from(matches!(self.peek(0), Some('+' | '-')));
        let dotted = usize::from(self.peek(signed) == Some('.'));
        self.peek(signed + dotted).is_some_and(|c| c.is_ascii_digit())
    }

    /// Behind a backslash.
    fn escape(&mut self) -> char {
        let digits = self.rest.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
        if digits == 0 {
            return self.next().unwrap_or('\u{FFFD}');
        }
        let (code, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if matches!(self.peek(0), Some(c) if c.is_ascii_whitespace()) {
            self.next();
        }
        u32::from_str_radix(code, 16).ok().and_then(char::from_u32).filter(|c| *c != '\0').unwrap_or('\u{FFFD}')
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        loop {
            if self.peek(0).is_some_and(is_name) {
                name.extend(self.next());
            } else if self.escape_at(0) {
                self.next();
                name.push(self.escape());
            } else {
                return name;
            }
        }
    }

    fn text(&mut self, end: char) -> String {
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '\n' => break,
                '\\' if self.peek(0) == Some('\n') => drop(self.next()),
                '\\' => text.push(self.escape()),
                _ if c == end => break,
                _ => text.push(c),
            }
        }
        text
    }

    fn number(&mut self) -> Token {
        let bytes = self.rest.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut end = usize::from(matches!(bytes[0], b'+' | b'-'));
        end += digits(end);
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end += 1 + digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let power = digits((end + 1 + signed).min(bytes.len()));
            if power > 0 {
                end += 1 + signed + power;
            }
        }
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        let value = number.parse::<f64>().unwrap_or(0.0).clamp(-1e9, 1e9);
        if self.rest.starts_with('%') {
            self.next();
            return Number(value, "%".to_owned());
        }
        let unit = if self.name_at(0) { self.name().to_ascii_lowercase() } else { String::new() };
        Number(value, unit)
    }

    fn named(&mut self) -> Token {
        let name = self.name();
        if self.peek(0) != Some('(') {
            return Word(name);
        }
        self.next();
        let inside = self.rest.trim_start();
        if !name.eq_ignore_ascii_case("url") || inside.starts_with(['"', '\'']) {
            return Function(name);
        }
        while let Some(c) = self.next() {
            match c {
                ')' => break,
                '\\' => drop(self.next()),
                _ => {}
            }
        }
        Url
    }

    fn token(&mut self) -> Option<Token> {
        loop {
            if let Some(rest) = self.rest.strip_prefix("/*") {
                self.rest = rest.find("*/").map_or("", |end| &rest[end + 2..]);
            } else if let Some(rest) = self.rest.strip_prefix("<!--").or_else(|| self.rest.strip_prefix("-->")) {
                self.rest = rest;
            } else {
                break;
            }
        }
        let c = self.peek(0)?;
        if c.is_ascii_whitespace() {
            self.rest = self.rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
            return Some(Space);
        }
        if self.number_at() {
            return Some(self.number());
        }
        if self.name_at(0) {
            return Some(self.named());
        }
        self.next();
        Some(match c {
            '"' | '\'' => Text(self.text(c)),
            '#' if self.peek(0).is_some_and(is_name) || self.escape_at(0) => Hash(self.name()),
            '@' if self.name_at(0) => At(self.name()),
            c => Sign(c),
        })
    }
}

/// The tokens of a sheet, of a rule, or of a value.
pub fn tokens(css: &str) -> Vec<Token> {
    let mut reader = Reader { rest: css };
    std::iter::from_fn(|| reader.token()).collect()
}

/// Without white space at both ends.
pub fn trim(mut tokens: &[Token]) -> &[Token] {
    while let [Space, rest @ ..] | [rest @ .., Space] = tokens {
        tokens = rest;
    }
    tokens
}

/// Parts a list where `at` says so, outside all brackets.
pub fn split(tokens: &[Token], at: impl Fn(&Token) -> bool) -> Vec<&[Token]> {
    let (mut parts, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    for (i, token) in tokens.iter().enumerate() {
        if depth == 0 && at(token) {
            parts.push(trim(&tokens[from..i]));
            from = i + 1;
        }
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
        }
    }
    parts.push(trim(&tokens[from..]));
    parts
}

pub fn commas(tokens: &[Token]) -> Vec<&[Token]> {
    split(tokens, |token| token.is(','))
}

/// The parts of a value that white space separates.
pub fn words(tokens: &[Token]) -> Vec<&[Token]> {
    let mut words = split(tokens, |token| *token == Space);
    words.retain(|word| !word.is_empty());
    words
}

/// A function's name in lower case and what stands in its brackets, if that is all there is.
pub fn function(tokens: &[Token]) -> Option<(String, &[Token])> {
    let [Function(name), rest @ ..] = tokens else { return None };
    let inside = rest.strip_suffix(&[Sign(')')]).unwrap_or(rest);
    Some((name.to_ascii_lowercase(), inside))
}

/// What relative lengths are measured by, in pixels.
#[derive(Clone, Copy)]
pub struct Measure {
    pub em: f64,
    /// What 100 % are.
    pub whole: f64,
}

/// A length in pixels, a percentage of the whole, or a plain number. `None`: it is neither or can't be known.
///
/// `calc()` and its like are worked out.
pub fn length(tokens: &[Token], by: Measure) -> Option<f64> {
    value(trim(tokens), by, 0)
}

/// Brackets in brackets; deeper ones are not worked out.
const DEEPEST: usize = 12;

fn value(tokens: &[Token], by: Measure, depth: usize) -> Option<f64> {
    if depth > DEEPEST {
        return None;
    }
    if let [Number(n, unit)] = tokens {
        return pixels(*n, unit, by);
    }
    if let Some((name, inside)) = function(tokens) {
        let values = || commas(inside).into_iter().map(|part| sum(part, by, depth + 1)).collect::<Option<Vec<f64>>>();
        return match name.as_str() {
            "calc" | "-webkit-calc" | "-moz-calc" => sum(inside, by, depth + 1),
            "min" => values()?.into_iter().reduce(f64::min),
            "max" => values()?.into_iter().reduce(f64::max),
            "abs" => Some(sum(inside, by, depth + 1)?.abs()),
            "clamp" => match values()?[..] {
                [low, middle, high] => Some(middle.min(high).max(low)),
                _ => None,
            },
            _ => None,
        };
    }
    match tokens {
        [Sign('('), inside @ .., Sign(')')] => sum(inside, by, depth + 1),
        _ => None,
    }
}

/// A sum of products, as in `calc()`.
fn sum(tokens: &[Token], by: Measure, depth: usize) -> Option<f64> {
    let mut total = 0.0;
    let mut sign = 1.0;
    let mut term: Vec<Token> = Vec::new();
    for part in words(tokens) {
        match part {
            [Sign(c @ ('+' | '-'))] if !term.is_empty() => {
                total += sign * product(&term, by, depth)?;
                sign = if *c == '-' { -1.0 } else { 1.0 };
                term.clear();
            }
            part => term.extend_from_slice(part),
        }
    }
    Some(total + sign * product(&term, by, depth)?)
}

fn product(tokens: &[Token], by: Measure, depth: usize) -> Option<f64> {
    let mut total = 1.0;
    let mut divide = false;
    for part in split(tokens, |token| token.is('*')) {
        for (i, factor) in split(part, |token| token.is('/')).into_iter().enumerate() {
            let factor = value(factor, by, depth)?;
            divide = divide || (i > 0 && factor == 0.0);
            total = if i > 0 { total / factor } else { total * factor };
        }
    }
    (!divide && total.is_finite()).then_some(total)
}

fn pixels(n: f64, unit: &str, by: Measure) -> Option<f64> {
    Some(match unit {
        "" | "px" => n,
        "em" => n * by.em,
        "rem" => n * 16.0,
        "ex" | "ch" => n * by.em / 2.0,
        "lh" | "ic" | "cap" => n * by.em,
        "rlh" | "rch" | "rex" | "ric" | "rcap" => n * 16.0,
        "%" => n / 100.0 * by.whole,
        "pt" => n * 4.0 / 3.0,
        "pc" => n * 16.0,
        "in" => n * 96.0,
        "cm" => n * 37.8,
        "mm" => n * 3.78,
        "q" => n * 0.945,
        "vw" | "vh" | "vmin" | "vmax" | "svw" | "svh" | "lvw" | "lvh" | "dvw" | "dvh" | "vi" | "vb" | "cqw" | "cqh"
        | "cqi" | "cqb" | "cqmin" | "cqmax" => n * 10.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_worked_out() {
        let by = Measure { em: 20.0, whole: 200.0 };
        for (css, px) in [
            ("12px", Some(12.0)),
            ("-.5em", Some(-10.0)),
            ("50%", Some(100.0)),
            ("calc(1px * 0)", Some(0.0)),
            ("calc(100% - (2em + 3px) * 2)", Some(114.0)),
            ("min(0px, 1em)", Some(0.0)),
            ("clamp(1px, 5px, 3px)", Some(3.0)),
            ("1e1px", Some(10.0)),
            ("calc(1px / 0)", None),
            ("red", None),
            ("1px 2px", None),
        ] {
            assert_eq!(length(&tokens(css), by), px, "{css}");
        }
        assert_eq!(length(&tokens(&"calc(".repeat(10_000)), by), None);
    }

    #[test]
    fn escapes_and_comments_are_read_as_browsers_do() {
        assert_eq!(tokens(r"n\6fne"), [Word("none".into())]);
        assert_eq!(tokens("a/* x */b"), [Word("a".into()), Word("b".into())]);
        assert_eq!(tokens("url( x y ) z"), [Url, Space, Word("z".into())]);
        assert_eq!(tokens("'a\\'b'"), [Text("a'b".into())]);
        assert_eq!(tokens("@media #a 1.5EM -x(")[2], Hash("a".into()));
        assert_eq!(tokens("\\"), [Sign('\\')]);
    }
}
