//! `docs/demo.svg`: what `butlerd demo` shows on a terminal, drawn from a real run.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::pages::root;
use super::reference::blessing;
use crate::support::{Household, Terminal};

const FILE: &str = "docs/demo.svg";
const TYPED: [&str; 3] = ["demo", "--runtime", "native"];
/// What the demo says last.
const LAST: &str = "From a clone, `butlerd` is";
const COLUMNS: usize = 116;
const ROWS: usize = 36;
/// Pixels of a character and of a line.
const CELL: (f64, f64) = (7.22, 17.0);
/// Nobody waits longer than this for the next line, however long it took.
const PAUSE: Duration = Duration::from_millis(900);
/// No line comes quicker than this: it is to be read.
const LEAST: Duration = Duration::from_millis(60);

/// A line, and when it came.
type Line = (Duration, String);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_recording_shows_what_the_demo_does() {
    let household = Household::bare();
    let mut terminal = Terminal::open(&household, &TYPED);
    let (started, mut lines) = (Instant::now(), Vec::<Line>::new());
    while !terminal.shown().contains(LAST) {
        note(&terminal, started.elapsed(), &mut lines);
        assert!(started.elapsed() < Duration::from_secs(120), "{}", terminal.shown());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    note(&terminal, started.elapsed(), &mut lines);
    if blessing() {
        std::fs::write(root().join(FILE), draw(&lines)).expect("the recording is written");
    }
    let there = std::fs::read_to_string(root().join(FILE)).unwrap_or_default();
    let recorded: Vec<String> = there.lines().filter_map(text_of).collect();
    let (recorded, now) = (comparable(recorded.iter()), comparable(lines.iter().map(|(_, line)| line)));
    assert!(recorded == now, "{FILE} is not what the demo shows: run `just docs`\n{}", differences(&recorded, &now));
}

/// Takes up the lines that came since the last look.
fn note(terminal: &Terminal, at: Duration, lines: &mut Vec<Line>) {
    let shown = terminal.shown().replace('\r', "");
    let Some((whole, _)) = shown.rsplit_once('\n') else { return };
    let fresh: Vec<&str> = whole.split('\n').skip(lines.len()).collect();
    lines.extend(fresh.into_iter().map(|line| (at, line.to_owned())));
}

/// Lines without what differs from run to run and from machine to machine: numbers, ids, the server, their ends and
/// order.
fn comparable<'a>(lines: impl Iterator<Item = &'a String>) -> Vec<String> {
    let word = |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() };
    let plain = |line: &String| -> String {
        // Numbers have other lengths each time, so a line is cut after them.
        let words: Vec<String> = line.trim_end_matches('…').split_whitespace().map(word).collect();
        words.join(" ").chars().take(40).collect()
    };
    let of_machine =
        |line: &&String| ["  database ", "  scratch directory"].iter().any(|start| line.starts_with(start));
    let mut all: Vec<String> = lines.filter(|line| !line.trim().is_empty() && !of_machine(line)).map(plain).collect();
    all.sort();
    all
}

fn differences(recorded: &[String], now: &[String]) -> String {
    let only = |mark: char, here: &[String], there: &[String]| -> String {
        here.iter().filter(|line| !there.contains(line)).map(|line| format!("{mark} {line}\n")).collect()
    };
    only('-', recorded, now) + &only('+', now, recorded)
}

/// The recording as a picture that plays once and then stands still. Without animation it shows the end.
fn draw(lines: &[Line]) -> String {
    let prompt = (Duration::ZERO, format!("$ butlerd {}", TYPED.join(" ")));
    let (mut at, mut last, mut shown) = (Duration::from_millis(600), Duration::ZERO, Vec::new());
    for (when, line) in std::iter::once(&prompt).chain(lines) {
        at += when.saturating_sub(last).clamp(LEAST, PAUSE);
        last = *when;
        shown.push((at.as_secs_f64(), line));
    }
    let (width, height) = (COLUMNS as f64 * CELL.0 + 32.0, ROWS as f64 * CELL.1 + 58.0);
    let length = shown.last().map_or(1.0, |(at, _)| *at);
    let mut scroll = String::new();
    for (n, (at, _)) in shown.iter().enumerate().filter(|(n, _)| *n >= ROWS) {
        let up = (n + 1 - ROWS) as f64 * CELL.1;
        let _ = write!(scroll, "{:.2}%{{transform:translateY(-{up:.0}px)}}", at / length * 100.0);
    }
    let end = shown.len().saturating_sub(ROWS) as f64 * CELL.1;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xml:space=\"preserve\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         role=\"img\" aria-label=\"A terminal in which butlerd demo runs\">\n<style>\
         text{{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}}\
         .p{{fill:#7ee787;font-weight:bold}}.h{{fill:#79c0ff;font-weight:bold}}.d{{fill:#6e7681}}.c{{fill:#d2a8ff}}\
         @keyframes show{{from{{opacity:0}}to{{opacity:1}}}}@keyframes up{{0%{{transform:none}}{scroll}}}\
         .l text{{animation:show .01s both}}.l{{transform:translateY(-{end:.0}px);animation:up {length:.2}s steps(1,end)}}\
         @media (prefers-reduced-motion:reduce){{.l,.l text{{animation:none}}}}\
         </style>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n\
         <circle cx=\"18\" cy=\"17\" r=\"5\" fill=\"#ff5f56\"/><circle cx=\"36\" cy=\"17\" r=\"5\" fill=\"#ffbd2e\"/>\
         <circle cx=\"54\" cy=\"17\" r=\"5\" fill=\"#27c93f\"/>\n\
         <svg x=\"16\" y=\"38\" width=\"{:.0}\" height=\"{:.0}\"><g class=\"l\">\n",
        width - 32.0,
        ROWS as f64 * CELL.1 + 6.0,
    );
    for (n, (at, line)) in shown.iter().enumerate() {
        let below = shown.get(n + 1).map_or("", |(_, line)| line);
        let y = (n + 1) as f64 * CELL.1 - 4.0;
        let (class, text) = (class(n, line, below), escaped(&cut(line)));
        let _ = writeln!(svg, "<text{class} y=\"{y:.0}\" style=\"animation-delay:{at:.2}s\">{text}</text>");
    }
    svg + "</g></svg>\n</svg>\n"
}

fn class(n: usize, line: &str, below: &str) -> &'static str {
    let ruled = |line: &str| line.len() > 3 && line.bytes().all(|b| b == b'-');
    match line {
        _ if n == 0 => " class=\"p\"",
        _ if ruled(below) => " class=\"h\"",
        line if ruled(line) => " class=\"d\"",
        line if line.contains(" ms  calls ") => " class=\"c\"",
        _ => "",
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(COLUMNS - 1) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The text of a line of the picture, but for the prompt.
fn text_of(line: &str) -> Option<String> {
    let text = line.strip_prefix("<text")?.split_once('>')?.1.strip_suffix("</text>")?;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    (!text.starts_with("$ ")).then_some(text)
}
