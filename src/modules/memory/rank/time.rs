//! Time in words: which days a question asks for, and whether a text says when.

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};

use super::super::calendar::{DAYS, MONTHS};
use super::words::each_word;

/// What a question says about time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeQuery {
    /// Spans of days that it names: first and last, in seconds since 1970, both inside.
    pub spans: Vec<(i64, i64)>,
    /// It wants to know when, or how long.
    pub when: bool,
}

/// Things are told for some days after they happened.
const TOLD_AFTER: i64 = 14 * 86_400;
/// A month without a year is looked for so many years back.
const YEARS_BACK: i16 = 10;

const NUMBERS: [&str; 13] =
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

impl TimeQuery {
    /// Reads a question asked at `now`.
    pub fn read(question: &str, now: Timestamp, zone: &TimeZone) -> Self {
        let mut words = Vec::new();
        each_word(question, |word| words.push(word.to_owned()));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let today = zone.to_datetime(now).date();
        let mut days = Vec::new();
        let mut at = 0;
        while at < words.len() {
            at += read_at(&words, at, today, &mut days).max(1);
        }
        let seconds = |date: Date| date.to_zoned(zone.clone()).map(|z| z.timestamp().as_second()).ok();
        let spans = days
            .into_iter()
            .filter_map(|(first, last)| Some((seconds(first)?, last.tomorrow().ok().and_then(seconds)? - 1)));
        let when = words.contains(&"when")
            || words.windows(2).any(|w| {
                matches!(w, ["how", "long" | "old" | "recently"])
                    || matches!(w, ["what" | "which", "day" | "date" | "month" | "year" | "time" | "week" | "season"])
            });
        Self { spans: spans.collect(), when }
    }

    /// 1 for a moment that the question names, one half for the days after, in which it may have been told.
    pub fn matches(&self, second: i64) -> f32 {
        let of = |(first, last): &(i64, i64)| match second {
            s if s < *first || s > last + TOLD_AFTER => 0.0,
            s if s <= *last => 1.0,
            _ => 0.5,
        };
        self.spans.iter().map(of).fold(0.0, f32::max)
    }
}

/// Reads an expression that begins at `at`; how many words it took.
fn read_at(words: &[&str], at: usize, today: Date, days: &mut Vec<(Date, Date)>) -> usize {
    let word = |n: usize| words.get(at + n).copied().unwrap_or("");
    let mut back = |span: Span| days.extend(today.checked_sub(span).ok().map(|day| (day, day)));
    match word(0) {
        "yesterday" => {
            back(1.day());
            return 1;
        }
        "today" | "tonight" => {
            back(0.days());
            return 1;
        }
        "last" | "this" | "past" | "previous" | "next" => return relative(word(0), word(1), today, days),
        _ => {}
    }
    if let Some(count) = count(word(0))
        && word(2) == "ago"
        && let Some((from, to)) = unit(word(1), count)
    {
        let (first, last) = (today.checked_sub(from).ok(), today.checked_sub(to).ok());
        days.extend(first.zip(last));
        return 3;
    }
    // 2024-03-05, whose parts arrive as words.
    if let (Some(year), Some(month), Some(day)) = (year(word(0)), small(word(1), 12), small(word(2), 31))
        && word(1).len() == 2
        && let Ok(date) = Date::new(year, month, day)
    {
        days.push((date, date));
        return 3;
    }
    if let Some(year) = year(word(0)) {
        days.extend(Date::new(year, 1, 1).ok().zip(Date::new(year, 12, 31).ok()));
        return 1;
    }
    // 5 March 2024, 5th of March
    if let Some(day) = ordinal(word(0)) {
        let of = usize::from(word(1) == "of");
        if let Some(month) = month(word(1 + of)) {
            let year = year(word(2 + of));
            push_days(days, today, year, month, Some(day));
            return 2 + of + usize::from(year.is_some());
        }
    }
    // March, March 5, March 5th 2024, March 2024. A small "may" or "march" alone is a verb more often than a month.
    if let Some(month) = month(word(0)) {
        let day = ordinal(word(1));
        let after = 1 + usize::from(day.is_some());
        let year = year(word(after));
        let in_front =
            at > 0 && matches!(words[at - 1], "in" | "of" | "since" | "during" | "until" | "by" | "early" | "late");
        if day.is_some() || year.is_some() || in_front || !matches!(word(0), "may" | "march") {
            push_days(days, today, year, month, day);
        }
        return after + usize::from(year.is_some());
    }
    if let Some((first, last)) = season(word(0)) {
        let of = usize::from(word(1) == "of");
        let year = year(word(1 + of));
        if year.is_some() || at > 0 && matches!(words[at - 1], "in" | "the" | "during" | "of") {
            for year in years(year, today) {
                let begin = Date::new(if first > last { year - 1 } else { year }, first, 1);
                let end = Date::new(year, last, 1).map(|d| d.last_of_month());
                days.extend(begin.ok().zip(end.ok()));
            }
        }
        return 1 + if year.is_some() { of + 1 } else { 0 };
    }
    0
}

/// "last week", "this month", "next Friday".
fn relative(which: &str, what: &str, today: Date, days: &mut Vec<(Date, Date)>) -> usize {
    let step = match which {
        "this" => 0,
        "next" => 1,
        _ => -1,
    };
    let span = match what {
        "week" | "weekend" => {
            let monday = today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days());
            let first = monday.and_then(|d| d.checked_add((7 * step).days())).ok();
            let begin = first.and_then(|d| d.checked_add(if what == "week" { 0.days() } else { 5.days() }).ok());
            begin.zip(first.and_then(|d| d.checked_add(6.days()).ok()))
        }
        "month" => today.checked_add(step.months()).ok().map(|d| (d.first_of_month(), d.last_of_month())),
        "year" => today.checked_add(step.years()).ok().map(|d| (d.first_of_year(), d.last_of_year())),
        "night" | "evening" => today.checked_sub(if which == "last" { 1.day() } else { 0.days() }).ok().map(|d| (d, d)),
        _ => match (DAYS.iter().position(|d| *d == what), season(what)) {
            (Some(day), _) => {
                let day = Weekday::from_monday_zero_offset(day as i8).ok();
                let step = if which == "next" { 1 } else { -1 };
                day.and_then(|day| today.nth_weekday(step, day).ok()).map(|d| (d, d))
            }
            (_, Some((first, last))) => {
                let near = |year: i16| {
                    let begin = Date::new(if first > last { year - 1 } else { year }, first, 1).ok()?;
                    Some((begin, Date::new(year, last, 1).ok()?.last_of_month()))
                };
                match which {
                    "this" | "next" => near(today.year()),
                    _ => near(today.year()).filter(|(_, end)| *end < today).or_else(|| near(today.year() - 1)),
                }
            }
            _ => return 1,
        },
    };
    days.extend(span);
    2
}

fn push_days(days: &mut Vec<(Date, Date)>, today: Date, year: Option<i16>, month: i8, day: Option<i8>) {
    for year in years(year, today) {
        match day {
            Some(day) => days.extend(Date::new(year, month, day).ok().map(|d| (d, d))),
            None => days.extend(Date::new(year, month, 1).ok().map(|d| (d, d.last_of_month()))),
        }
    }
}

fn years(named: Option<i16>, today: Date) -> std::ops::RangeInclusive<i16> {
    named.map_or(today.year() - YEARS_BACK..=today.year() + 1, |year| year..=year)
}

fn month(word: &str) -> Option<i8> {
    let whole = MONTHS.iter().position(|m| *m == word);
    let short = || MONTHS.iter().position(|m| word.len() == 3 && word != "may" && m.starts_with(word));
    whole.or_else(short).map(|n| n as i8 + 1)
}

fn season(word: &str) -> Option<(i8, i8)> {
    match word {
        "spring" => Some((3, 5)),
        "summer" => Some((6, 8)),
        "autumn" | "fall" => Some((9, 11)),
        "winter" => Some((12, 2)),
        _ => None,
    }
}

fn year(word: &str) -> Option<i16> {
    (word.len() == 4).then(|| word.parse().ok()).flatten().filter(|year| (1900..2100).contains(year))
}

fn small(word: &str, most: i8) -> Option<i8> {
    (word.len() <= 2).then(|| word.parse().ok()).flatten().filter(|n| (1..=most).contains(n))
}

fn ordinal(word: &str) -> Option<i8> {
    let bare = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    small(bare, 31)
}

fn count(word: &str) -> Option<i64> {
    match word {
        "a" | "an" => Some(1),
        _ => NUMBERS.iter().position(|n| *n == word).map(|n| n as i64).or_else(|| small(word, 99).map(i64::from)),
    }
}

/// Between how long and how long ago "three weeks ago" may be.
fn unit(word: &str, count: i64) -> Option<(Span, Span)> {
    Some(match word {
        "day" | "days" => (count.days(), count.days()),
        "week" | "weeks" => ((7 * count + 4).days(), (7 * count - 4).days()),
        "month" | "months" => ((30 * count + 20).days(), (30 * count - 15).days()),
        "year" | "years" => ((365 * count + 180).days(), (365 * count - 180).days()),
        _ => return None,
    })
}

/// Whether a text says when something happens: such texts answer "when".
pub fn says_when(text: &str) -> bool {
    let mut before = String::new();
    let mut found = false;
    each_word(text, |word| {
        found |= match word {
            "yesterday" | "today" | "tonight" | "tomorrow" | "ago" | "weekend" | "recently" => true,
            "week" | "month" | "year" | "night" | "summer" | "winter" | "spring" | "fall" | "autumn" => {
                matches!(before.as_str(), "last" | "this" | "next" | "past" | "previous" | "every" | "few" | "a" | "in")
            }
            "weeks" | "months" | "years" | "days" => true,
            "morning" | "afternoon" | "evening" => matches!(before.as_str(), "this" | "yesterday" | "tomorrow"),
            "may" | "march" => {
                matches!(before.as_str(), "in" | "of" | "since" | "last" | "next") || ordinal(&before).is_some()
            }
            _ => year(word).is_some() || DAYS.contains(&word) || word.len() > 3 && MONTHS.contains(&word),
        };
        word.clone_into(&mut before);
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked on Saturday, 15 June 2024.
    fn asked(question: &str) -> TimeQuery {
        TimeQuery::read(question, "2024-06-15T12:00:00Z".parse().unwrap(), &TimeZone::UTC)
    }

    fn spans(question: &str) -> Vec<String> {
        let day = |second: i64| Timestamp::from_second(second).unwrap().to_zoned(TimeZone::UTC).date();
        let spans = asked(question).spans;
        spans
            .iter()
            .map(|(a, b)| if day(*a) == day(*b) { day(*a).to_string() } else { format!("{}/{}", day(*a), day(*b)) })
            .collect()
    }

    #[test]
    fn days_that_a_question_names_are_read() {
        for (question, want) in [
            ("What did I eat yesterday?", "2024-06-14"),
            ("What was decided on 5 March 2024?", "2024-03-05"),
            ("What was decided on March 5th, 2024?", "2024-03-05"),
            ("the 5th of March 2024", "2024-03-05"),
            ("on 2024-03-05", "2024-03-05"),
            ("Where were we in March 2024?", "2024-03-01/2024-03-31"),
            ("What happened in 2022?", "2022-01-01/2022-12-31"),
            ("plans for last week", "2024-06-03/2024-06-09"),
            ("this weekend", "2024-06-15/2024-06-16"),
            ("last month", "2024-05-01/2024-05-31"),
            ("next year", "2025-01-01/2025-12-31"),
            ("What did she say last Friday?", "2024-06-14"),
            ("three days ago", "2024-06-12"),
            ("a year ago", "2022-12-18/2023-12-13"),
            ("last summer", "2023-06-01/2023-08-31"),
            ("in the winter of 2023", "2022-12-01/2023-02-28"),
        ] {
            assert_eq!(spans(question), [want], "{question}");
        }
    }

    #[test]
    fn a_month_without_a_year_may_be_of_any() {
        let june = asked("What did we do in June?");
        let at = |day: &str| june.matches(format!("{day}T12:00:00Z").parse::<Timestamp>().unwrap().as_second());
        assert_eq!([at("2023-06-30"), at("2022-06-01"), at("2023-07-05"), at("2023-09-01")], [1.0, 1.0, 0.5, 0.0]);
    }

    #[test]
    fn what_only_sounds_like_time_is_not() {
        for question in ["May I march on?", "at platform 9", "the next train", "31 of them", "fall over", ""] {
            assert_eq!(spans(question), [] as [&str; 0], "{question}");
        }
    }

    #[test]
    fn questions_for_a_time_and_texts_that_say_it_are_known() {
        assert!(asked("When did she move?").when && asked("How long have they been married?").when);
        assert!(!asked("Who moved?").when);
        for text in
            ["I went yesterday", "two years ago", "we met in May", "on 5 May", "since 2019", "every week", "on Tuesday"]
        {
            assert!(says_when(text), "{text}");
        }
        for text in ["I may go", "the may pole", "they march on", "a nice day"] {
            assert!(!says_when(text), "{text}");
        }
    }
}
