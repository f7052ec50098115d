//! Colours, and whether one can be told from another.

use super::css::{Measure, Token, commas, function, length, split, trim, words};

/// Each part from 0 to 1, the last how opaque it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Color {
    pub rgb: [f64; 3],
    pub alpha: f64,
}

pub const BLACK: Color = Color { rgb: [0.0; 3], alpha: 1.0 };
pub const WHITE: Color = Color { rgb: [1.0; 3], alpha: 1.0 };
pub const CLEAR: Color = Color { rgb: [0.0; 3], alpha: 0.0 };
/// Of a link that has no other.
pub const LINK: Color = Color { rgb: [0.0, 0.0, 0.93], alpha: 1.0 };
pub const MARKED: Color = Color { rgb: [1.0, 1.0, 0.0], alpha: 1.0 };

/// Less contrast, as WCAG measures it, is none.
const CONTRAST: f64 = 1.3;
/// Dark colours of one brightness are still told apart by hue, if a part of them differs as much.
const HUE: f64 = 0.4;
/// From this brightness on, hues are not told apart: yellow on white.
const BRIGHT: f64 = 0.6;
/// Calls in calls that are followed.
const DEEPEST: usize = 4;

const NAMES: &str = "aliceblue f0f8ff antiquewhite faebd7 aqua 00ffff aquamarine 7fffd4 azure f0ffff beige f5f5dc \
    bisque \
    ffe4c4 black 000000 blanchedalmond ffebcd blue 0000ff blueviolet 8a2be2 brown a52a2a burlywood deb887 cadetblue \
    5f9ea0 chartreuse 7fff00 chocolate d2691e coral ff7f50 cornflowerblue 6495ed cornsilk fff8dc crimson dc143c cyan \
    00ffff darkblue 00008b darkcyan 008b8b darkgoldenrod b8860b darkgray a9a9a9 darkgreen 006400 darkgrey a9a9a9 \
    darkkhaki bdb76b darkmagenta 8b008b darkolivegreen 556b2f darkorange ff8c00 darkorchid 9932cc darkred 8b0000 \
    darksalmon e9967a darkseagreen 8fbc8f darkslateblue 483d8b darkslategray 2f4f4f darkslategrey 2f4f4f \
    darkturquoise \
    00ced1 darkviolet 9400d3 deeppink ff1493 deepskyblue 00bfff dimgray 696969 dimgrey 696969 dodgerblue 1e90ff \
    firebrick b22222 floralwhite fffaf0 forestgreen 228b22 fuchsia ff00ff gainsboro dcdcdc ghostwhite f8f8ff gold \
    ffd700 goldenrod daa520 gray 808080 green 008000 greenyellow adff2f grey 808080 honeydew f0fff0 hotpink ff69b4 \
    indianred cd5c5c indigo 4b0082 ivory fffff0 khaki f0e68c lavender e6e6fa lavenderblush fff0f5 lawngreen 7cfc00 \
    lemonchiffon fffacd lightblue add8e6 lightcoral f08080 lightcyan e0ffff lightgoldenrodyellow fafad2 lightgray \
    d3d3d3 \
    lightgreen 90ee90 lightgrey d3d3d3 lightpink ffb6c1 lightsalmon ffa07a lightseagreen 20b2aa lightskyblue 87cefa \
    lightslategray 778899 lightslategrey 778899 lightsteelblue b0c4de lightyellow ffffe0 lime 00ff00 limegreen 32cd32 \
    linen faf0e6 magenta ff00ff maroon 800000 mediumaquamarine 66cdaa mediumblue 0000cd mediumorchid ba55d3 \
    mediumpurple \
    9370db mediumseagreen 3cb371 mediumslateblue 7b68ee mediumspringgreen 00fa9a mediumturquoise 48d1cc \
    mediumvioletred \
    c71585 midnightblue 191970 mintcream f5fffa mistyrose ffe4e1 moccasin ffe4b5 navajowhite ffdead navy 000080 \
    oldlace \
    fdf5e6 olive 808000 olivedrab 6b8e23 orange ffa500 orangered ff4500 orchid da70d6 palegoldenrod eee8aa palegreen \
    98fb98 paleturquoise afeeee palevioletred db7093 papayawhip ffefd5 peachpuff ffdab9 peru cd853f pink ffc0cb plum \
    dda0dd powderblue b0e0e6 purple 800080 rebeccapurple 663399 red ff0000 rosybrown bc8f8f royalblue 4169e1 \
    saddlebrown \
    8b4513 salmon fa8072 sandybrown f4a460 seagreen 2e8b57 seashell fff5ee sienna a0522d silver c0c0c0 skyblue 87ceeb \
    slateblue 6a5acd slategray 708090 slategrey 708090 snow fffafa springgreen 00ff7f steelblue 4682b4 tan d2b48c \
    teal \
    008080 thistle d8bfd8 tomato ff6347 turquoise 40e0d0 violet ee82ee wheat f5deb3 white ffffff whitesmoke f5f5f5 \
    yellow \
    ffff00 yellowgreen 9acd32 canvas ffffff canvastext 000000 window ffffff windowtext 000000 field ffffff fieldtext \
    000000 buttonface efefef buttontext 000000 background ffffff infobackground ffffff menu ffffff linktext 0000ee \
    graytext 808080 highlight 3399ff highlighttext 000000 mark ffff00 marktext 000000 threedface efefef appworkspace \
    ffffff scrollbar ffffff threedhighlight efefef threedlightshadow efefef captiontext 000000 infotext 000000 \
    menutext \
    000000 activecaption ffffff inactivecaption ffffff visitedtext 551a8b activetext ff0000 buttonborder 000000";

fn named(name: &str) -> Option<Color> {
    let name = name.to_ascii_lowercase();
    let mut words = NAMES.split_ascii_whitespace();
    while let (Some(known), Some(value)) = (words.next(), words.next()) {
        if known == name {
            return hex(value);
        }
    }
    None
}

fn hex(digits: &str) -> Option<Color> {
    let digits: Vec<f64> = digits.chars().map(|c| c.to_digit(16).map(f64::from)).collect::<Option<_>>()?;
    let pair = |at: usize| (digits[at] * 16.0 + digits[at + 1]) / 255.0;
    Some(match digits.len() {
        3 => Color { rgb: [digits[0] / 15.0, digits[1] / 15.0, digits[2] / 15.0], alpha: 1.0 },
        4 => Color { rgb: [digits[0] / 15.0, digits[1] / 15.0, digits[2] / 15.0], alpha: digits[3] / 15.0 },
        6 => Color { rgb: [pair(0), pair(2), pair(4)], alpha: 1.0 },
        8 => Color { rgb: [pair(0), pair(2), pair(4)], alpha: pair(6) },
        _ => return None,
    })
}

/// A colour of an attribute, by the rules that browsers have for those: nearly everything is one.
pub fn of_attribute(value: &str) -> Option<Color> {
    let value = value.trim();
    if value.is_empty() || value.eq_ignore_ascii_case("transparent") {
        return None;
    }
    if let Some(color) = named(value) {
        return Some(color);
    }
    let value = value.strip_prefix('#').unwrap_or(value);
    if value.len() == 3
        && let Some(color) = hex(value)
    {
        return Some(color);
    }
    let mut digits: Vec<u8> =
        value.chars().take(128).map(|c| c.to_digit(16).map_or(0, |digit| digit.to_le_bytes()[0])).collect();
    while digits.is_empty() || !digits.len().is_multiple_of(3) {
        digits.push(0);
    }
    let length = digits.len() / 3;
    let mut parts: Vec<&[u8]> = digits.chunks(length).map(|part| &part[length.saturating_sub(8)..]).collect();
    while parts[0].len() > 2 && parts.iter().all(|part| part[0] == 0) {
        parts.iter_mut().for_each(|part| *part = &part[1..]);
    }
    let two = |part: &[u8]| match *part {
        [one] => f64::from(one) / 255.0,
        [high, low, ..] => f64::from(high * 16 + low) / 255.0,
        [] => 0.0,
    };
    Some(Color { rgb: [two(parts[0]), two(parts[1]), two(parts[2])], alpha: 1.0 })
}

/// A colour of CSS. `None`: it is none, or one that can't be known; so `currentcolor` is.
pub fn color(tokens: &[Token]) -> Option<Color> {
    read(trim(tokens), 0)
}

fn read(tokens: &[Token], depth: usize) -> Option<Color> {
    match tokens {
        [Token::Word(name)] if name.eq_ignore_ascii_case("transparent") => Some(CLEAR),
        [Token::Word(name)] => named(name),
        [Token::Hash(digits)] => hex(digits),
        _ if depth < DEEPEST => {
            let (name, inside) = function(tokens)?;
            called(&name, inside, depth)
        }
        _ => None,
    }
}

fn called(name: &str, inside: &[Token], depth: usize) -> Option<Color> {
    if name == "light-dark" {
        return read(commas(inside).first()?, depth + 1);
    }
    // Of a mixture, or of a colour made from another, the middle of those that are named.
    if name == "color-mix" || inside.first().is_some_and(|token| token.is_word("from")) {
        let parts = split(inside, |token| *token == Token::Space || token.is(','));
        let within: Vec<Color> = parts.into_iter().filter_map(|part| read(part, depth + 1)).collect();
        return (!within.is_empty()).then(|| middle(&within));
    }
    let parts = split(inside, |token| *token == Token::Space || token.is(',') || token.is('/'));
    let mut parts: Vec<&[Token]> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if name == "color" {
        parts = parts.into_iter().skip(1).collect();
    }
    let alpha = parts.get(3).map_or(Some(1.0), |part| number(part, 1.0))?.clamp(0.0, 1.0);
    let part = |at: usize, whole: f64| parts.get(at).and_then(|part| number(part, whole));
    let rgb = match name {
        "rgb" | "rgba" => [part(0, 255.0)? / 255.0, part(1, 255.0)? / 255.0, part(2, 255.0)? / 255.0],
        "hsl" | "hsla" => of_hue(part(0, 360.0)?, part(1, 100.0)? / 100.0, part(2, 100.0)? / 100.0),
        "hwb" => {
            let (white, black) = (part(1, 100.0)? / 100.0, part(2, 100.0)? / 100.0);
            let scale = (1.0 - white - black).max(0.0);
            of_hue(part(0, 360.0)?, 1.0, 0.5).map(|c| c * scale + white / (white + black).max(1.0))
        }
        "color" => [part(0, 1.0)?, part(1, 1.0)?, part(2, 1.0)?],
        // Of these only how bright they are.
        "lab" | "lch" => [grey(((part(0, 100.0)? + 16.0) / 116.0).powi(3)); 3],
        "oklab" | "oklch" => [grey(part(0, 1.0)?.powi(3)); 3],
        _ => return None,
    };
    Some(Color { rgb: rgb.map(|c| c.clamp(0.0, 1.0)), alpha })
}

fn number(tokens: &[Token], whole: f64) -> Option<f64> {
    match tokens {
        [Token::Word(word)] if word.eq_ignore_ascii_case("none") => Some(0.0),
        [Token::Number(n, unit)] if unit == "turn" => Some(n * 360.0),
        [Token::Number(n, unit)] if unit == "rad" => Some(n.to_degrees()),
        [Token::Number(n, unit)] if unit == "grad" => Some(n * 0.9),
        [Token::Number(n, unit)] if unit == "deg" => Some(*n),
        tokens => length(tokens, Measure { em: 16.0, whole }),
    }
}

fn of_hue(hue: f64, saturation: f64, light: f64) -> [f64; 3] {
    let part = |n: f64| {
        let k = (n + hue / 30.0).rem_euclid(12.0);
        light - saturation * light.min(1.0 - light) * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)
    };
    [part(0.0), part(8.0), part(4.0)]
}

/// The part of a grey of such a brightness.
fn grey(brightness: f64) -> f64 {
    let brightness = brightness.clamp(0.0, 1.0);
    if brightness <= 0.003_130_8 { brightness * 12.92 } else { 1.055 * brightness.powf(1.0 / 2.4) - 0.055 }
}

fn middle(colors: &[Color]) -> Color {
    let many = colors.iter().fold(0.0, |n, _| n + 1.0);
    let mean = |part: &dyn Fn(&Color) -> f64| colors.iter().map(part).sum::<f64>() / many;
    Color { rgb: [mean(&|c| c.rgb[0]), mean(&|c| c.rgb[1]), mean(&|c| c.rgb[2])], alpha: mean(&|c| c.alpha) }
}

impl Color {
    /// How it looks over another, which is opaque.
    pub fn over(self, below: Self) -> Self {
        let mix = |at: usize| self.rgb[at] * self.alpha + below.rgb[at] * (1.0 - self.alpha);
        Self { rgb: [mix(0), mix(1), mix(2)], alpha: 1.0 }
    }

    fn brightness(self) -> f64 {
        let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        0.2126 * linear(self.rgb[0]) + 0.7152 * linear(self.rgb[1]) + 0.0722 * linear(self.rgb[2])
    }

    /// Whether text of this colour can be read on such a ground, which is opaque.
    pub fn can_be_read_on(self, ground: Self) -> bool {
        let color = self.over(ground);
        let (a, b) = (color.brightness(), ground.brightness());
        if (a.max(b) + 0.05) / (a.min(b) + 0.05) >= CONTRAST {
            return true;
        }
        let differs = (0..3).any(|at| (color.rgb[at] - ground.rgb[at]).abs() >= HUE);
        differs && a.min(b) < BRIGHT
    }
}

/// What is drawn behind text: one colour, or those of a gradient, all opaque.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ground {
    colors: [Color; 4],
    many: usize,
}

impl Ground {
    pub fn plain(color: Color) -> Self {
        Self { colors: [color.over(WHITE); 4], many: 1 }
    }

    pub fn over(self, color: Color) -> Self {
        Self { colors: self.colors.map(|below| color.over(below)), many: self.many }
    }

    /// A gradient over it.
    pub fn under(self, stops: &[Color]) -> Self {
        let mut ground = self;
        ground.many = stops.len().min(ground.colors.len());
        for (i, place) in ground.colors.iter_mut().enumerate() {
            if let Some(stop) = stops.get(i) {
                *place = stop.over(self.colors[0]);
            }
        }
        if ground.many == 0 { self } else { ground }
    }

    /// Whether text of this colour can be read anywhere on it.
    pub fn shows(&self, color: Color) -> bool {
        color.alpha > 0.05 && self.colors.iter().take(self.many).any(|ground| color.can_be_read_on(*ground))
    }
}

/// What a background draws: its colour, and the colours of its gradients.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Background {
    pub color: Option<Color>,
    pub stops: Vec<Color>,
    /// It paints the letters instead of what is behind them.
    pub in_text: bool,
}

/// The value of `background` or `background-image`; of images nothing, they are blocked. `None`: not a background.
pub fn background(tokens: &[Token]) -> Option<Background> {
    let mut found = Background::default();
    for layer in commas(tokens) {
        for word in words(layer) {
            if let Some(color) = color(word) {
                found.color = Some(color);
            } else if let Some((name, inside)) = function(word) {
                if !name.ends_with("gradient") {
                    continue;
                }
                let stops = commas(inside).into_iter().filter_map(|stop| words(stop).into_iter().find_map(color));
                found.stops = stops.take(4).collect();
            } else if word.iter().any(|token| token.is_word("text")) {
                found.in_text = true;
            }
        }
    }
    let first = tokens.first()?;
    let invalid = matches!(first, Token::Text(_) | Token::At(_)) || first.is('{');
    (!invalid).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::css::tokens;

    fn rgb(css: &str) -> Option<[i64; 3]> {
        color(&tokens(css)).map(|c| c.rgb.map(|part| (part * 255.0).round() as i64))
    }

    #[test]
    fn colours_are_read_in_every_notation() {
        for white in [
            "white",
            "#fff",
            "#FFFFFF",
            "rgb(255,255,255)",
            "rgb(100% 100% 100% / 1)",
            "hsl(0,0%,100%)",
            "hwb(0 100% 0%)",
            "lab(100% 0 0)",
            "oklch(1 0 0)",
            "color(srgb 1 1 1)",
            "color-mix(in srgb, white, #fff)",
            "light-dark(white, black)",
            "rgb(from white r g b)",
            "rgb(calc(250 + 5), 255, 255)",
        ] {
            assert_eq!(rgb(white), Some([255; 3]), "{white}");
        }
        assert_eq!(rgb("hsl(120deg 100% 25%)"), Some([0, 128, 0]));
        for none in ["currentcolor", "12px", "#12345", "whitee", "rgb(a,b,c)", "white white"] {
            assert_eq!(rgb(none), None, "{none}");
        }
        assert_eq!(of_attribute("ffffff"), Some(WHITE));
        assert_eq!(of_attribute("#FFF"), Some(WHITE));
        assert_eq!(of_attribute("chucknorris").map(|c| c.rgb.map(|part| (part * 255.0) as i64)), Some([192, 0, 0]));
    }

    #[test]
    fn what_is_nearly_equal_cant_be_read() {
        let reads =
            |text: &str, ground: &str| color(&tokens(text)).unwrap().can_be_read_on(color(&tokens(ground)).unwrap());
        for (text, ground) in [("#fefefe", "#fff"), ("yellow", "white"), ("#222", "#111"), ("rgba(0,0,0,.03)", "#fff")]
        {
            assert!(!reads(text, ground), "{text} on {ground}");
        }
        for (text, ground) in [("#ccc", "#fff"), ("#0000ee", "#333"), ("#fff", "#777"), ("#555", "#111")] {
            assert!(reads(text, ground), "{text} on {ground}");
        }
    }
}
