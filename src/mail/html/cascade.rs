//! How an element looks: what its sheets, its attributes and its parent say together.

use std::rc::Rc;

use html5ever::{local_name, ns};

use super::color::{BLACK, CLEAR, Color, Ground, LINK, MARKED, WHITE, of_attribute};
use super::css::{Token, tokens};
use super::select::{Key, Work};
use super::sheet::{Declaration, Sheet, declarations};
use super::style::{Display, Said};
use super::tree::{Tree, is_one_of};
use super::values::{FAINTEST, SMALLEST};

/// Steps that matching and reading of styles may take for one document. What comes behind them is not shown.
const MOST_WORK: usize = 15_000_000;
/// Variables in variables that are followed, and tokens that they may grow to.
const DEEPEST: usize = 6;
const LONGEST: usize = 512;
/// Far to the left or the right: a first line that begins there is not seen.
const FAR: f64 = -500.0;
const FAR_RIGHT: f64 = 3000.0;

/// How the text in an element looks, as far as that says whether it is seen.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Nothing in it is seen, whatever is said about it.
    pub gone: bool,
    visible: bool,
    opacity: f64,
    font: f64,
    scale: f64,
    color: Color,
    fill: Option<Color>,
    ground: Ground,
    /// The background paints the letters, and they can be read or not.
    painted: Option<bool>,
    indent: f64,
    spacing: f64,
    line: Option<f64>,
    /// Line ends and spaces are kept.
    pub keeps_space: bool,
    pub display: Display,
    /// Its box is a point or a line.
    pub tiny: bool,
    /// Rules that may hold hide the text by its size, its colour, or at all.
    doubted: [bool; 3],
}

impl Look {
    /// Of the page.
    pub fn page() -> Self {
        Self {
            gone: false,
            visible: true,
            opacity: 1.0,
            font: 16.0,
            scale: 1.0,
            color: BLACK,
            fill: None,
            ground: Ground::plain(WHITE),
            painted: None,
            indent: 0.0,
            spacing: 0.0,
            line: None,
            keeps_space: false,
            display: Display::Block,
            tiny: false,
            doubted: [false; 3],
        }
    }

    fn is_small(&self) -> bool {
        self.font * self.scale < SMALLEST || self.spacing < -0.5 * self.font || self.spacing > -FAR
    }

    fn is_faint(&self) -> bool {
        !self.painted.unwrap_or_else(|| self.ground.shows(self.fill.unwrap_or(self.color)))
    }

    fn is_invisible(&self) -> bool {
        !self.visible || self.indent < FAR || self.indent > FAR_RIGHT
    }

    /// Whether its text is seen.
    pub fn shows(&self) -> bool {
        let hidden = [self.gone, self.is_small(), self.is_faint(), self.is_invisible()];
        !hidden.contains(&true) && !self.doubted.contains(&true)
    }

    /// Within this, with what is said.
    fn within(&self, said: &Said, excused: bool) -> Self {
        let background = &said.ground;
        let mut ground = self.ground;
        let mut painted = self.painted;
        if said.color.or(said.fill).is_some_and(|color| color.alpha > 0.5) {
            painted = None;
        }
        if background.in_text {
            let letters = background.stops.iter().chain(&background.color);
            painted = Some(letters.into_iter().any(|letter| self.ground.shows(*letter)));
        } else {
            ground = background.color.map_or(ground, |color| ground.over(color)).under(&background.stops);
        }
        let look = Self {
            visible: said.visible.unwrap_or(self.visible),
            opacity: self.opacity * said.opacity,
            font: said.font,
            scale: said.scales.iter().fold(self.scale, |scale, one| scale * one),
            color: said.color.unwrap_or(self.color),
            fill: said.fill.or(self.fill),
            ground,
            painted,
            indent: said.indent.unwrap_or(self.indent),
            spacing: said.spacing.unwrap_or(self.spacing),
            line: said.line.or(self.line),
            keeps_space: said.keeps_space.unwrap_or(self.keeps_space),
            display: said.display,
            tiny: said.is_tiny(),
            doubted: [
                self.doubted[0] && said.font == said.parent_font,
                self.doubted[1] && said.color.is_none(),
                self.doubted[2] && said.visible != Some(true),
            ],
            gone: self.gone,
        };
        Self { gone: look.gone || said.is_gone() || said.mso_hide && !excused || look.opacity <= FAINTEST, ..look }
    }
}

/// Finds out how elements look.
pub struct Styles<'a> {
    tree: &'a Tree,
    sheet: Sheet,
    work: Work,
    /// What `<body link>` says.
    link: Color,
}

/// A declaration that holds, and how strongly: the stronger ones come later.
type Holding = ((bool, bool, [u32; 3], usize, usize), Rc<Vec<Declaration>>);

impl<'a> Styles<'a> {
    pub fn new(tree: &'a Tree) -> Self {
        let mut sheet = Sheet::default();
        let mut link = LINK;
        for node in 0..tree.nodes.len() {
            if let Some(style) = tree.attribute(node, "style").filter(|style| style.contains("--")) {
                let mut found = Vec::new();
                declarations(&tokens(style), &mut found);
                sheet.learn(&found);
            }
            let Some((ns, name)) = tree.name(node) else { continue };
            if *name == local_name!("body") {
                link = tree.attribute(node, "link").and_then(of_attribute).unwrap_or(link);
            }
            if *name != local_name!("style") || *ns == ns!(mathml) || !is_in_document(tree, node) {
                continue;
            }
            let kind = tree.attribute(node, "type").unwrap_or_default().trim();
            if kind.is_empty() || kind.eq_ignore_ascii_case("text/css") {
                sheet.add(&tree.own_text(node), tree.attribute(node, "media"));
            }
        }
        Self { tree, sheet, work: Work { left: MOST_WORK, any_case: false }, link }
    }

    /// How an element looks within its parent. `excused`: there is another of it for Outlook, so that it may hide this.
    pub fn look(&mut self, node: usize, parent: &Look, excused: bool) -> Look {
        if parent.gone {
            return *parent;
        }
        if self.sheet.too_large || self.work.left == 0 || is_never_shown(self.tree, node) {
            return Look { gone: true, ..*parent };
        }
        let mut parent = *parent;
        if is_foreign_text(self.tree, node) {
            parent.fill = None;
        }
        let (mut sure, mut doubtful) = self.rules(node);
        let mut own = Vec::new();
        let style = self.tree.attribute(node, "style").unwrap_or_default();
        self.work.take(style.len() / 8);
        if declarations(&tokens(style), &mut own) {
            return Look { gone: true, ..parent };
        }
        sure.push(((false, true, [0; 3], 0, 0), Rc::new(own)));
        let mut holding: Vec<(_, &Declaration)> = Vec::new();
        for ((_, own, specificity, order, _), declarations) in &sure {
            for (place, one) in declarations.iter().enumerate() {
                holding.push(((one.important, *own, *specificity, *order, place), one));
            }
        }
        holding.sort_by_key(|(strength, _)| *strength);
        let mut values = Vec::with_capacity(holding.len());
        let drawing = self.tree.name(node).is_some_and(|(ns, _)| *ns == ns!(svg));
        for (_, one) in holding.into_iter().filter(|(_, one)| drawing || one.name != "fill") {
            let mut all = self.expand(one);
            if all.len() > 1 {
                doubtful.extend(all.iter().map(|one| Rc::new(vec![one.clone()])));
            }
            if one.name.contains("animation") {
                let named = |token: &Token| match token {
                    Token::Word(name) | Token::Text(name) => self.sheet.animations.get(name).cloned(),
                    _ => None,
                };
                doubtful.extend(one.value.iter().filter_map(named));
            }
            values.extend(all.pop());
        }
        let mut said = self.preset(node, &parent);
        take(&mut said, &values);
        let mut look = parent.within(&said, excused);
        for set in doubtful {
            let set: Vec<Declaration> = set.iter().flat_map(|one| self.expand(one)).collect();
            self.work.take(set.len() * 8);
            let mut other = said.clone();
            take(&mut other, &set);
            let other = parent.within(&other, excused);
            look.gone |= other.gone;
            let hides = [other.is_small(), other.is_faint(), other.is_invisible()];
            (0..3).for_each(|at| look.doubted[at] |= hides[at]);
        }
        if self.work.left == 0 {
            look.gone = true;
        }
        look
    }

    /// The declarations of the rules that mean an element, and those of rules that may.
    fn rules(&mut self, node: usize) -> (Vec<Holding>, Vec<Rc<Vec<Declaration>>>) {
        let (mut sure, mut doubtful) = (Vec::new(), Vec::new());
        let Some((_, name)) = self.tree.name(node) else { return (sure, doubtful) };
        if self.sheet.rules.is_empty() {
            return (sure, doubtful);
        }
        let mut keys = vec![Key::Any, Key::Tag(str::to_ascii_lowercase(name))];
        keys.extend(self.tree.attribute(node, "id").map(|id| Key::Id(id.to_ascii_lowercase())));
        let classes = self.tree.attribute(node, "class").unwrap_or_default();
        for class in classes.split_ascii_whitespace() {
            self.work.take(1);
            keys.push(Key::Class(class.to_ascii_lowercase()));
        }
        for key in keys {
            for at in self.sheet.by_key.get(&key).into_iter().flatten() {
                let rule = &self.sheet.rules[*at];
                self.work.any_case = false;
                let means = rule.selector.means(self.tree, node, &mut self.work);
                self.work.any_case = true;
                if means && rule.sure {
                    let strength = (false, false, rule.selector.specificity, rule.order, 0);
                    sure.push((strength, Rc::clone(&rule.declarations)));
                } else if means || rule.selector.means(self.tree, node, &mut self.work) {
                    doubtful.push(Rc::clone(&rule.declarations));
                }
            }
        }
        (sure, doubtful)
    }

    /// What readers say about an element by themselves, and its attributes.
    fn preset(&self, node: usize, parent: &Look) -> Said {
        let name = self.tree.html_name(node);
        let attribute = |name: &str| self.tree.attribute(node, name);
        let mut said = Said::new(display(name), parent.font);
        said.font *= font(name);
        if attribute("hidden").is_some() || name == "dialog" && attribute("open").is_none() {
            said.display = Display::None;
        }
        if let Some(color) = attribute("bgcolor").and_then(of_attribute) {
            said.ground.color = Some(color);
        }
        match name {
            "a" if attribute("href").is_some() => said.color = Some(self.link),
            "mark" => (said.color, said.ground.color) = (Some(BLACK), Some(MARKED)),
            "button" | "input" | "textarea" | "select" => {
                (said.color, said.ground.color) = (Some(BLACK), Some(WHITE));
                said.font = 13.0;
            }
            "body" => said.color = attribute("text").and_then(of_attribute),
            "font" | "basefont" => {
                said.color = attribute("color").and_then(of_attribute);
                said.font = attribute("size").map_or(said.font, |_| 10.0);
            }
            "img" => {
                said.take_size(0, attribute("width"));
                said.take_size(1, attribute("height"));
            }
            "pre" | "xmp" | "listing" | "plaintext" => said.keeps_space = Some(true),
            _ => {}
        }
        if name == "textarea" || name == "td" && attribute("nowrap").is_some() {
            said.keeps_space = Some(name == "textarea");
        }
        if self.tree.name(node).is_some_and(|(ns, _)| *ns == ns!(svg)) {
            self.preset_drawing(node, &mut said);
        }
        said
    }

    fn preset_drawing(&self, node: usize, said: &mut Said) {
        let attribute = |name: &str| self.tree.attribute(node, name);
        if self.tree.name(node).is_some_and(|(_, name)| *name == local_name!("svg")) {
            said.fill = Some(BLACK);
            said.display = Display::Block;
            said.clip();
            said.take_size(0, attribute("width"));
            said.take_size(1, attribute("height"));
        }
        for name in ["font-size", "fill", "opacity", "display", "visibility", "color", "transform"] {
            let Some(value) = attribute(name) else { continue };
            let one = Declaration { name: name.to_owned(), value: tokens(value), important: false };
            said.take_font(&one);
            said.take(&one);
        }
        let clear = attribute("fill-opacity").and_then(|n| n.trim().parse::<f64>().ok()).is_some_and(|n| n <= FAINTEST);
        if clear {
            said.fill = Some(CLEAR);
        }
    }

    /// A declaration without variables: one for each value that they may have.
    fn expand(&mut self, one: &Declaration) -> Vec<Declaration> {
        let mut open = vec![one.value.clone()];
        for _ in 0..DEEPEST {
            if !self.work.take(open.iter().map(Vec::len).sum()) || !open.iter().any(|value| has_variable(value)) {
                break;
            }
            open = open.iter().flat_map(|value| self.replace(value)).filter(|value| value.len() <= LONGEST).collect();
            open.truncate(8);
        }
        open.retain(|value| !has_variable(value));
        open.into_iter().map(|value| Declaration { value, ..one.clone() }).collect()
    }

    /// With the first variable replaced by each of its values.
    fn replace(&self, value: &[Token]) -> Vec<Vec<Token>> {
        let Some(at) = value.iter().position(is_variable) else { return vec![value.to_vec()] };
        let mut depth = 0;
        let end = value[at..].iter().position(|token| {
            depth += i32::from(token.opens()) - i32::from(token.closes());
            depth == 0
        });
        let end = end.map_or(value.len(), |end| at + end);
        let inside = &value[at + 1..end];
        let mut parts = inside.splitn(2, |token| token.is(','));
        let name = parts.next().and_then(|name| match super::css::trim(name) {
            [Token::Word(name)] => Some(name),
            _ => None,
        });
        let fallback = parts.next().map(|value| super::css::trim(value).to_vec());
        let known = name.and_then(|name| self.sheet.variables.get(name)).cloned();
        let values = known.unwrap_or_else(|| fallback.into_iter().collect());
        let behind = value.get(end + 1..).unwrap_or_default();
        values.into_iter().map(|middle| [&value[..at], &middle, behind].concat()).collect()
    }
}

fn is_variable(token: &Token) -> bool {
    matches!(token, Token::Function(name) if name.eq_ignore_ascii_case("var"))
}

fn has_variable(value: &[Token]) -> bool {
    value.iter().any(is_variable)
}

fn take(said: &mut Said, values: &[Declaration]) {
    values.iter().for_each(|one| said.take_font(one));
    values.iter().for_each(|one| said.take(one));
}

/// Not in a template, and not cut off the tree.
fn is_in_document(tree: &Tree, mut node: usize) -> bool {
    while node != super::tree::ROOT {
        match tree.nodes.get(node) {
            Some(here) => node = here.parent,
            None => return false,
        }
    }
    true
}

fn is_never_shown(tree: &Tree, node: usize) -> bool {
    let Some((ns, name)) = tree.name(node) else { return false };
    if *ns == ns!(svg) {
        return is_one_of(
            name,
            "title desc metadata defs symbol clipPath mask pattern marker linearGradient radialGradient script style",
        );
    }
    if *ns == ns!(mathml) {
        return is_one_of(name, "annotation annotation-xml");
    }
    is_one_of(
        name,
        "area audio base canvas datalist iframe link meta noembed noframes optgroup option param rp script source style \
         template title track video",
    )
}

fn is_foreign_text(tree: &Tree, node: usize) -> bool {
    tree.name(node).is_some_and(|(ns, name)| *ns == ns!(svg) && *name == local_name!("foreignObject"))
}

fn display(name: &str) -> Display {
    let cells = "table td th tr tbody thead tfoot";
    let blocks = "address article aside blockquote body button caption center dd details dialog dir div dl dt fieldset \
                  figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html input legend li listing main \
                  marquee menu nav ol optgroup option p plaintext pre search section summary textarea ul xmp";
    if is_one_of(name, cells) {
        Display::Cell
    } else if is_one_of(name, blocks) {
        Display::Block
    } else {
        Display::Inline
    }
}

/// How much larger than its parent's the text of an element is.
fn font(name: &str) -> f64 {
    match name {
        "h1" => 2.0,
        "h2" => 1.5,
        "h3" => 1.17,
        "h5" | "small" | "sub" | "sup" => 0.83,
        "h6" => 0.67,
        "big" => 1.2,
        "pre" | "code" | "tt" | "kbd" | "samp" => 0.81,
        _ => 1.0,
    }
}
