//! Selectors of CSS: reading them, and which elements they mean.

use html5ever::ns;

use super::css::{Token, commas, trim};
use super::tree::Tree;

/// Selectors in selectors; deeper ones are not followed.
const DEEPEST: usize = 4;
/// Compound parts of one selector that are followed.
const LONGEST: usize = 40;

/// From an element to one that a relation leads to.
type Step = fn(&Tree, usize) -> Option<usize>;

/// How a compound part stands to the one on its right.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Relation {
    Within,
    Child,
    Behind,
    RightBehind,
}

#[derive(Clone, PartialEq, Debug)]
enum Test {
    Tag(String),
    Id(String),
    Class(String),
    Attribute {
        name: String,
        how: char,
        value: String,
        any_case: bool,
    },
    Is(Vec<Selector>),
    Negated(Vec<Selector>),
    Root,
    Link,
    Checked,
    Empty,
    /// `an+b`, counted from the end or not, and only those of the same name or all.
    Nth {
        a: i64,
        b: i64,
        last: bool,
        same: bool,
    },
    Never,
}

/// Parts from right to left, each with its relation to the one before.
#[derive(Clone, PartialEq, Debug)]
pub struct Selector {
    parts: Vec<(Relation, Vec<Test>)>,
    /// Ids, classes and the like, tags.
    pub specificity: [u32; 3],
    /// It is understood. Of one that isn't, only the last part is known.
    pub sure: bool,
}

/// By what an element that a selector means can be found fast; in lower case.
#[derive(PartialEq, Eq, Hash, Clone, Debug)]
pub enum Key {
    Tag(String),
    Id(String),
    Class(String),
    Any,
}

/// How much matching may still be done.
pub struct Work {
    pub left: usize,
    /// Names of classes and ids are compared without regard to case, as some readers do.
    pub any_case: bool,
}

impl Work {
    pub fn take(&mut self, work: usize) -> bool {
        self.left = self.left.saturating_sub(work);
        self.left > 0
    }

    fn same(&self, a: &str, b: &str) -> bool {
        a == b || self.any_case && a.eq_ignore_ascii_case(b)
    }
}

/// The selectors of a list. Empty: none of them can mean anything.
pub fn selectors(tokens: &[Token]) -> Vec<Selector> {
    list(tokens, 0)
}

fn list(tokens: &[Token], depth: usize) -> Vec<Selector> {
    let mut list = Vec::new();
    let mut sure = true;
    for one in commas(tokens) {
        match selector(one, depth) {
            Ok(found) => list.extend(found),
            Err(Broken) => sure = false,
        }
    }
    // Browsers drop a rule when they don't know one of its selectors.
    if depth == 0 && !(sure && list.iter().all(|one| one.sure)) {
        list.iter_mut().for_each(|one| one.sure = false);
    }
    list
}

/// It is no selector.
struct Broken;

/// `None`: no element can be meant by it.
fn selector(tokens: &[Token], depth: usize) -> Result<Option<Selector>, Broken> {
    let mut reader = Reader { rest: trim(tokens), depth, sure: true, specificity: [0; 3], broken: false };
    if reader.rest.is_empty() {
        return Err(Broken);
    }
    let mut parts = Vec::new();
    let mut relation = Relation::Within;
    loop {
        let tests = reader.compound();
        if tests.is_none() && !reader.broken && !parts.is_empty() {
            reader.broken = true;
        }
        parts.push((relation, tests.unwrap_or_default()));
        match reader.relation() {
            Some(next) => relation = next,
            None => break,
        }
    }
    if !reader.rest.is_empty() {
        reader.broken = true;
    }
    reader.sure &= !reader.broken;
    // Each part holds its relation to the one on its left.
    let mut list = parts;
    list.reverse();
    if depends_on_reader(&list) || list.len() > LONGEST {
        reader.sure = false;
    }
    if !reader.sure {
        list.truncate(1);
    }
    let means_all = list.first().is_none_or(|(_, tests)| tests.is_empty());
    let means_none = list.iter().any(|(_, tests)| tests.contains(&Test::Never));
    if reader.broken && means_all {
        return Err(Broken);
    }
    let Reader { specificity, sure, .. } = reader;
    Ok((!means_none || depth > 0).then_some(Selector { parts: list, specificity, sure }))
}

/// Whether a part left of the last is there only in some mail readers, which put it around the letter.
fn depends_on_reader(parts: &[(Relation, Vec<Test>)]) -> bool {
    parts.iter().skip(1).flat_map(|(_, tests)| tests).any(|test| match test {
        Test::Tag(name) => name == "u",
        Test::Id(id) => id.starts_with("Message") || id == "outlook",
        Test::Class(class) => class == "ExternalClass" || class.starts_with("moz-text"),
        Test::Attribute { name, .. } => name == "owa" || name == "data-ogsc" || name == "data-ogsb",
        _ => false,
    })
}

struct Reader<'a> {
    rest: &'a [Token],
    depth: usize,
    sure: bool,
    specificity: [u32; 3],
    /// It is no selector, or one of a kind that is not known.
    broken: bool,
}

impl<'a> Reader<'a> {
    fn relation(&mut self) -> Option<Relation> {
        let spaced = self.rest.first() == Some(&Token::Space);
        self.rest = trim(self.rest);
        let relation = match self.rest.first()? {
            Token::Sign('>') => Relation::Child,
            Token::Sign('+') => Relation::RightBehind,
            Token::Sign('~') => Relation::Behind,
            _ if spaced => return Some(Relation::Within),
            _ => return None,
        };
        self.rest = trim(&self.rest[1..]);
        Some(relation)
    }

    /// What stands in brackets, and behind them.
    fn bracketed(&mut self) -> &'a [Token] {
        let mut depth = 1;
        let end = self.rest.iter().position(|token| {
            depth += i32::from(token.opens()) - i32::from(token.closes());
            depth == 0
        });
        let inside = &self.rest[..end.unwrap_or(self.rest.len())];
        self.rest = end.map_or(&[], |end| &self.rest[end + 1..]);
        inside
    }

    /// `None`: nothing stands there.
    fn compound(&mut self) -> Option<Vec<Test>> {
        let mut tests = Vec::new();
        let before = self.rest.len();
        match self.rest {
            [Token::Word(name), rest @ ..] => {
                self.rest = rest;
                self.specificity[2] += 1;
                tests.push(Test::Tag(name.to_ascii_lowercase()));
            }
            [Token::Sign('*' | '&'), rest @ ..] => self.rest = rest,
            _ => {}
        }
        loop {
            match self.rest {
                [Token::Hash(id), rest @ ..] => {
                    self.rest = rest;
                    self.specificity[0] += 1;
                    tests.push(Test::Id(id.clone()));
                }
                [Token::Sign('.'), Token::Word(class), rest @ ..] => {
                    self.rest = rest;
                    self.specificity[1] += 1;
                    tests.push(Test::Class(class.clone()));
                }
                [Token::Sign('['), rest @ ..] => {
                    self.rest = rest;
                    self.specificity[1] += 1;
                    let inside = self.bracketed();
                    match attribute(trim(inside)) {
                        Some(test) => tests.push(test),
                        None => self.broken = true,
                    }
                }
                [Token::Sign(':'), Token::Sign(':'), rest @ ..] => {
                    self.rest = rest;
                    tests.extend(self.pseudo_element());
                }
                [Token::Sign(':'), rest @ ..] => {
                    self.rest = rest;
                    tests.extend(self.pseudo_class());
                }
                _ => break,
            }
        }
        (self.rest.len() < before).then_some(tests)
    }

    fn pseudo_element(&mut self) -> Option<Test> {
        match self.rest {
            [Token::Word(name), rest @ ..] => {
                self.rest = rest;
                self.element_named(&name.to_ascii_lowercase())
            }
            [Token::Function(_), rest @ ..] => {
                self.rest = rest;
                self.bracketed();
                Some(Test::Never)
            }
            _ => {
                self.broken = true;
                None
            }
        }
    }

    /// Parts of an element whose style says nothing about its text, and those that do.
    fn element_named(&mut self, name: &str) -> Option<Test> {
        match name {
            "before" | "after" | "marker" | "placeholder" | "selection" | "backdrop" | "file-selector-button" => {
                return Some(Test::Never);
            }
            "first-line" | "first-letter" => self.sure = false,
            name if name.starts_with("-webkit-") => return Some(Test::Never),
            _ => self.broken = true,
        }
        None
    }

    fn pseudo_class(&mut self) -> Option<Test> {
        let name = match self.rest {
            [Token::Word(name), rest @ ..] => {
                self.rest = rest;
                name.to_ascii_lowercase()
            }
            [Token::Function(name), rest @ ..] => {
                self.rest = rest;
                let inside = self.bracketed();
                return self.called(&name.to_ascii_lowercase(), trim(inside));
            }
            _ => {
                self.broken = true;
                return None;
            }
        };
        let nth = |b: i64, last: bool, same: bool| Some(Test::Nth { a: 0, b, last, same });
        self.specificity[1] += 1;
        match name.as_str() {
            "hover" | "focus" | "active" | "visited" | "target" | "focus-within" | "focus-visible" | "fullscreen" => {
                Some(Test::Never)
            }
            "root" => Some(Test::Root),
            "link" | "any-link" | "-webkit-any-link" | "-moz-any-link" => Some(Test::Link),
            "checked" => Some(Test::Checked),
            "empty" => Some(Test::Empty),
            "first-child" => nth(1, false, false),
            "last-child" => nth(1, true, false),
            "first-of-type" => nth(1, false, true),
            "last-of-type" => nth(1, true, true),
            "only-child" | "only-of-type" => {
                self.sure = false;
                nth(1, false, name == "only-of-type")
            }
            "enabled" | "defined" | "read-only" | "scope" | "disabled" | "required" | "optional" | "valid"
            | "invalid" | "default" | "read-write" | "in-range" | "out-of-range" | "placeholder-shown"
            | "indeterminate" => {
                self.sure = false;
                None
            }
            "before" | "after" | "first-line" | "first-letter" => {
                self.specificity[1] -= 1;
                self.element_named(&name)
            }
            _ => {
                self.broken = true;
                None
            }
        }
    }

    fn called(&mut self, name: &str, inside: &'a [Token]) -> Option<Test> {
        match name {
            "is" | "where" | "not" | "matches" | "-webkit-any" | "-moz-any" if self.depth < DEEPEST => {
                let list = list(inside, self.depth + 1);
                self.sure &= list.iter().all(|one| one.sure) && list.len() == commas(inside).len();
                if name != "where" {
                    let most = list.iter().map(|one| one.specificity).max().unwrap_or_default();
                    (0..3).for_each(|at| self.specificity[at] += most[at]);
                }
                if self.sure {
                    return Some(if name == "not" { Test::Negated(list) } else { Test::Is(list) });
                }
            }
            "nth-child" | "nth-last-child" | "nth-of-type" | "nth-last-of-type" => {
                self.specificity[1] += 1;
                if let Some((a, b)) = nth(inside) {
                    let (last, same) = (name.contains("last"), name.ends_with("type"));
                    return Some(Test::Nth { a, b, last, same });
                }
                self.sure = false;
            }
            "is" | "where" | "not" | "has" | "lang" | "dir" | "host" | "state" => {
                self.specificity[1] += 1;
                self.sure = false;
            }
            _ => self.broken = true,
        }
        None
    }
}

fn attribute(tokens: &[Token]) -> Option<Test> {
    let [Token::Word(name), rest @ ..] = tokens else { return None };
    let name = name.to_ascii_lowercase();
    let rest = trim(rest);
    let (how, rest) = match rest {
        [] => return Some(Test::Attribute { name, how: ' ', value: String::new(), any_case: false }),
        [Token::Sign('='), rest @ ..] => ('=', rest),
        [Token::Sign(how @ ('~' | '|' | '^' | '$' | '*')), Token::Sign('='), rest @ ..] => (*how, rest),
        _ => return None,
    };
    let (value, rest) = match trim(rest) {
        [Token::Word(value) | Token::Text(value), rest @ ..] => (value.clone(), trim(rest)),
        [Token::Number(n, unit), rest @ ..] => (format!("{n}{unit}"), trim(rest)),
        _ => return None,
    };
    // Values of these are compared without regard to case in HTML.
    let any = ["type", "align", "bgcolor", "color", "dir", "face", "lang", "valign", "checked", "hidden"];
    let any_case = any.contains(&name.as_str()) || rest.first().is_some_and(|token| token.is_word("i"));
    Some(Test::Attribute { name, how, value, any_case })
}

fn nth(tokens: &[Token]) -> Option<(i64, i64)> {
    let mut text = String::new();
    for token in tokens {
        match token {
            Token::Word(word) => text.push_str(word),
            Token::Number(n, unit) if text.is_empty() || *n < 0.0 => text.push_str(&format!("{n}{unit}")),
            Token::Number(n, unit) if text.ends_with(['+', '-']) => text.push_str(&format!("{n}{unit}")),
            Token::Number(n, unit) => text.push_str(&format!("+{n}{unit}")),
            Token::Sign(c @ ('+' | '-')) => text.push(*c),
            Token::Space => {}
            _ => return None,
        }
    }
    let text = text.to_ascii_lowercase();
    match text.as_str() {
        "odd" => return Some((2, 1)),
        "even" => return Some((2, 0)),
        _ => {}
    }
    let Some((a, b)) = text.split_once('n') else { return Some((0, text.trim_start_matches('+').parse().ok()?)) };
    let a = match a.trim_start_matches('+') {
        "" => 1,
        "-" => -1,
        a => a.parse().ok()?,
    };
    let b = if b.is_empty() { 0 } else { b.trim_start_matches('+').parse().ok()? };
    Some((a, b))
}

impl Selector {
    pub fn key(&self) -> Key {
        let tests = self.parts.first().map(|(_, tests)| tests.as_slice()).unwrap_or_default();
        let of = |test: &Test| match test {
            Test::Id(id) => Some((0, Key::Id(id.to_ascii_lowercase()))),
            Test::Class(class) => Some((1, Key::Class(class.to_ascii_lowercase()))),
            Test::Tag(tag) => Some((2, Key::Tag(tag.clone()))),
            _ => None,
        };
        tests.iter().filter_map(of).min_by_key(|(rank, _)| *rank).map_or(Key::Any, |(_, key)| key)
    }

    /// Whether it means an element. When the work is used up, it doesn't.
    pub fn means(&self, tree: &Tree, node: usize, work: &mut Work) -> bool {
        self.from(0, tree, node, work)
    }

    fn from(&self, at: usize, tree: &Tree, node: usize, work: &mut Work) -> bool {
        let Some((relation, tests)) = self.parts.get(at) else { return true };
        if !work.take(1 + tests.len()) || !tests.iter().all(|test| test.holds(tree, node, work)) {
            return false;
        }
        if at + 1 == self.parts.len() {
            return true;
        }
        let (step, once): (Step, bool) = match relation {
            Relation::Within => (Tree::parent_element, false),
            Relation::Child => (Tree::parent_element, true),
            Relation::Behind => (Tree::previous_element, false),
            Relation::RightBehind => (Tree::previous_element, true),
        };
        let mut other = step(tree, node);
        while let Some(candidate) = other {
            if !work.take(1) {
                return false;
            }
            if self.from(at + 1, tree, candidate, work) {
                return true;
            }
            other = if once { None } else { step(tree, candidate) };
        }
        false
    }
}

impl Test {
    fn holds(&self, tree: &Tree, node: usize, work: &mut Work) -> bool {
        let Some((ns, name)) = tree.name(node) else { return false };
        match self {
            Self::Tag(tag) => str::eq_ignore_ascii_case(name, tag),
            Self::Id(id) => tree.attribute(node, "id").is_some_and(|found| work.same(found, id)),
            Self::Class(class) => {
                let classes = tree.attribute(node, "class").unwrap_or_default();
                work.take(classes.len() / 16);
                classes.split_ascii_whitespace().any(|one| work.same(one, class))
            }
            Self::Attribute { name, how, value, any_case } => {
                let Some(found) = tree.attribute(node, name) else { return false };
                work.take(found.len() / 16);
                if *any_case {
                    compare(*how, &found.to_ascii_lowercase(), &value.to_ascii_lowercase())
                } else {
                    compare(*how, found, value)
                }
            }
            Self::Is(list) => list.iter().any(|one| one.means(tree, node, work)),
            Self::Negated(list) => !list.iter().any(|one| one.means(tree, node, work)),
            Self::Root => *ns == ns!(html) && &**name == "html",
            Self::Link => &**name == "a" && tree.attribute(node, "href").is_some(),
            Self::Checked => tree.attribute(node, "checked").is_some(),
            Self::Empty => tree.nodes.get(node).is_some_and(|node| node.first == super::tree::NONE),
            Self::Nth { a, b, last, same } => {
                let step = if *last { Tree::next_element } else { Tree::previous_element };
                let (mut place, mut other) = (1_i64, step(tree, node));
                while let Some(sibling) = other {
                    if !work.take(1) {
                        return false;
                    }
                    place += i64::from(!*same || tree.name(sibling).is_some_and(|(_, other)| other == name));
                    other = step(tree, sibling);
                }
                let beyond = place - b;
                if *a == 0 { beyond == 0 } else { beyond % a == 0 && beyond / a >= 0 }
            }
            Self::Never => false,
        }
    }
}

fn compare(how: char, found: &str, value: &str) -> bool {
    match how {
        ' ' => true,
        '=' => found == value,
        '~' => !value.is_empty() && found.split_ascii_whitespace().any(|word| word == value),
        '|' => found == value || found.strip_prefix(value).is_some_and(|rest| rest.starts_with('-')),
        '^' => !value.is_empty() && found.starts_with(value),
        '$' => !value.is_empty() && found.ends_with(value),
        _ => !value.is_empty() && found.contains(value),
    }
}
