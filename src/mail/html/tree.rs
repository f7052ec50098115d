//! The tree of an HTML document, as the HTML standard builds it: nodes in one list, joined by their numbers.
//!
//! The parser is a browser's, so that markup that is broken on purpose means here what it means there. Before its tree
//! builder stands a gate: markup that is built to cost much is cut there, and its text counted as hidden.

use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use html5ever::interface::{ElementFlags, NodeOrText, QuirksMode, TreeSink};
use html5ever::tendril::StrTendril;
use html5ever::{Attribute, ExpandedName, LocalName, Namespace, QualName, local_name, ns};

/// Attributes of one element. One with more is not shown.
pub const MOST_ATTRIBUTES: usize = 64;
/// The style of what is not shown whatever else is said.
pub const GONE: &str = "display:none!important";

/// In place of a node's number: there is none.
pub const NONE: usize = usize::MAX;
/// The document, which all others stand in.
pub const ROOT: usize = 0;

pub enum Kind {
    Element {
        name: Rc<QualName>,
        attributes: Vec<Attribute>,
    },
    Text(String),
    /// Only those that Outlook reads, without white space around; the text of others is counted and gone.
    Condition(String),
    /// The document, the inside of a template, a comment, a processing instruction.
    Other,
}

pub struct Node {
    pub kind: Kind,
    pub parent: usize,
    pub first: usize,
    pub last: usize,
    pub previous: usize,
    pub next: usize,
}

/// A document.
pub struct Tree {
    pub nodes: Vec<Node>,
    /// Characters in comments, and in what was cut.
    pub hidden: usize,
}

impl Tree {
    /// An element's name if it is one of HTML's, else an empty one.
    pub fn html_name(&self, node: usize) -> &str {
        match self.name(node) {
            Some((ns, name)) if *ns == ns!(html) => name,
            _ => "",
        }
    }

    /// An element's name and where it is from.
    pub fn name(&self, node: usize) -> Option<(&Namespace, &LocalName)> {
        match &self.nodes.get(node)?.kind {
            Kind::Element { name, .. } => Some((&name.ns, &name.local)),
            _ => None,
        }
    }

    pub fn attributes(&self, node: usize) -> &[Attribute] {
        match self.nodes.get(node).map(|node| &node.kind) {
            Some(Kind::Element { attributes, .. }) => attributes,
            _ => &[],
        }
    }

    pub fn attribute(&self, node: usize, name: &str) -> Option<&str> {
        self.attributes(node).iter().find(|a| &*a.name.local == name).map(|a| &*a.value)
    }

    pub fn has_class(&self, node: usize, class: &str) -> bool {
        self.attribute(node, "class").is_some_and(|all| all.split_ascii_whitespace().any(|one| one == class))
    }

    fn element_from(&self, mut at: usize, step: impl Fn(&Node) -> usize) -> Option<usize> {
        while let Some(node) = self.nodes.get(at) {
            if matches!(node.kind, Kind::Element { .. }) {
                return Some(at);
            }
            at = step(node);
        }
        None
    }

    pub fn parent_element(&self, node: usize) -> Option<usize> {
        let parent = self.nodes.get(node)?.parent;
        self.name(parent).map(|_| parent)
    }

    pub fn first_element(&self, node: usize) -> Option<usize> {
        self.element_from(self.nodes.get(node)?.first, |node| node.next)
    }

    pub fn next_element(&self, node: usize) -> Option<usize> {
        self.element_from(self.nodes.get(node)?.next, |node| node.next)
    }

    pub fn previous_element(&self, node: usize) -> Option<usize> {
        self.element_from(self.nodes.get(node)?.previous, |node| node.previous)
    }

    /// The node that comes after this one and all that stands in it, within `top`; `None`: it was the last.
    pub fn after(&self, mut node: usize, top: usize) -> Option<usize> {
        while node != top {
            let here = self.nodes.get(node)?;
            if here.next != NONE {
                return Some(here.next);
            }
            node = here.parent;
        }
        None
    }

    /// The text that stands directly in an element.
    pub fn own_text(&self, node: usize) -> String {
        let mut text = String::new();
        let mut at = self.nodes.get(node).map_or(NONE, |node| node.first);
        while let Some(node) = self.nodes.get(at) {
            if let Kind::Text(more) = &node.kind {
                text.push_str(more);
            }
            at = node.next;
        }
        text
    }
}

/// What the parser holds of a node.
#[derive(Clone)]
pub struct Handle {
    pub at: usize,
    name: Rc<QualName>,
}

/// Takes what the parser builds.
pub struct Sink {
    nodes: RefCell<Vec<Node>>,
    hidden: Cell<usize>,
    nothing: Rc<QualName>,
}

/// How many characters of a text are not white space.
pub fn count(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// Whether a name stands among these.
pub fn is_one_of(name: &str, names: &str) -> bool {
    !name.is_empty() && names.split(' ').any(|one| one == name)
}

/// Whether a comment is one of Outlook's conditions, or the end of one.
fn is_condition(comment: &str) -> bool {
    let comment = comment.trim_start();
    comment.is_empty()
        || comment.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("[if"))
        || ["<![endif", "[endif", "!"].iter().any(|start| comment.starts_with(start))
            && comment.trim_end().ends_with([']', '!'])
            && comment.len() < 40
}

impl Sink {
    pub fn new() -> Self {
        let nothing = Rc::new(QualName::new(None, ns!(), local_name!("")));
        let sink = Self { nodes: RefCell::default(), hidden: Cell::new(0), nothing };
        sink.add(Kind::Other);
        sink
    }

    pub fn len(&self) -> usize {
        self.nodes.borrow().len()
    }

    pub fn hide(&self, characters: usize) {
        self.hidden.set(self.hidden.get() + characters);
    }

    fn add(&self, kind: Kind) -> usize {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node { kind, parent: NONE, first: NONE, last: NONE, previous: NONE, next: NONE });
        nodes.len() - 1
    }

    fn handle(&self, at: usize) -> Handle {
        Handle { at, name: Rc::clone(&self.nothing) }
    }

    fn node(&self, at: usize) -> Ref<'_, Node> {
        Ref::map(self.nodes.borrow(), |nodes| &nodes[at])
    }

    /// Takes a node out of where it stands; what stands in it stays there.
    fn part(&self, at: usize) {
        let mut nodes = self.nodes.borrow_mut();
        let Node { parent, previous, next, .. } = nodes[at];
        if previous != NONE {
            nodes[previous].next = next;
        } else if parent != NONE {
            nodes[parent].first = next;
        }
        if next != NONE {
            nodes[next].previous = previous;
        } else if parent != NONE {
            nodes[parent].last = previous;
        }
        nodes[at].parent = NONE;
        nodes[at].previous = NONE;
        nodes[at].next = NONE;
    }

    /// Puts a node into another, before one that stands there or at the end.
    fn put(&self, at: usize, parent: usize, before: usize) {
        self.part(at);
        let mut nodes = self.nodes.borrow_mut();
        let previous = if before == NONE { nodes[parent].last } else { nodes[before].previous };
        nodes[at].parent = parent;
        nodes[at].previous = previous;
        nodes[at].next = before;
        if previous == NONE {
            nodes[parent].first = at;
        } else {
            nodes[previous].next = at;
        }
        if before == NONE {
            nodes[parent].last = at;
        } else {
            nodes[before].previous = at;
        }
    }

    fn insert(&self, parent: usize, before: usize, new: NodeOrText<Handle>) {
        match new {
            NodeOrText::AppendNode(node) => self.put(node.at, parent, before),
            NodeOrText::AppendText(text) => {
                let previous = if before == NONE { self.node(parent).last } else { self.node(before).previous };
                if previous != NONE
                    && let Kind::Text(known) = &mut self.nodes.borrow_mut()[previous].kind
                {
                    known.push_str(&text);
                    return;
                }
                let node = self.add(Kind::Text(text.to_string()));
                self.put(node, parent, before);
            }
        }
    }
}

impl TreeSink for Sink {
    type Handle = Handle;
    type Output = Tree;
    type ElemName<'a> = ExpandedName<'a>;

    fn finish(self) -> Tree {
        Tree { nodes: self.nodes.into_inner(), hidden: self.hidden.get() }
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> Handle {
        self.handle(ROOT)
    }

    fn elem_name<'a>(&'a self, target: &'a Handle) -> ExpandedName<'a> {
        target.name.expanded()
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> Handle {
        let name = Rc::new(name);
        let at = self.add(Kind::Element { name: Rc::clone(&name), attributes });
        if flags.template {
            // Its inside stands in a tree of its own, in the place behind it.
            self.add(Kind::Other);
        }
        Handle { at, name }
    }

    fn create_comment(&self, text: StrTendril) -> Handle {
        let kind = if is_condition(&text) {
            Kind::Condition(text.trim().chars().take(80).collect())
        } else {
            self.hide(count(&text));
            Kind::Other
        };
        self.handle(self.add(kind))
    }

    fn create_pi(&self, _: StrTendril, data: StrTendril) -> Handle {
        self.hide(count(&data));
        self.handle(self.add(Kind::Other))
    }

    fn append(&self, parent: &Handle, child: NodeOrText<Handle>) {
        self.insert(parent.at, NONE, child);
    }

    fn append_based_on_parent_node(&self, element: &Handle, previous: &Handle, child: NodeOrText<Handle>) {
        let parent = self.node(element.at).parent;
        if parent == NONE {
            self.insert(previous.at, NONE, child);
        } else {
            self.insert(parent, element.at, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn get_template_contents(&self, target: &Handle) -> Handle {
        self.handle(target.at + 1)
    }

    fn same_node(&self, x: &Handle, y: &Handle) -> bool {
        x.at == y.at
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn is_mathml_annotation_xml_integration_point(&self, handle: &Handle) -> bool {
        let node = self.node(handle.at);
        let Kind::Element { attributes, .. } = &node.kind else { return false };
        let encoding =
            attributes.iter().find(|one| &*one.name.local == "encoding").map(|one| one.value.to_ascii_lowercase());
        encoding.is_some_and(|encoding| matches!(&*encoding, "text/html" | "application/xhtml+xml"))
    }

    fn attach_declarative_shadow(&self, host: &Handle, _: &Handle, _: &[Attribute]) -> bool {
        // Some readers show the template and nothing else of the host, others the opposite: neither is shown here.
        if let Kind::Element { attributes, .. } = &mut self.nodes.borrow_mut()[host.at].kind {
            let name = QualName::new(None, ns!(), local_name!("style"));
            *attributes = vec![Attribute { name, value: StrTendril::from_slice(GONE) }];
        }
        false
    }

    fn append_before_sibling(&self, sibling: &Handle, new: NodeOrText<Handle>) {
        let parent = self.node(sibling.at).parent;
        if parent != NONE {
            self.insert(parent, sibling.at, new);
        }
    }

    fn add_attrs_if_missing(&self, target: &Handle, more: Vec<Attribute>) {
        if let Kind::Element { attributes, .. } = &mut self.nodes.borrow_mut()[target.at].kind {
            for one in more {
                if attributes.len() < MOST_ATTRIBUTES * 2 && !attributes.iter().any(|known| known.name == one.name) {
                    attributes.push(one);
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &Handle) {
        self.part(target.at);
    }

    fn reparent_children(&self, node: &Handle, new_parent: &Handle) {
        loop {
            let first = self.node(node.at).first;
            if first == NONE {
                break;
            }
            self.put(first, new_parent.at, NONE);
        }
    }
}
