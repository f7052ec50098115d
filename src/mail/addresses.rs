//! Whom a letter is from and to: addresses only from where addresses stand.
//!
//! A name, a comment, an encoded word or a quoted text may look like an address. None of them becomes one. What is
//! written so that two programs could read two addresses is none.

use super::clean;
use super::decode;
use super::letter::Mailbox;

/// Addresses of one field.
const MOST: usize = 200;
/// Characters of a name.
const LONGEST_NAME: usize = 200;
/// Comments within comments.
const DEEPEST: usize = 20;

/// What one field says.
#[derive(Debug, Default)]
pub(crate) struct List {
    pub mailboxes: Vec<Mailbox>,
    /// Something in it is no address, or a group, or written so that others may read it differently.
    pub odd: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(String),
    Quoted(String),
    Comment(String),
    Special(char),
    Blank,
}

impl List {
    pub fn parse(value: &str) -> Self {
        let mut list = Self::default();
        let (tokens, closed) = tokens(value);
        list.odd |= !closed;
        let mut entry: Vec<Token> = Vec::new();
        let (mut angle, mut group) = (false, false);
        for token in tokens {
            match token {
                Token::Special(',') if !angle => list.entry(&mut entry, group),
                Token::Special(';') if !angle => {
                    list.odd = true;
                    list.entry(&mut entry, true);
                    group = false;
                }
                Token::Special(':') if !angle => {
                    (list.odd, group) = (true, true);
                    entry.clear();
                }
                token => {
                    match &token {
                        Token::Special('<') => angle = true,
                        Token::Special('>') => angle = false,
                        _ => {}
                    }
                    entry.push(token);
                }
            }
        }
        // What is opened and never closed is no address, whatever stands in front of it.
        if closed {
            list.entry(&mut entry, group);
        }
        list
    }

    /// Takes in what stands between two commas.
    fn entry(&mut self, entry: &mut Vec<Token>, may_be_empty: bool) {
        let tokens = std::mem::take(entry);
        if tokens.iter().all(|token| matches!(token, Token::Blank | Token::Comment(_))) {
            self.odd |= !may_be_empty;
        } else if self.mailboxes.len() >= MOST {
            self.odd = true;
        } else {
            match mailbox(&tokens) {
                Some(mailbox) => self.mailboxes.push(mailbox),
                None => self.odd = true,
            }
        }
    }
}

/// The pieces of a field, and whether all that was opened is closed.
fn tokens(value: &str) -> (Vec<Token>, bool) {
    let mut tokens = Vec::new();
    let mut chars = value.chars().peekable();
    let mut closed = true;
    while let Some(c) = chars.next() {
        let token = match c {
            '"' => {
                let mut text = String::new();
                closed = false;
                while let Some(c) = chars.next() {
                    match c {
                        '"' => {
                            closed = true;
                            break;
                        }
                        '\\' => text.extend(chars.next()),
                        c => text.push(c),
                    }
                }
                Token::Quoted(text)
            }
            '(' => {
                let (text, ended) = comment(&mut chars);
                closed = ended;
                Token::Comment(text)
            }
            '<' | '>' | ',' | ';' | ':' | '@' | ')' | '[' | ']' | '\\' => Token::Special(c),
            ' ' | '\t' => Token::Blank,
            c => {
                let mut text = String::from(c);
                while let Some(c) = chars.next_if(|c| !"\"(<>,;:@)[]\\ \t".contains(*c)) {
                    text.push(c);
                }
                Token::Word(text)
            }
        };
        tokens.push(token);
        if !closed {
            return (tokens, false);
        }
    }
    (tokens, closed)
}

/// Reads behind `(`.
fn comment(chars: &mut impl Iterator<Item = char>) -> (String, bool) {
    let mut text = String::new();
    let mut depth = 1;
    while let Some(c) = chars.next() {
        match c {
            '(' if depth >= DEEPEST => return (text, false),
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        match c {
            _ if depth == 0 => return (text, true),
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    (text, false)
}

/// `Name <local@domain>` or `local@domain (name)`.
fn mailbox(tokens: &[Token]) -> Option<Mailbox> {
    let nothing = |token: &Token| matches!(token, Token::Blank | Token::Comment(_));
    let Some(open) = tokens.iter().position(|token| *token == Token::Special('<')) else {
        let from = tokens.iter().position(|token| !nothing(token))?;
        let to = tokens.iter().rposition(|token| !nothing(token))? + 1;
        let address = address(&tokens[from..to])?;
        let around = tokens[..from].iter().chain(&tokens[to..]);
        let comments = around.filter_map(|token| match token {
            Token::Comment(text) => Some(text.as_str()),
            _ => None,
        });
        let name = name(&comments.collect::<Vec<_>>().join(" "));
        return Some(Mailbox { name, address });
    };
    let length = tokens[open..].iter().position(|token| *token == Token::Special('>'))?;
    let (inner, behind) = (&tokens[open + 1..open + length], &tokens[open + length + 1..]);
    if !behind.iter().all(nothing) {
        return None;
    }
    let from = inner.iter().position(|token| *token != Token::Blank)?;
    let to = inner.iter().rposition(|token| *token != Token::Blank)? + 1;
    let address = address(&inner[from..to])?;
    let mut written = String::new();
    for token in &tokens[..open] {
        match token {
            Token::Word(text) | Token::Quoted(text) => written.push_str(text),
            Token::Special(c) => written.push(*c),
            Token::Blank => written.push(' '),
            Token::Comment(_) => {}
        }
    }
    Some(Mailbox { name: name(&written), address })
}

/// The address that pieces are, without anything else among them.
fn address(tokens: &[Token]) -> Option<String> {
    let [local, Token::Special('@'), Token::Word(domain)] = tokens else { return None };
    let (Token::Word(local) | Token::Quoted(local)) = local else { return None };
    let atom = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    // What needs its quotes would look like something else to whoever reads it without them.
    let plain = (1..=200).contains(&local.len())
        && local.chars().all(atom)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("=?");
    if !plain {
        return None;
    }
    Some(format!("{local}@{}", self::domain(domain)?))
}

/// A domain in lower case; `None`: it is none.
pub(crate) fn domain(domain: &str) -> Option<String> {
    let domain = domain.to_lowercase();
    // Letters of other scripts may stand with marks on them.
    let letter = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_') || ('\u{300}'..='\u{36F}').contains(&c);
    let label = |label: &str| {
        (1..=63).contains(&label.chars().count())
            && label.chars().all(letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (domain.len() <= 253 && domain.split('.').all(label)).then_some(domain)
}

/// A name as a person reads it.
fn name(written: &str) -> Option<String> {
    let name = clean::line(&decode::words(&clean::line(written, LONGEST_NAME * 10)), LONGEST_NAME);
    let name = name.trim_matches(['"', '\'', ' ']);
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
#[path = "addresses_tests.rs"]
mod tests;
