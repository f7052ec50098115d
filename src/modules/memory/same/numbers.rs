//! Numbers, times and dates in one plain form.

use super::super::calendar::{DAYS, MONTHS};

const SMALL: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];
const NTH: [&str; 20] = [
    "zeroth",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
    "seventeenth",
    "eighteenth",
    "nineteenth",
];
const TENTHS: [&str; 2] = ["twentieth", "thirtieth"];

/// What a number is read as: its keys, and how many words it took.
pub(super) type Number = (Vec<String>, usize);

/// The number, time or date that begins with the first of these words.
pub(super) fn read(words: &[String]) -> Option<Number> {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    if let Some(clock) = clock(words) {
        return Some(clock);
    }
    if let Some(date) = date(word(0)) {
        return Some((date, 1));
    }
    if let Some(phone) = phone(words) {
        return Some(phone);
    }
    if word(0).starts_with(|c: char| c.is_ascii_digit() || c == '+') {
        // 128 over 82 is 128/82.
        let plain = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
        if plain(word(0)) && word(1) == "over" && plain(word(2)) {
            return Some((vec![format!("#{}/{}", word(0), word(2))], 3));
        }
        let mut value = figures(word(0));
        let mut used = 1;
        while let Some(zeros) = zeros(word(used)).filter(|_| value.bytes().all(|b| b.is_ascii_digit())) {
            value.push_str(zeros);
            used += 1;
        }
        return Some((vec![format!("#{value}")], used + usize::from(word(used) == "times")));
    }
    if let Some((value, used)) = spelled(words) {
        return Some((vec![format!("#{value}")], used + usize::from(word(used) == "times")));
    }
    let known = |names: &[&str], word: &str| {
        names.iter().position(|name| *name == word || (3..5).contains(&word.len()) && name.starts_with(word))
    };
    // `may` and `march` are dates only where a number stands beside; alone they weigh the same either way.
    if let Some(n) = known(&MONTHS, word(0)) {
        return Some((vec![format!("month {n}")], 1));
    }
    let day = word(0).strip_suffix('s').unwrap_or(word(0));
    if let Some(n) = known(&DAYS, day).filter(|_| !["sun", "sat"].contains(&word(0))) {
        return Some((vec![format!("day {n}")], 1));
    }
    let one = |key: &str| Some((vec![key.to_owned()], 1));
    match (word(0), word(1)) {
        // Once a year is yearly.
        ("once", "a" | "per" | "every" | "each") => Some((Vec::new(), 1)),
        ("pair", "of") => Some((vec!["#2".into()], 2)),
        ("half", "an") if word(2) == "hour" => Some((vec!["#30".into(), "~minute".into()], 3)),
        ("once", _) => one("#1"),
        ("twice", _) => one("#2"),
        ("every" | "each", "other") => Some((vec!["#2".into()], 2)),
        ("half", _) => one("half"),
        ("quarter", _) => one("quarter"),
        ("dozen" | "noon" | "midday", _) => one("#12"),
        ("hundred", _) => one("#100"),
        ("thousand", _) => one("#1000"),
        ("million" | "millions", _) => one("#1000000"),
        ("midnight", _) => one("#0"),
        _ => None,
    }
}

fn zeros(word: &str) -> Option<&'static str> {
    match word {
        "hundred" => Some("00"),
        "thousand" => Some("000"),
        "million" => Some("000000"),
        _ => None,
    }
}

/// `three hundred and five`, `sixty-four`, `twenty-seventh`, `first`.
fn spelled(words: &[String]) -> Option<(u64, usize)> {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    let place = |names: &[&str], word: &str| names.iter().position(|n| *n == word);
    let (mut whole, mut part, mut used, mut any) = (0u64, 0u64, 0, false);
    // Whether after this another word may belong to it: tens take ones, a hundred takes all below.
    let mut below = u64::MAX;
    loop {
        let at = if any && below >= 100 && word(used) == "and" { used + 1 } else { used };
        let (value, ends) = match word(at) {
            w if place(&SMALL, w).is_some_and(|n| (n as u64) < below) => (place(&SMALL, w).unwrap_or(0) as u64, false),
            w if below > 20 && place(&TENS, w).is_some() => (20 + 10 * place(&TENS, w).unwrap_or(0) as u64, false),
            w if place(&NTH, w).is_some_and(|n| (n as u64) < below) => (place(&NTH, w).unwrap_or(0) as u64, true),
            w if below > 20 && place(&TENTHS, w).is_some() => (20 + 10 * place(&TENTHS, w).unwrap_or(0) as u64, true),
            "hundred" if any && part > 0 && part < 100 => {
                part *= 100;
                (used, below) = (at + 1, 100);
                continue;
            }
            "thousand" if any && part > 0 => {
                whole += part * 1000;
                (part, used, below) = (0, at + 1, 1000);
                continue;
            }
            _ => break,
        };
        part += value;
        (used, any) = (at + 1, true);
        below = match value {
            20.. => 10,
            _ => 0,
        };
        if ends || below == 0 && !["hundred", "thousand"].contains(&word(used)) {
            break;
        }
    }
    any.then_some((whole + part, used))
}

/// `half past eight` and `8:30`, `9 pm` and `21:00`.
fn clock(words: &[String]) -> Option<Number> {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    let hour = |w: &str| w.parse::<u32>().ok().or_else(|| SMALL.iter().position(|s| *s == w).map(|n| n as u32));
    let key = |hour: u32, minute: u32| {
        vec![if minute == 0 { format!("#{}", hour % 24) } else { format!("#{}:{minute:02}", hour % 24) }]
    };
    let article = usize::from(word(0) == "a");
    let minutes = match word(article) {
        "half" => Some(30),
        "quarter" => Some(15),
        "five" | "5" => Some(5),
        "ten" | "10" => Some(10),
        "twenty" | "20" => Some(20),
        _ => None,
    };
    if let (Some(minutes), Some(of)) = (minutes, hour(word(article + 2)).filter(|h| (1..=12).contains(h))) {
        match word(article + 1) {
            "past" => return Some((key(of, minutes), article + 3)),
            "to" if article == 1 || word(0) == "quarter" => return Some((key(of + 23, 60 - minutes), article + 3)),
            _ => {}
        }
    }
    let (h, m) = match word(0).split_once(':') {
        Some((h, m)) => (h.parse::<u32>().ok()?, m.parse::<u32>().ok()?),
        None => (hour(word(0))?, 0),
    };
    match word(1) {
        "pm" | "p.m" if h <= 12 => Some((key(h % 12 + 12, m), 2)),
        "am" | "a.m" if h <= 12 => Some((key(h % 12, m), 2)),
        "o'clock" if h <= 24 => Some((key(h, m), 2)),
        _ => None,
    }
}

/// 2026-06-30 and 30/06/2026 are a day, a month and a year.
fn date(word: &str) -> Option<Vec<String>> {
    let part = |p: &str| p.parse::<usize>().ok();
    let parts: Vec<usize> = word.split(['-', '/']).map(part).collect::<Option<_>>()?;
    let (year, month, day) = match parts[..] {
        [year @ 1000..=2999, month, day] => (year, month, day),
        // Where both could be the month, nobody knows.
        [day @ 13..=31, month, year @ 1000..=2999] => (year, month, day),
        _ => return None,
    };
    ((1..=12).contains(&month) && (1..=31).contains(&day))
        .then(|| vec![format!("#{day}"), format!("month {}", month - 1), format!("#{year}")])
}

/// The parts of a number that begins with 0 are one number, however they are parted.
fn phone(words: &[String]) -> Option<Number> {
    let part = |w: &String| w.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'/') && !w.is_empty();
    let first = words.first().filter(|w| w.len() >= 3 && (w.starts_with('0') || w.starts_with("+")))?;
    let rest = first.trim_start_matches('+');
    if !rest.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'/') {
        return None;
    }
    let used = 1 + words.iter().skip(1).take_while(|w| part(w)).count();
    let digits: String = words.iter().take(used).flat_map(|w| w.chars()).filter(char::is_ascii_digit).collect();
    (digits.len() >= 5).then(|| (vec![format!("#{digits}")], used))
}

/// 1,200.50 and 1200.5 are one number, 3rd is 3, and 07:30 is 7:30.
fn figures(word: &str) -> String {
    let word = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    let plain = word.trim_start_matches('+');
    // A comma before three figures parts thousands.
    let mut parts = plain.split(',');
    let head = parts.next().unwrap_or_default();
    let tail: Vec<&str> = parts.collect();
    let thousands = !tail.is_empty() && tail.iter().all(|p| p.split('.').next().is_some_and(|p| p.len() == 3));
    let mut text = if thousands { format!("{head}{}", tail.concat()) } else { plain.replace(',', ".") };
    if text.contains('.') && !text.contains([':', '/', '-']) && text.matches('.').count() == 1 {
        text = text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    if let Some((hour, rest)) = text.split_once(':') {
        let hour = hour.trim_start_matches('0');
        let hour = if hour.is_empty() { "0" } else { hour };
        return if rest == "00" { hour.to_owned() } else { format!("{hour}:{rest}") };
    }
    text
}
