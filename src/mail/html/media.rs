//! Whether a media query means the screen that a letter is read on.

use super::css::{Measure, Token, length, split, trim};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Yes,
    No,
    Unknown,
}

use Verdict::{No, Unknown, Yes};

/// The widths of a window, in pixels, that a letter is read in; what holds for one of them only is not known.
const WIDTHS: [f64; 2] = [1000.0, 1600.0];
const HEIGHTS: [f64; 2] = [700.0, 1100.0];

/// Reads a list of queries.
pub fn media(tokens: &[Token]) -> Verdict {
    if trim(tokens).is_empty() {
        return Yes;
    }
    let all: Vec<Verdict> = super::css::commas(tokens).into_iter().map(query).collect();
    match all {
        all if all.contains(&Yes) => Yes,
        all if all.contains(&Unknown) => Unknown,
        _ => No,
    }
}

fn not(verdict: Verdict) -> Verdict {
    match verdict {
        Yes => No,
        No => Yes,
        Unknown => Unknown,
    }
}

fn is(so: bool) -> Verdict {
    if so { Yes } else { No }
}

fn query(tokens: &[Token]) -> Verdict {
    let (negated, tokens) = match tokens {
        [first, rest @ ..] if first.is_word("not") => (true, trim(rest)),
        [first, rest @ ..] if first.is_word("only") => (false, trim(rest)),
        tokens => (false, tokens),
    };
    let mut verdict = Yes;
    for part in split(tokens, |token| token.is_word("and")) {
        let holds = match part {
            [Token::Word(medium)] => is(["screen", "all"].iter().any(|m| medium.eq_ignore_ascii_case(m))),
            [Token::Sign('('), inside @ .., Token::Sign(')')] => feature(trim(inside)),
            _ => Unknown,
        };
        verdict = match (verdict, holds) {
            (No, _) | (_, No) => No,
            (Unknown, _) | (_, Unknown) => Unknown,
            _ => Yes,
        };
    }
    if negated { not(verdict) } else { verdict }
}

fn of(holds: impl Fn(f64) -> bool, values: [f64; 2]) -> Verdict {
    match values.map(holds) {
        [true, true] => Yes,
        [false, false] => No,
        _ => Unknown,
    }
}

fn feature(tokens: &[Token]) -> Verdict {
    let [Token::Word(name), rest @ ..] = tokens else { return Unknown };
    let name = name.to_ascii_lowercase().replace("device-width", "width").replace("device-height", "height");
    let value = match trim(rest) {
        [] => &[],
        [Token::Sign(':'), value @ ..] => trim(value),
        _ => return Unknown,
    };
    let word = match value {
        [Token::Word(word)] => word.to_ascii_lowercase(),
        _ => String::new(),
    };
    let number = length(value, Measure { em: 16.0, whole: f64::NAN });
    match (name.as_str(), number) {
        ("min-width", Some(n)) => of(|width| width >= n, WIDTHS),
        ("max-width", Some(n)) => of(|width| width <= n, WIDTHS),
        ("min-height", Some(n)) => of(|height| height >= n, HEIGHTS),
        ("max-height", Some(n)) => of(|height| height <= n, HEIGHTS),
        ("width" | "height", None) if value.is_empty() => Yes,
        // An exact size is that of no window.
        ("width" | "height", Some(_)) => No,
        ("-webkit-min-device-pixel-ratio" | "min--moz-device-pixel-ratio" | "min-resolution", Some(n)) => {
            if n <= 1.0 {
                Yes
            } else {
                Unknown
            }
        }
        ("-webkit-min-device-pixel-ratio", None) if value.is_empty() => Yes,
        ("orientation", _) => is(word == "landscape"),
        ("prefers-color-scheme", _) => is(word == "light" || word.is_empty()),
        ("prefers-reduced-motion" | "prefers-contrast" | "prefers-reduced-transparency", _) => {
            is(word == "no-preference")
        }
        ("hover" | "any-hover", _) => is(word != "none"),
        ("pointer" | "any-pointer", _) => is(word == "fine" || word.is_empty()),
        ("color" | "min-color", _) => Yes,
        ("monochrome" | "grid", _) => is(number == Some(0.0)),
        ("-ms-high-contrast" | "forced-colors", _) => is(word == "none" && name == "forced-colors"),
        ("scripting", _) => is(word == "none"),
        _ => Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::css::tokens;

    #[test]
    fn a_screen_with_a_usual_window_is_meant_or_not() {
        for (css, verdict) in [
            ("", Yes),
            ("screen", Yes),
            ("all", Yes),
            ("print", No),
            ("not print", Yes),
            ("not all", No),
            ("only screen and (max-width: 600px)", No),
            ("only screen and (max-width:5000px)", Yes),
            ("(min-width: 1200px)", Unknown),
            ("screen and (min-width: 601px)", Yes),
            ("(prefers-color-scheme: dark)", No),
            ("(prefers-color-scheme: light)", Yes),
            ("print, screen", Yes),
            ("(width > 100px)", Unknown),
            ("screen yahoo", Unknown),
            ("(-webkit-min-device-pixel-ratio:0)", Yes),
            ("(orientation: portrait)", No),
        ] {
            assert_eq!(media(&tokens(css)), verdict, "{css}");
        }
    }
}
