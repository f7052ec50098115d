//! Style sheets: their rules, as far as they say something about what is seen.

use std::collections::HashMap;
use std::rc::Rc;

use super::css::{Token, commas, tokens, trim};
use super::media::{Verdict, media};
use super::select::{Key, Selector, selectors};

/// Rules, and bytes of sheets, of one document. What is hidden by more can't be known.
const MOST_RULES: usize = 5_000;
const MOST_BYTES: usize = 1_000_000;
/// Blocks in blocks.
const DEEPEST: usize = 24;
/// Tokens of one value, and of one selector list.
const LONGEST: usize = 256;
const LONGEST_LIST: usize = 2_000;
/// Values that one variable may have, and variables.
const MOST_VALUES: usize = 6;
const MOST_VARIABLES: usize = 500;

/// The properties that something is read of.
const READ: &str = "-moz-transform -webkit-background-clip -webkit-clip-path -webkit-filter -webkit-mask \
    -webkit-mask-image -webkit-text-fill-color -webkit-text-security -webkit-transform animation animation-name \
    -webkit-animation -webkit-animation-name background background-clip background-color background-image bottom \
    clip clip-path color content-visibility display fill filter float font font-size height inset left letter-spacing \
    line-height margin margin-left margin-top margin-inline-start mask mask-image max-height max-width mso-hide \
    opacity overflow overflow-x overflow-y position right scale text-indent top transform translate rotate \
    visibility white-space width zoom block-size inline-size max-block-size max-inline-size inset-inline-start \
    inset-inline inset-block-start inset-block";

/// One declaration; its name in lower case, its value without `!important`.
#[derive(Clone, PartialEq, Debug)]
pub struct Declaration {
    pub name: String,
    pub value: Vec<Token>,
    pub important: bool,
}

pub struct Rule {
    pub selector: Selector,
    pub declarations: Rc<Vec<Declaration>>,
    pub order: usize,
    /// Its selector is understood, and the medium is a screen. Other rules only hide.
    pub sure: bool,
}

/// All sheets of a document.
#[derive(Default)]
pub struct Sheet {
    pub rules: Vec<Rule>,
    /// Which rules may mean an element.
    pub by_key: HashMap<Key, Vec<usize>>,
    /// What each `--name` may be.
    pub variables: HashMap<String, Vec<Vec<Token>>>,
    /// What an animation ends with.
    pub animations: HashMap<String, Rc<Vec<Declaration>>>,
    /// There is more than is read.
    pub too_large: bool,
    bytes: usize,
    order: usize,
}

enum Block {
    /// Rules stand in it, or declarations that belong to the selector around.
    Group,
    Style(Style),
    Animation(String),
    Frame(Vec<Declaration>),
    Ignored,
}

struct Style {
    selector: Vec<Token>,
    declarations: Vec<Declaration>,
    order: usize,
}

/// Declarations of a `style` attribute, or of a part of a rule. `too_long`: one of them was, and is not among them.
pub fn declarations(tokens: &[Token], found: &mut Vec<Declaration>) -> bool {
    let mut too_long = false;
    for item in super::css::split(tokens, |token| token.is(';')) {
        let [Token::Word(name), rest @ ..] = item else { continue };
        let [Token::Sign(':'), value @ ..] = trim(rest) else { continue };
        let custom = name.starts_with("--");
        let name = if custom { name.clone() } else { name.to_ascii_lowercase() };
        if !custom && !READ.split(' ').any(|read| read == name) {
            continue;
        }
        let mut value = trim(value);
        let mut important = false;
        if let [before @ .., Token::Word(word)] = value
            && word.eq_ignore_ascii_case("important")
            && let [before @ .., Token::Sign('!')] = trim(before)
        {
            important = true;
            value = trim(before);
        }
        if value.len() > LONGEST {
            too_long |= !name.contains("background");
            continue;
        }
        if value.is_empty() || value.iter().any(|token| token.is('!')) {
            continue;
        }
        // Each may be there in several notations, of which readers take the last they know.
        if found.len() < LONGEST {
            found.push(Declaration { name, value: value.to_vec(), important });
        } else {
            too_long = true;
        }
    }
    too_long
}

impl Sheet {
    /// Adds what a `<style>` says.
    pub fn add(&mut self, css: &str, medium: Option<&str>) {
        let verdict = medium.filter(|m| !m.trim().is_empty()).map_or(Verdict::Yes, |m| media(&tokens(m)));
        self.bytes += css.len();
        if self.bytes > MOST_BYTES {
            self.too_large = true;
        }
        if verdict != Verdict::No && !self.too_large {
            Blocks { sheet: self, open: Vec::new(), sure: vec![verdict == Verdict::Yes] }.read(&tokens(css));
        }
    }

    /// Knows the values of a variable.
    pub fn learn(&mut self, declarations: &[Declaration]) {
        for declaration in declarations.iter().filter(|d| d.name.starts_with("--")) {
            if self.variables.len() >= MOST_VARIABLES && !self.variables.contains_key(&declaration.name) {
                self.too_large = true;
                return;
            }
            let values = self.variables.entry(declaration.name.clone()).or_default();
            if !values.contains(&declaration.value) {
                values.push(declaration.value.clone());
                self.too_large |= values.len() > MOST_VALUES;
            }
        }
    }

    fn close(&mut self, style: Style, sure: bool) {
        self.learn(&style.declarations);
        let declarations: Vec<Declaration> =
            style.declarations.into_iter().filter(|d| !d.name.starts_with("--")).collect();
        if declarations.is_empty() {
            return;
        }
        let declarations = Rc::new(declarations);
        for selector in selectors(&style.selector) {
            if self.rules.len() >= MOST_RULES {
                self.too_large = true;
                return;
            }
            self.by_key.entry(selector.key()).or_default().push(self.rules.len());
            let sure = sure && selector.sure;
            self.rules.push(Rule { selector, declarations: Rc::clone(&declarations), order: style.order, sure });
        }
    }
}

struct Blocks<'a> {
    sheet: &'a mut Sheet,
    open: Vec<Block>,
    /// For each open block and what is around it all: whether its rules hold for sure.
    sure: Vec<bool>,
}

impl Blocks<'_> {
    fn read(mut self, tokens: &[Token]) {
        let mut from = 0;
        // How the brackets that are open are closed; whatever stands between them is no block.
        let mut brackets: Vec<char> = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            if self.sheet.too_large {
                return;
            }
            match token {
                Token::Function(_) | Token::Sign('(') => brackets.push(')'),
                Token::Sign('[') => brackets.push(']'),
                Token::Sign('{') if !brackets.is_empty() => brackets.push('}'),
                Token::Sign(c) if !brackets.is_empty() => drop(brackets.pop_if(|open| open == c)),
                Token::Sign('{') => {
                    self.begin(trim(&tokens[from..at]));
                    from = at + 1;
                }
                Token::Sign(';') => {
                    self.item(&tokens[from..at]);
                    from = at + 1;
                }
                Token::Sign('}') => {
                    self.item(&tokens[from..at]);
                    from = at + 1;
                    self.end();
                }
                _ => {}
            }
        }
        self.item(tokens.get(from..).unwrap_or_default());
        while !self.open.is_empty() {
            self.end();
        }
    }

    fn begin(&mut self, head: &[Token]) {
        if self.open.len() >= DEEPEST || head.len() > LONGEST_LIST {
            self.sheet.too_large = true;
            return;
        }
        let sure = self.sure.last().copied().unwrap_or(true);
        let (block, sure) = match (head, self.open.last()) {
            (_, Some(Block::Ignored | Block::Frame(_))) => (Block::Ignored, sure),
            ([Token::At(name), rest @ ..], _) => at_rule(&name.to_ascii_lowercase(), trim(rest), sure),
            (head, Some(Block::Animation(_))) => {
                let last = head.iter().any(|t| t.is_word("to") || matches!(t, Token::Number(n, _) if *n == 100.0));
                (if last { Block::Frame(Vec::new()) } else { Block::Ignored }, sure)
            }
            (head, _) => {
                self.sheet.order += 1;
                let selector = self.nested(head);
                let order = self.sheet.order;
                (Block::Style(Style { selector, declarations: Vec::new(), order }), sure)
            }
        };
        self.open.push(block);
        self.sure.push(sure);
    }

    /// A selector within the one that is around it, if there is one.
    fn nested(&mut self, head: &[Token]) -> Vec<Token> {
        let around = self.open.iter().rev().find_map(|block| match block {
            Block::Style(style) => Some(&style.selector),
            _ => None,
        });
        let Some(around) = around else { return head.to_vec() };
        let mut all = Vec::new();
        for one in commas(head) {
            if !all.is_empty() {
                all.push(Token::Sign(','));
            }
            let mut this = vec![Token::Function("is".to_owned())];
            this.extend_from_slice(around);
            this.push(Token::Sign(')'));
            this.insert(0, Token::Sign(':'));
            if !one.iter().any(|token| token.is('&')) {
                all.extend_from_slice(&this);
                all.push(Token::Space);
            }
            for token in one {
                if token.is('&') {
                    all.extend_from_slice(&this);
                } else {
                    all.push(token.clone());
                }
                if all.len() > LONGEST_LIST {
                    self.sheet.too_large = true;
                    return Vec::new();
                }
            }
        }
        all
    }

    fn item(&mut self, tokens: &[Token]) {
        if trim(tokens).is_empty() {
            return;
        }
        let found = self.open.iter_mut().rev().find_map(|block| match block {
            Block::Style(style) => Some(Some(&mut style.declarations)),
            Block::Frame(frame) => Some(Some(frame)),
            Block::Ignored | Block::Animation(_) => Some(None),
            Block::Group => None,
        });
        if let Some(Some(found)) = found {
            self.sheet.too_large |= declarations(tokens, found);
        }
    }

    fn end(&mut self) {
        let sure = self.sure.last().copied().unwrap_or(true);
        if self.sure.len() > 1 {
            self.sure.pop();
        }
        match self.open.pop() {
            Some(Block::Style(style)) => self.sheet.close(style, sure),
            Some(Block::Frame(frame)) => {
                if let Some(Block::Animation(name)) = self.open.last() {
                    self.sheet.animations.insert(name.clone(), Rc::new(frame));
                }
            }
            _ => {}
        }
    }
}

fn at_rule(name: &str, rest: &[Token], sure: bool) -> (Block, bool) {
    match name {
        "media" => match media(rest) {
            Verdict::Yes => (Block::Group, sure),
            Verdict::Unknown => (Block::Group, false),
            Verdict::No => (Block::Ignored, sure),
        },
        // Whether they hold, or how strongly, is not worked out.
        "supports" | "layer" | "scope" | "container" | "starting-style" | "document" | "-moz-document" => {
            (Block::Group, false)
        }
        "keyframes" | "-webkit-keyframes" => match rest {
            [Token::Word(name) | Token::Text(name), ..] => (Block::Animation(name.clone()), sure),
            _ => (Block::Ignored, sure),
        },
        _ => (Block::Ignored, sure),
    }
}
