//! Numbers, times and dates in one plain form.

use super::token::Kind;
use crate::calendar::{DAYS, MONTHS};

/// Each by its place from 0.
const ONES: &str = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen \
                    seventeen eighteen nineteen";
const NTH: &str = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth \
                   fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth";
/// From 20 on.
const TENS: &str = "twenty thirty forty fifty sixty seventy eighty ninety";
const TENTHS: &str = "twentieth thirtieth";

/// What a number is read as: its parts, and how many words they took.
pub(super) type Number = (Vec<(Kind, String)>, usize);

/// The number, time or date that begins with the first of these words.
pub(super) fn read(words: &[String]) -> Option<Number> {
    let word = |n: usize| words.get(n).map_or("", String::as_str);
    let number = |value: String, used: usize| Some((vec![(Kind::Number, value)], used));
    if let Some((value, used)) = clock(&word).or_else(|| phone(words)) {
        return number(value, used);
    }
    if let Some(parts) = date(word(0)) {
        return Some((parts, 1));
    }
    if word(0).starts_with(|c: char| c.is_ascii_digit() || c == '+') {
        let (value, used) = in_figures(&word);
        return number(value, used);
    }
    if let Some((value, used)) = spelled(&word) {
        return number(value.to_string(), used);
    }
    let known = |names: &[&str], word: &str| {
        names.iter().position(|name| *name == word || (3..5).contains(&word.len()) && name.starts_with(word))
    };
    if let Some(n) = known(&MONTHS, word(0)) {
        return Some((vec![(Kind::Month, n.to_string())], 1));
    }
    if let Some(n) = known(&DAYS, word(0).strip_suffix('s').unwrap_or(word(0))) {
        return Some((vec![(Kind::Day, n.to_string())], 1));
    }
    match word(0) {
        part @ ("half" | "quarter") => number(part.to_owned(), 1),
        "hundred" => number("100".to_owned(), 1),
        "thousand" => number("1000".to_owned(), 1),
        "million" | "millions" => number("1000000".to_owned(), 1),
        _ => None,
    }
}

fn place(names: &str, word: &str) -> Option<u64> {
    (0..).zip(names.split_whitespace()).find(|(_, name)| *name == word).map(|(n, _)| n)
}

/// `three hundred and five`, `sixty-four`, `twenty-seventh`, `first`.
fn spelled<'a>(word: &impl Fn(usize) -> &'a str) -> Option<(u64, usize)> {
    let (mut sum, mut used) = (0, 0);
    loop {
        // Tens take ones, a hundred and a thousand take all below them.
        let (below_100, begins) = (sum % 100, used == 0);
        let round = !begins && sum > 0 && below_100 == 0;
        let next = word(used + usize::from(round && word(used) == "and"));
        let ones = |n: &u64| begins || round || below_100 >= 20 && below_100 % 10 == 0 && (1..10).contains(n);
        let (one, ten) = (place(ONES, next).filter(ones), place(TENS, next).filter(|_| begins || round));
        let (nth, tenth) = (place(NTH, next).filter(ones), place(TENTHS, next).filter(|_| begins || round));
        match next {
            "hundred" if (1..100).contains(&(sum % 1000)) => sum += sum % 1000 * 99,
            "thousand" if (1..1000).contains(&sum) => sum *= 1000,
            _ => sum += one.or(nth).or_else(|| ten.or(tenth).map(|n| 20 + 10 * n)).unwrap_or_default(),
        }
        let read = [one, ten, nth, tenth].iter().any(Option::is_some);
        if !read && (begins || !matches!(next, "hundred" | "thousand") || round) {
            return (!begins).then_some((sum, used));
        }
        used += 1 + usize::from(next != word(used));
        if nth.or(tenth).is_some() {
            return Some((sum, used));
        }
    }
}

/// `half past eight` and `8:30`, `9 pm` and `21:00`.
fn clock<'a>(word: &impl Fn(usize) -> &'a str) -> Option<(String, usize)> {
    let hour = |w: &str| w.parse::<u64>().ok().or_else(|| place(ONES, w));
    let time = |hour: u64, minute: u64| match minute {
        0 => format!("{}", hour % 24),
        _ => format!("{}:{minute:02}", hour % 24),
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
            "past" => return Some((time(of, minutes), article + 3)),
            "to" if article == 1 || word(0) == "quarter" => return Some((time(of + 23, 60 - minutes), article + 3)),
            _ => {}
        }
    }
    let (h, m) = match word(0).split_once(':') {
        Some((h, m)) => (h.parse().ok()?, m.parse().ok()?),
        None => (hour(word(0))?, 0),
    };
    match word(1) {
        "pm" if h <= 12 => Some((time(h % 12 + 12, m), 2)),
        "am" if h <= 12 => Some((time(h % 12, m), 2)),
        "o'clock" if h <= 24 => Some((time(h, m), 2)),
        _ => None,
    }
}

/// 2026-06-30 and 30/06/2026 are a day, a month and a year.
fn date(word: &str) -> Option<Vec<(Kind, String)>> {
    let parts: Vec<usize> = word.split(['-', '/']).map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let (year, month, day) = match parts[..] {
        [year @ 1000..=2999, month, day] => (year, month, day),
        // Where both could be the month, nobody knows.
        [day @ 13..=31, month, year @ 1000..=2999] => (year, month, day),
        _ => return None,
    };
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    let [day, month, year] = [day.to_string(), month.wrapping_sub(1).to_string(), year.to_string()];
    valid.then(|| vec![(Kind::Number, day), (Kind::Month, month), (Kind::Number, year)])
}

/// The parts of a number that begins with 0 are one number, however they are parted.
fn phone(words: &[String]) -> Option<(String, usize)> {
    let part = |w: &&String| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit() || b"+-/".contains(&b));
    words.first().filter(|w| w.len() >= 3 && w.starts_with(['0', '+']))?;
    let used = words.iter().take_while(part).count();
    let digits: String = words[..used].concat().chars().filter(char::is_ascii_digit).collect();
    (digits.len() >= 5).then_some((digits, used))
}

/// 128 over 82 is 128/82, 3 thousand are 3000.
fn in_figures<'a>(word: &impl Fn(usize) -> &'a str) -> (String, usize) {
    let whole = |w: &str| !w.is_empty() && w.bytes().all(|b| b.is_ascii_digit());
    if whole(word(0)) && word(1) == "over" && whole(word(2)) {
        return (format!("{}/{}", word(0), word(2)), 3);
    }
    let value = figures(word(0));
    let zeros = match word(1) {
        "hundred" => "00",
        "thousand" => "000",
        "million" => "000000",
        _ => return (value, 1),
    };
    if whole(&value) { (value + zeros, 2) } else { (value, 1) }
}

/// 1,200.50 and 1200.5 are one number, 3rd is 3, and 07:30 is 7:30.
fn figures(word: &str) -> String {
    let word = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    let plain = word.trim_start_matches('+');
    if let Some((hour, rest)) = plain.split_once(':') {
        let hour = hour.parse::<u64>().map_or_else(|_| hour.to_owned(), |h| h.to_string());
        return if rest == "00" { hour } else { format!("{hour}:{rest}") };
    }
    // A comma before three figures parts thousands.
    let mut tail = plain.split(',').skip(1).peekable();
    let thousands = tail.peek().is_some() && tail.all(|p| p.split('.').next().is_some_and(|p| p.len() == 3));
    let text = if thousands { plain.replace(',', "") } else { plain.replace(',', ".") };
    if text.matches('.').count() == 1 && !text.contains(['/', '-']) {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}
