//! The way through a document: what is seen is written, what is not is counted.

use html5ever::ns;

use super::cascade::{Look, Styles};
use super::page::Page;
use super::style::Display;
use super::tree::{Kind, NONE, ROOT, Tree, count};

/// The longest address of a link that is written, in characters.
const LONGEST: usize = 200;
/// The longest list whose items are numbered.
const MOST_ITEMS: usize = 100_000;

/// An element that is being walked through.
struct Open {
    node: usize,
    look: Look,
    /// Line ends behind it.
    gap: usize,
    /// How deep what comes behind it is quoted.
    quotes: usize,
    /// Where a link's text begins, and where it leads.
    link: Option<(usize, String)>,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Plain,
    List,
    Item,
    Row,
    Quote,
}

struct Walk<'a> {
    tree: &'a Tree,
    styles: Styles<'a>,
    page: Page,
    open: Vec<Open>,
    /// The next number of each list that is open; `None`: it has none.
    lists: Vec<Option<usize>>,
    /// Where the text of each row that is open begins.
    rows: Vec<usize>,
    /// What Outlook does not read: it may not hide there.
    not_outlook: bool,
}

/// The text of a document of at most so many bytes, and how many characters are hidden.
pub fn walk(tree: &Tree, most: usize) -> (String, usize) {
    let mut walk = Walk {
        tree,
        styles: Styles::new(tree),
        page: Page::new(most),
        open: Vec::new(),
        lists: Vec::new(),
        rows: Vec::new(),
        not_outlook: false,
    };
    let next = |node: usize| tree.nodes.get(node).map_or(NONE, |node| node.next);
    let mut at = tree.nodes.get(ROOT).map_or(NONE, |root| root.first);
    loop {
        if at == NONE {
            let Some(open) = walk.open.pop() else { break };
            at = next(open.node);
            walk.leave(open);
        } else if walk.enter(at) {
            at = tree.nodes[at].first;
        } else {
            at = next(at);
        }
    }
    (walk.page.text, walk.page.hidden)
}

impl Walk<'_> {
    fn look(&self) -> Look {
        self.open.last().map_or_else(Look::page, |open| open.look)
    }

    /// Whether to go on with what stands in the node.
    fn enter(&mut self, node: usize) -> bool {
        match &self.tree.nodes[node].kind {
            Kind::Text(text) => self.text(node, text),
            Kind::Condition(condition) => self.condition(condition),
            Kind::Element { .. } => return self.element(node),
            Kind::Other => {}
        }
        false
    }

    fn text(&mut self, node: usize, text: &str) {
        let look = self.look();
        let parent = self.tree.nodes[node].parent;
        // A drawing shows the text of its text elements only.
        let drawn = match self.tree.name(parent) {
            Some((ns, name)) if *ns == ns!(svg) => {
                ["text", "tspan", "textPath", "a", "foreignObject"].contains(&&**name)
            }
            _ => true,
        };
        if look.shows() && drawn {
            self.page.write(text, look.keeps_space);
        } else {
            self.page.hide(text);
        }
    }

    fn condition(&mut self, condition: &str) {
        let condition = condition.to_ascii_lowercase();
        if condition.contains("endif") {
            self.not_outlook = false;
        } else if condition.starts_with("[if") {
            self.not_outlook = condition.contains("!mso") || condition.contains("!(mso") || condition.contains("!gte");
        }
    }

    /// Whether another of an element was written for Outlook, right before it.
    fn is_doubled(&self, node: usize) -> bool {
        let mut before = self.tree.nodes[node].previous;
        for _ in 0..4 {
            match self.tree.nodes.get(before).map(|node| &node.kind) {
                Some(Kind::Condition(condition)) => {
                    return condition.get(..3).is_some_and(|c| c.eq_ignore_ascii_case("[if"));
                }
                Some(Kind::Text(text)) if count(text) == 0 => before = self.tree.nodes[before].previous,
                _ => return false,
            }
        }
        false
    }

    fn element(&mut self, node: usize) -> bool {
        let name = self.tree.html_name(node);
        if matches!(name, "script" | "style" | "title" | "head") || is_code_of_drawing(self.tree, node) {
            return false;
        }
        let parent = self.look();
        let excused = self.not_outlook || self.is_doubled(node);
        let look = self.styles.look(node, &parent, excused);
        let quotes = self.page.quotes;
        let mut open = Open { node, look, gap: 0, quotes, link: None, role: Role::Plain };
        if look.gone {
            if name == "template" {
                self.count_below(node + 1);
            }
            self.image(node, name, &look);
        } else {
            self.begin(node, name, &mut open);
        }
        self.open.push(open);
        true
    }

    /// Counts all text below a node that stands in no document.
    fn count_below(&mut self, top: usize) {
        let mut tops = vec![top];
        while let Some(top) = tops.pop() {
            let mut at = self.tree.nodes.get(top).map(|node| node.first).filter(|first| *first != NONE);
            while let Some(node) = at {
                let mut first = NONE;
                match &self.tree.nodes[node].kind {
                    Kind::Text(text) => self.page.hide(text),
                    Kind::Element { .. } if self.tree.html_name(node) == "template" => tops.push(node + 1),
                    Kind::Element { .. } if ["script", "style"].contains(&self.tree.html_name(node)) => {}
                    _ => first = self.tree.nodes[node].first,
                }
                at = if first == NONE { self.tree.after(node, top) } else { Some(first) };
            }
        }
    }

    fn begin(&mut self, node: usize, name: &str, open: &mut Open) {
        let apart = matches!(
            name,
            "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "pre" | "hr" | "blockquote" | "table"
        );
        let block = open.look.display == Display::Block || matches!(name, "table" | "tr" | "caption");
        if block {
            // A list in a list stands close.
            let inner =
                matches!(name, "ul" | "ol") && !self.lists.is_empty() || name == "table" && !self.rows.is_empty();
            open.gap = if apart && !inner { 2 } else { 1 };
            self.page.block(open.gap);
        }
        match name {
            "br" => self.page.line_end(),
            "ul" | "ol" | "menu" | "dir" => {
                self.lists.push((name == "ol").then_some(1));
                open.role = Role::List;
            }
            "li" => {
                let deep = self.lists.len().saturating_sub(1).min(8);
                let mark = match self.lists.last_mut() {
                    Some(Some(n)) if *n < MOST_ITEMS => {
                        *n += 1;
                        format!("{}. ", *n - 1)
                    }
                    _ => "- ".to_owned(),
                };
                self.page.item("  ".repeat(deep) + &mark);
                open.role = Role::Item;
            }
            "tr" => {
                self.rows.push(self.page.text.len());
                open.role = Role::Row;
            }
            "td" | "th" => {
                if let Some(row) = self.rows.last() {
                    self.page.cell(*row);
                }
            }
            "a" => {
                let address = self.tree.attribute(node, "href").and_then(address);
                open.link = address.map(|address| (self.page.text.len(), address));
            }
            "img" | "input" => self.image(node, name, &open.look),
            _ => {}
        }
        if is_quote(self.tree, node, name) {
            open.role = Role::Quote;
            open.gap = open.gap.max(1);
            self.page.block(open.gap);
            self.page.quotes += 1;
        }
        if is_history(self.tree, node) {
            self.page.block(1);
            self.page.quotes += 1;
        }
    }

    /// Writes what stands in place of an image, as images are not loaded, and what a field holds.
    fn image(&mut self, node: usize, name: &str, look: &Look) {
        let attribute = |name: &str| self.tree.attribute(node, name).map(str::trim).filter(|text| !text.is_empty());
        let text = match name {
            "img" => attribute("alt").map(str::to_owned),
            "input" => match attribute("type").unwrap_or("text").to_ascii_lowercase().as_str() {
                "checkbox" | "radio" | "file" | "password" | "range" | "color" => None,
                "image" => attribute("alt").map(str::to_owned),
                "hidden" => {
                    self.page.hide(attribute("value").unwrap_or_default());
                    None
                }
                _ => attribute("value").or(attribute("placeholder")).map(str::to_owned),
            },
            _ => None,
        };
        let Some(text) = text else { return };
        if look.shows() && !look.tiny {
            let image = name == "img" && text.chars().any(char::is_alphanumeric);
            self.page.write(&if image { format!("[{text}]") } else { text }, false);
        } else {
            self.page.hide(&text);
        }
    }

    fn leave(&mut self, open: Open) {
        if let Some((from, address)) = &open.link {
            self.page.address(*from, address);
        }
        match open.role {
            Role::List => drop(self.lists.pop()),
            Role::Item => self.page.end_item(),
            Role::Row => {
                self.rows.pop();
                self.page.end_row();
            }
            // What came behind a mark within the quote was quoted for that; behind the quote it is not.
            Role::Quote => self.page.quotes = open.quotes,
            Role::Plain => {}
        }
        self.page.block(open.gap);
    }
}

fn is_code_of_drawing(tree: &Tree, node: usize) -> bool {
    tree.name(node).is_some_and(|(ns, name)| *ns == ns!(svg) && matches!(&**name, "script" | "style"))
}

/// Whether what stands in an element is another's words, by what mail programs write.
fn is_quote(tree: &Tree, node: usize, name: &str) -> bool {
    let has = |class: &str| tree.has_class(node, class);
    if name == "blockquote" {
        return true;
    }
    if has("moz-cite-prefix") || has("gmail_attr") || has("yahoo_quoted") || has("protonmail_quote") {
        return true;
    }
    if tree.attribute(node, "id").is_some_and(|id| id.ends_with("mail-editor-reference-message-container")) {
        return true;
    }
    (has("gmail_quote") || has("gmail_extra")) && !answers_between(tree, node)
}

/// Whether the quotes in a frame that Gmail put around them are marked by themselves: then what stands between them is
/// an answer. In a letter that is passed on, all is another's.
fn answers_between(tree: &Tree, frame: usize) -> bool {
    let mut child = tree.first_element(frame);
    let mut marked = false;
    for _ in 0..64 {
        let Some(node) = child else { break };
        if tree.has_class(node, "gmail_attr") && tree.own_text(node).trim_start().starts_with("---") {
            return false;
        }
        marked |= matches!(tree.html_name(node), "blockquote") || tree.has_class(node, "gmail_quote");
        child = tree.next_element(node);
    }
    marked
}

/// Whether all that comes behind an element is history: Outlook puts one before it.
fn is_history(tree: &Tree, node: usize) -> bool {
    tree.attribute(node, "id").is_some_and(|id| id.ends_with("divRplyFwdMsg") || id.ends_with("appendonsend"))
}

/// An address that leads to the web or to a mailbox, as a person should see it.
fn address(href: &str) -> Option<String> {
    let href: String = href.trim().chars().filter(|c| !c.is_control()).take(20 * LONGEST).collect();
    let (scheme, rest) = href.split_once(':')?;
    let scheme = scheme.trim().to_ascii_lowercase();
    let whole = match scheme.as_str() {
        "http" | "https" => {
            let rest = rest.trim_start_matches(['/', '\\']);
            let end = rest.find(['/', '\\', '?', '#']).unwrap_or(rest.len());
            let (host, path) = rest.split_at(end);
            // Before an `@` stands a name, which may look like another host.
            let host = host.rsplit('@').next().unwrap_or(host);
            format!("{scheme}://{host}{path}")
        }
        "mailto" => format!("mailto:{}", rest.split('?').next().unwrap_or(rest)),
        _ => return None,
    };
    let mut clean = String::with_capacity(whole.len());
    for (at, c) in whole.chars().enumerate() {
        if at >= LONGEST {
            clean.push('…');
            break;
        }
        match c {
            '(' => clean.push_str("%28"),
            ')' => clean.push_str("%29"),
            '<' => clean.push_str("%3C"),
            '>' => clean.push_str("%3E"),
            c if c.is_whitespace() => clean.push_str("%20"),
            c => clean.push(c),
        }
    }
    Some(base::text::visible::visible(&clean))
}
