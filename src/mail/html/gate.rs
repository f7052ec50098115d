//! What stands between the tokens of a document and its tree: limits.
//!
//! A tree builder walks over all open elements for many tags, and its tokenizer over all attributes of a tag: both are
//! quadratic, and a megabyte of either would take minutes. What goes over a limit never reaches the text.

use std::cell::{Cell, RefCell};

use html5ever::buffer_queue::BufferQueue;
use html5ever::interface::{Attribute, QualName, Tracer, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use html5ever::tree_builder::{TreeBuilder, TreeBuilderOpts};
use html5ever::{LocalName, TokenizerResult, local_name, ns};

use super::tree::{GONE, Handle, MOST_ATTRIBUTES, Sink, Tree, count, is_one_of};

/// Elements that are open at a time; browsers nest no deeper either. What stands deeper is cut.
const DEEPEST: usize = 512;
/// Elements and texts of one document. What comes behind them is cut.
const MOST_NODES: usize = 120_000;
/// What comparing attributes may cost, in comparisons.
const MOST_COMPARED: usize = 8_000_000;
/// So much is read before the limits are looked at, in bytes.
const PIECE: usize = 1024;

/// Reads a document.
pub fn parse(html: &str) -> Tree {
    let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let tokenizer = Tokenizer::new(Gate::new(TreeBuilder::new(Sink::new(), options)), TokenizerOpts::default());
    let gate = &tokenizer.sink;
    let mut reading =
        Reading { tokenizer: &tokenizer, tokens: 0, comment: true, in_comment: false, separators: 0, compared: 0 };
    let mut rest = html;
    while !rest.is_empty() && !gate.cut.get() && reading.compared <= MOST_COMPARED {
        // A comment begins a piece of its own.
        let start = &rest.as_bytes()[..rest.len().min(PIECE + 1)];
        let comment = start.windows(2).skip(1).position(|pair| pair == b"<!").map_or(PIECE, |at| at + 1);
        let (piece, behind) = rest.split_at(rest.floor_char_boundary(comment));
        reading.feed(piece);
        rest = behind;
    }
    // Roughly: what of it is markup is not known.
    gate.builder.sink.hide(rest.split('<').map(|part| count(part.rsplit('>').next().unwrap_or(part))).sum());
    tokenizer.end();
    tokenizer.sink.builder.sink.finish()
}

/// Where the tokenizer is.
struct Reading<'a> {
    tokenizer: &'a Tokenizer<Gate>,
    tokens: usize,
    /// No tag is open, only text or a comment can be.
    comment: bool,
    in_comment: bool,
    /// What may part attributes, since the last token.
    separators: usize,
    compared: usize,
}

impl Reading<'_> {
    fn feed(&mut self, piece: &str) {
        self.in_comment |= self.comment && piece.starts_with("<!");
        let last = piece.char_indices().next_back().map_or(0, |(at, _)| at);
        let before = self.tokens;
        self.part(&piece[..last]);
        let middle = self.tokens;
        self.part(&piece[last..]);
        // A token that ends with the last character leaves none open.
        self.comment = self.tokens != middle;
        // While none comes, all of this may be the attributes of one tag, each compared with all before it. In the
        // text of an image there are few separators.
        let more = piece.bytes().filter(|b| b.is_ascii_whitespace() || b"/\"'".contains(b)).count();
        let more = more.saturating_sub(piece.len() / 40);
        if self.tokens != before {
            self.separators = more;
            self.in_comment = false;
        } else if !self.in_comment {
            self.separators += more;
            self.compared = self.compared.saturating_add(self.separators.saturating_mul(more));
        }
    }

    fn part(&mut self, part: &str) {
        if !part.is_empty() {
            let queue = BufferQueue::default();
            queue.push_back(StrTendril::from_slice(part));
            while !matches!(self.tokenizer.feed(&queue), TokenizerResult::Done) {}
            self.tokens = self.tokenizer.sink.tokens.get();
        }
    }
}

struct Gate {
    builder: TreeBuilder<Handle, Sink>,
    /// How many came; errors are none.
    tokens: Cell<usize>,
    /// All that comes is only counted.
    cut: Cell<bool>,
    /// The elements below the deepest that is built, which are only counted. They are left when each of them was closed
    /// in its turn: then no reader of HTML has one of them still open.
    below: RefCell<Vec<LocalName>>,
}

/// How many elements the tree builder looks at for a tag.
struct Open(Cell<usize>);

impl Tracer for Open {
    type Handle = Handle;

    fn trace_handle(&self, _: &Handle) {
        self.0.set(self.0.get() + 1);
    }
}

/// Whether an element changes how what stands in it is read.
fn reads_otherwise(name: &str) -> bool {
    is_one_of(
        name,
        "script style title textarea xmp iframe noembed noframes plaintext noscript svg math select template head body \
         html frameset",
    )
}

fn is_void(name: &str) -> bool {
    is_one_of(name, "area base br col embed hr img input link meta param source track wbr")
}

impl Gate {
    fn new(builder: TreeBuilder<Handle, Sink>) -> Self {
        Self { builder, tokens: Cell::new(0), cut: Cell::new(false), below: RefCell::default() }
    }

    fn is_deep(&self) -> bool {
        let open = Open(Cell::new(0));
        self.builder.trace_handles(&open);
        open.0.get() > DEEPEST
    }

    /// Takes a token below the deepest element.
    fn take_below(&self, token: &Token) {
        match token {
            Token::CharacterTokens(text) | Token::CommentToken(text) => self.builder.sink.hide(count(text)),
            Token::TagToken(tag) if tag.kind == TagKind::EndTag => {
                let mut below = self.below.borrow_mut();
                if below.last() == Some(&tag.name) {
                    below.pop();
                }
            }
            Token::TagToken(tag) => {
                if reads_otherwise(&tag.name) {
                    self.cut.set(true);
                } else if !is_void(&tag.name) {
                    self.below.borrow_mut().push(tag.name.clone());
                }
            }
            _ => {}
        }
    }
}

/// Takes away what an element has too many of, and the element from sight: what it lost may have hidden it.
fn limit(tag: &mut Tag) {
    if tag.attrs.len() > MOST_ATTRIBUTES {
        let value = StrTendril::from_slice(GONE);
        tag.attrs = vec![Attribute { name: QualName::new(None, ns!(), local_name!("style")), value }];
    }
}

impl TokenSink for Gate {
    type Handle = Handle;

    fn process_token(&self, mut token: Token, line: u64) -> TokenSinkResult<Handle> {
        if matches!(token, Token::ParseError(_)) {
            return TokenSinkResult::Continue;
        }
        self.tokens.set(self.tokens.get() + 1);
        if matches!(token, Token::EOFToken) {
            return self.builder.process_token(token, line);
        }
        if self.builder.sink.len() > MOST_NODES {
            self.cut.set(true);
        }
        if let Token::TagToken(tag) = &mut token {
            limit(tag);
        }
        let below = !self.below.borrow().is_empty();
        let opens = matches!(&token, Token::TagToken(tag) if tag.kind == TagKind::StartTag && !is_void(&tag.name));
        if self.cut.get() || below || opens && self.is_deep() {
            self.take_below(&token);
            return TokenSinkResult::Continue;
        }
        self.builder.process_token(token, line)
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}
