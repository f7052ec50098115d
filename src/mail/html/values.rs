//! Values of CSS that put text out of sight.

use super::color::{Color, color};
use super::css::{Measure, Token, commas, function, length, split, words};

/// Text smaller than this is not read, in pixels.
pub const SMALLEST: f64 = 3.0;
/// Less opaque than this is not seen.
pub const FAINTEST: f64 = 0.1;
/// Farther than this to the left or above is off the screen, in pixels.
pub const FAR: f64 = -500.0;
/// Farther than this to the right is.
pub const FAR_RIGHT: f64 = 3000.0;
/// A box no larger holds nothing that is seen, in pixels.
pub const THIN: f64 = 2.0;

/// Takes a colour, or says that it is inherited.
pub fn take_color(place: &mut Option<Color>, value: &[Token], word: &str, reset: bool) {
    if word == "initial" {
        *place = Some(super::color::BLACK);
    } else if word == "none" {
        *place = Some(super::color::CLEAR);
    } else if reset || word == "currentcolor" {
        *place = None;
    } else if let Some(color) = color(value) {
        *place = Some(color);
    }
}

/// Whether a value is made from a part of a whole that is not known.
pub fn is_part(value: &[Token]) -> bool {
    value.len() > 1 && value.iter().any(|token| matches!(token, Token::Number(_, unit) if unit == "%"))
}

/// Whether a value is more than a number alone.
pub fn unit(value: &[Token]) -> bool {
    !matches!(value, [Token::Number(_, unit)] if unit.is_empty())
}

/// Whether a length leads off the screen.
pub fn is_far(length: Option<f64>) -> bool {
    length.is_some_and(|n| !(FAR..=FAR_RIGHT).contains(&n))
}

/// The size of a text, in pixels.
pub fn font_size(value: &[Token], parent: f64) -> Option<f64> {
    if let [Token::Word(word)] = value {
        return Some(match word.to_ascii_lowercase().as_str() {
            "xx-small" => 9.0,
            "x-small" => 10.0,
            "small" => 13.0,
            "medium" | "initial" => 16.0,
            "large" => 18.0,
            "x-large" => 24.0,
            "xx-large" => 32.0,
            "xxx-large" => 48.0,
            "smaller" => parent / 1.2,
            "larger" => parent * 1.2,
            "inherit" | "unset" | "revert" => parent,
            _ => return None,
        });
    }
    let size = length(value, Measure { em: parent, whole: parent })?;
    // Without unit it is a length for some readers only.
    (size >= 0.0 && (unit(value) || size < SMALLEST)).then_some(size)
}

/// Whether `rect()` leaves nothing: top, right, bottom, left.
pub fn empty_rect(inside: &[Token], by: Measure) -> bool {
    let parts = split(inside, |token| *token == Token::Space || token.is(','));
    let sides: Vec<Option<f64>> = parts.into_iter().filter(|p| !p.is_empty()).map(|p| length(p, by)).collect();
    let none =
        |from: Option<f64>, to: Option<f64>| matches!((from, to), (from, Some(to)) if to - from.unwrap_or(0.0) <= THIN);
    matches!(sides[..], [top, right, bottom, left] if none(top, bottom) || none(left, right))
}

/// Whether a shape leaves nothing of an element.
pub fn clips_all(name: &str, inside: &[Token]) -> bool {
    let by = Measure { em: 16.0, whole: 100.0 };
    let numbers = |tokens: &[Token]| -> Vec<f64> {
        words(tokens).into_iter().take_while(|t| !t[0].is_word("round")).filter_map(|part| length(part, by)).collect()
    };
    match name {
        "inset" => {
            let all = numbers(inside);
            let Some(top) = all.first() else { return false };
            let right = all.get(1).unwrap_or(top);
            let (bottom, left) = (all.get(2).unwrap_or(top), all.get(3).unwrap_or(right));
            top + bottom >= 98.0 || left + right >= 98.0
        }
        "circle" | "ellipse" => {
            let radii = split(inside, |token| token.is_word("at"));
            radii.first().is_some_and(|radii| numbers(radii).iter().any(|radius| *radius <= THIN))
        }
        "polygon" => {
            let points: Vec<Vec<f64>> = commas(inside).into_iter().map(numbers).filter(|p| p.len() == 2).collect();
            let flat = |at: usize| {
                let side = || points.iter().map(|point| point[at]);
                side().fold(f64::MIN, f64::max) - side().fold(f64::MAX, f64::min) <= THIN
            };
            !points.is_empty() && (flat(0) || flat(1))
        }
        "rect" | "xywh" => {
            let all = numbers(inside);
            all.len() == 4
                && if name == "rect" {
                    all[2] - all[0] <= THIN || all[1] - all[3] <= THIN
                } else {
                    all[2] <= THIN || all[3] <= THIN
                }
        }
        _ => false,
    }
}

/// Whether it moves or turns an element out of sight, and how much it scales.
pub fn transform(value: &[Token], by: Measure) -> (bool, f64) {
    let (mut away, mut scale) = (false, 1.0_f64);
    for word in words(value) {
        // Several may stand together without white space between them.
        for (name, inside) in calls(word) {
            let parts: Vec<f64> = commas(inside).into_iter().filter_map(|part| length(part, by)).collect();
            let first = parts.first().copied().unwrap_or(0.0);
            let plain = || commas(inside).into_iter().filter_map(|p| length(p, Measure { em: 1.0, whole: 1.0 }));
            match name.as_str() {
                "translate" | "translatex" | "translatey" | "translate3d" => {
                    away |= parts.iter().take(2).any(|n| is_far(Some(*n)));
                }
                "scale" | "scalex" | "scaley" => scale *= plain().map(f64::abs).fold(1e3, f64::min),
                "scale3d" => scale *= plain().take(2).map(f64::abs).fold(1e3, f64::min),
                "matrix" if parts.len() == 6 => {
                    scale *= (parts[0] * parts[3] - parts[1] * parts[2]).abs().sqrt();
                    away |= is_far(Some(parts[4])) || is_far(Some(parts[5]));
                }
                "matrix3d" if parts.len() == 16 => {
                    scale *= (parts[0] * parts[5] - parts[1] * parts[4]).abs().sqrt();
                    away |= is_far(Some(parts[12])) || is_far(Some(parts[13]));
                }
                "rotatex" | "rotatey" => away |= on_edge(inside, first),
                _ => {}
            }
        }
    }
    (away, scale)
}

/// Whether an angle turns a plane so that it is seen from the side.
fn on_edge(inside: &[Token], first: f64) -> bool {
    let degrees = match inside {
        [Token::Number(n, unit)] if unit == "deg" => *n,
        [Token::Number(n, unit)] if unit == "turn" => n * 360.0,
        [Token::Number(n, unit)] if unit == "rad" => n.to_degrees(),
        [Token::Number(n, unit)] if unit == "grad" => n * 0.9,
        _ => first,
    };
    (degrees.rem_euclid(180.0) - 90.0).abs() < 6.0
}

fn calls(tokens: &[Token]) -> Vec<(String, &[Token])> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        if token.opens() {
            start = if depth == 0 { at } else { start };
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                found.extend(function(&tokens[start..=at]));
            }
        }
    }
    found
}

/// Whether a filter leaves nothing that can be read.
pub fn filters_away(value: &[Token]) -> bool {
    words(value).into_iter().flat_map(calls).any(|(name, inside)| {
        let plain = length(inside, Measure { em: 16.0, whole: 1.0 });
        match name.as_str() {
            "opacity" => plain.is_some_and(|n| n <= FAINTEST),
            "blur" => plain.is_some_and(|n| n >= 5.0),
            "contrast" => plain.is_some_and(|n| n <= FAINTEST),
            _ => false,
        }
    })
}
