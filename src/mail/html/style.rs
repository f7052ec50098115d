//! What is said about how one element looks: the declarations that hold for it, and whether they hide it.

use super::color::{Background, Color, background, color};
use super::css::{Measure, Token, commas, function, length, split, words};
use super::sheet::Declaration;
use super::tree::is_one_of;
use super::values::{
    FAINTEST, FAR, FAR_RIGHT, SMALLEST, THIN, clips_all, empty_rect, filters_away, font_size, is_far, is_part,
    take_color, transform, unit,
};

const SIZES: [&str; 8] =
    ["width", "height", "max-width", "max-height", "inline-size", "block-size", "max-inline-size", "max-block-size"];
/// Ways to show an element as a block.
const BLOCKS: &str = "block inline-block flex inline-flex grid inline-grid list-item flow-root revert -webkit-box \
    -webkit-inline-box -webkit-flex -webkit-inline-flex -moz-box table-caption flow";
/// A window, in pixels.
const WINDOW: f64 = 1000.0;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Display {
    #[default]
    Inline,
    Block,
    /// Of a table: it grows with what is in it.
    Cell,
    None,
}

/// What is said about an element, with what is inherited filled in where lengths need it.
#[derive(Clone, Debug, Default)]
pub struct Said {
    pub display: Display,
    pub visible: Option<bool>,
    pub opacity: f64,
    /// In pixels.
    pub font: f64,
    pub parent_font: f64,
    pub color: Option<Color>,
    /// `currentcolor` and `inherit` take away what was said before.
    pub fill: Option<Color>,
    pub ground: Background,
    pub positioned: bool,
    pub moved: bool,
    floats: bool,
    /// Left, top, right, bottom.
    edges: [Option<f64>; 4],
    margins: [Option<f64>; 2],
    pub indent: Option<f64>,
    clips: bool,
    /// Width, height, and the most of both.
    sizes: [Option<f64>; 4],
    clipped_away: [bool; 2],
    transformed_away: [bool; 4],
    pub scales: [f64; 2],
    pub line: Option<f64>,
    pub mso_hide: bool,
    unrendered: bool,
    pub filtered_away: [bool; 2],
    pub spacing: Option<f64>,
    pub keeps_space: Option<bool>,
    disguised: bool,
}

impl Said {
    pub fn new(display: Display, parent_font: f64) -> Self {
        Self { display, opacity: 1.0, font: parent_font, parent_font, scales: [1.0; 2], ..Self::default() }
    }

    /// Whether the element and all that is in it are out of sight, whatever is said about what is in it.
    pub fn is_gone(&self) -> bool {
        let [left, top, right, bottom] = self.edges;
        let off = self.moved
            && (self.edges.iter().flatten().any(|edge| *edge < FAR)
                || left.is_some_and(|left| left > FAR_RIGHT)
                || right.is_some_and(|right| right > FAR_RIGHT)
                || self.positioned && bottom.is_some_and(|bottom| bottom > FAR_RIGHT)
                || !self.positioned && top.is_some_and(|top| top > FAR_RIGHT));
        let boxed = self.display == Display::Block || self.positioned || self.floats;
        let thin = boxed && self.clips && self.sizes.iter().flatten().any(|size| *size <= THIN);
        let flat = self.clips && self.line.is_some_and(|line| line <= THIN);
        let indented = self.clips && self.indent.is_some_and(|indent| indent >= WINDOW);
        self.display == Display::None
            || off
            || thin
            || flat
            || indented
            || self.margins.iter().flatten().any(|margin| *margin < FAR)
            || self.clipped_away[0] && self.positioned
            || self.clipped_away[1]
            || self.transformed_away.contains(&true)
            || self.unrendered
            || self.filtered_away.contains(&true)
            || self.disguised
    }

    /// Whether it is a point or a line: an image of which nothing is seen.
    pub fn is_tiny(&self) -> bool {
        self.sizes.iter().flatten().any(|size| *size <= THIN)
    }

    /// Takes the size that an attribute says; `None`: it says none.
    pub fn take_size(&mut self, place: usize, attribute: Option<&str>) {
        let digits = attribute.map(|a| a.trim().chars().take_while(char::is_ascii_digit).collect::<String>());
        if let Some(size) = digits.and_then(|digits| digits.parse().ok()) {
            self.sizes[place] = Some(size);
        }
    }

    /// It shows nothing beyond its box, as drawings do.
    pub fn clip(&mut self) {
        self.clips = true;
    }

    /// Takes one declaration; what is no value of its property is passed over, as readers do.
    pub fn take(&mut self, declaration: &Declaration) {
        let value = declaration.value.as_slice();
        let word = match value {
            [Token::Word(word)] => word.to_ascii_lowercase(),
            _ => String::new(),
        };
        let reset = ["initial", "unset", "inherit", "revert", "revert-layer"].contains(&word.as_str());
        match declaration.name.as_str() {
            "display" => self.take_display(&word, value),
            "visibility" => self.take_visibility(&word),
            "opacity" => self.take_opacity(value, reset),
            "color" => take_color(&mut self.color, value, &word, reset),
            "-webkit-text-fill-color" | "fill" => take_color(&mut self.fill, value, &word, reset),
            "background" | "background-color" | "background-image" | "background-clip" | "-webkit-background-clip" => {
                self.take_background(&declaration.name, value, reset);
            }
            "position" => self.take_position(&word),
            "float" => self.floats = word == "left" || word == "right" || self.floats && word != "none",
            "overflow" | "overflow-x" | "overflow-y" => self.take_overflow(value),
            "mso-hide" => self.mso_hide = word == "all",
            "content-visibility" => self.unrendered = word == "hidden",
            "white-space" => self.take_space(&word),
            "-webkit-text-security" => self.disguised = !reset && word != "none",
            name => self.take_length(name, value, reset),
        }
    }

    fn take_display(&mut self, word: &str, value: &[Token]) {
        let first = match value {
            [Token::Word(first), ..] if word.is_empty() => first.to_ascii_lowercase(),
            _ => word.to_owned(),
        };
        self.display = match first.as_str() {
            "none" => Display::None,
            "inline" | "contents" | "initial" | "unset" | "ruby" | "math" => Display::Inline,
            name if is_one_of(name, BLOCKS) => Display::Block,
            "table" | "inline-table" | "table-cell" | "table-row" | "table-row-group" | "table-header-group"
            | "table-footer-group" => Display::Cell,
            // Columns show no text.
            "table-column" | "table-column-group" => Display::None,
            _ => return,
        };
    }

    fn take_visibility(&mut self, word: &str) {
        match word {
            "visible" | "initial" => self.visible = Some(true),
            "hidden" | "collapse" => self.visible = Some(false),
            "inherit" | "unset" | "revert" => self.visible = None,
            _ => {}
        }
    }

    fn take_opacity(&mut self, value: &[Token], reset: bool) {
        if reset {
            self.opacity = 1.0;
        } else if let Some(opacity) = length(value, Measure { em: f64::NAN, whole: 1.0 }).filter(|n| n.is_finite()) {
            self.opacity = opacity.clamp(0.0, 1.0);
        }
    }

    fn take_background(&mut self, name: &str, value: &[Token], reset: bool) {
        if reset {
            self.ground = Background::default();
            return;
        }
        match name {
            "background-clip" | "-webkit-background-clip" => {
                self.ground.in_text = value.iter().any(|token| token.is_word("text"));
            }
            "background-color" => {
                if let Some(color) = color(value) {
                    self.ground.color = Some(color);
                } else if value.iter().any(|token| token.is_word("currentcolor")) {
                    self.ground.color = self.color;
                }
            }
            "background-image" => {
                if let Some(found) = background(value) {
                    self.ground.stops = found.stops;
                }
            }
            _ => {
                if let Some(found) = background(value) {
                    self.ground = found;
                }
            }
        }
    }

    fn take_position(&mut self, word: &str) {
        (self.positioned, self.moved) = match word {
            "absolute" | "fixed" => (true, true),
            "relative" | "sticky" | "-webkit-sticky" => (false, true),
            "static" | "initial" | "unset" | "revert" => (false, false),
            _ => return,
        };
    }

    fn take_overflow(&mut self, value: &[Token]) {
        let known =
            |token: &&Token| ["hidden", "clip", "auto", "scroll", "visible"].iter().any(|word| token.is_word(word));
        if let Some(first) = value.iter().find(known) {
            self.clips = !first.is_word("visible") || value.len() > 1;
        }
    }

    fn take_space(&mut self, word: &str) {
        match word {
            "pre" | "pre-wrap" | "pre-line" | "break-spaces" => self.keeps_space = Some(true),
            "normal" | "nowrap" | "initial" => self.keeps_space = Some(false),
            _ => {}
        }
    }

    /// The lengths: those that place and size an element.
    fn take_length(&mut self, name: &str, value: &[Token], reset: bool) {
        let by = Measure { em: self.font, whole: WINDOW };
        let auto = reset || value.iter().all(|t| ["auto", "none", "normal"].iter().any(|w| t.is_word(w)));
        // A number without unit is a length for some readers only: where it hides, for this one too.
        let one = length(value, by).filter(|n| unit(value) || *n == 0.0 || *n < FAR);
        let set = |place: &mut Option<f64>| {
            if auto {
                *place = None;
            } else if one.is_some() {
                *place = one;
            }
        };
        match name {
            "left" | "inset-inline-start" => set(&mut self.edges[0]),
            "top" | "inset-block-start" => set(&mut self.edges[1]),
            "right" => set(&mut self.edges[2]),
            "bottom" => set(&mut self.edges[3]),
            "inset" | "inset-inline" | "inset-block" => {
                let parts: Vec<Option<f64>> = words(value).into_iter().map(|part| length(part, by)).collect();
                let worst = parts.into_iter().flatten().reduce(f64::min);
                self.edges[1] = worst;
            }
            "margin-left" | "margin-inline-start" => set(&mut self.margins[0]),
            "margin-top" => set(&mut self.margins[1]),
            "margin" => {
                let parts: Vec<f64> = words(value).into_iter().map(|p| length(p, by).unwrap_or(0.0)).collect();
                let top = parts.first().copied();
                self.margins = [parts.get(3).or(parts.get(1)).copied().or(top), top];
            }
            "text-indent" => set(&mut self.indent),
            // How large a part of an unknown whole is, is not known.
            name if SIZES.contains(&name) && is_part(value) => {}
            "width" | "inline-size" => set(&mut self.sizes[0]),
            "height" | "block-size" => set(&mut self.sizes[1]),
            "max-width" | "max-inline-size" => set(&mut self.sizes[2]),
            "max-height" | "max-block-size" => set(&mut self.sizes[3]),
            "letter-spacing" => set(&mut self.spacing),
            "line-height" => self.take_line(value, auto),
            name => self.take_effect(name, value, reset),
        }
    }

    fn take_line(&mut self, value: &[Token], auto: bool) {
        let times = matches!(value, [Token::Number(_, unit)] if unit.is_empty());
        let line = length(value, Measure { em: self.font, whole: self.font });
        if auto {
            self.line = None;
        } else if let Some(line) = line {
            self.line = Some(if times { line * self.font } else { line });
        }
    }

    fn take_effect(&mut self, name: &str, value: &[Token], reset: bool) {
        let by = Measure { em: self.font, whole: WINDOW };
        match name {
            "clip" => {
                self.clipped_away[0] = !reset && function(value).is_some_and(|(_, inside)| empty_rect(inside, by))
            }
            "clip-path" | "-webkit-clip-path" => {
                self.clipped_away[1] = !reset && function(value).is_some_and(|(name, inside)| clips_all(&name, inside));
            }
            "transform" | "-webkit-transform" | "-moz-transform" => {
                let place = usize::from(name != "transform");
                (self.transformed_away[place], self.scales[place]) = transform(value, by);
            }
            "translate" => {
                self.transformed_away[2] = words(value).into_iter().any(|part| is_far(length(part, by)));
            }
            "scale" => {
                let scale = words(value).into_iter().filter_map(|part| length(part, Measure { em: 1.0, whole: 1.0 }));
                let least = scale.map(f64::abs).fold(1.0, f64::min);
                self.transformed_away[3] = least * 16.0 < SMALLEST;
            }
            "filter" | "-webkit-filter" => self.filtered_away[0] = filters_away(value),
            "mask" | "mask-image" | "-webkit-mask" | "-webkit-mask-image" => {
                let stops = background(value).map(|mask| mask.stops).unwrap_or_default();
                self.filtered_away[1] = !stops.is_empty() && stops.iter().all(|stop| stop.alpha <= FAINTEST);
            }
            _ => {}
        }
    }

    /// Takes what is said about the size of the text; before all others, which are measured by it.
    pub fn take_font(&mut self, declaration: &Declaration) {
        let value = declaration.value.as_slice();
        match declaration.name.as_str() {
            "font-size" => {
                if let Some(font) = font_size(value, self.parent_font) {
                    self.font = font;
                }
            }
            // In the shorthand the size stands before the families, and before `/` and the height of the line.
            "font" => {
                let first = commas(value).first().copied().unwrap_or_default();
                let parts = split(first, |token| *token == Token::Space || token.is('/'));
                let sized = |part: &&[Token]| match part {
                    // A number alone is a weight.
                    [Token::Number(n, unit)] if unit.is_empty() && *n != 0.0 => None,
                    [Token::Word(word)] if word.eq_ignore_ascii_case("inherit") && value.len() > 1 => None,
                    part => font_size(part, self.parent_font),
                };
                if let Some(font) = parts.iter().find_map(sized) {
                    self.font = font;
                }
            }
            "zoom" => {
                if let Some(zoom) = length(value, Measure { em: f64::NAN, whole: 1.0 }).filter(|n| n.is_finite()) {
                    self.scales[0] = self.scales[0].min(zoom);
                }
            }
            _ => {}
        }
    }
}
