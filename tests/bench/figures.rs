//! What a run measured, kept beside those before it: `bench/history.jsonl` has a line for each run in full form, and
//! `docs/figures.svg` shows them (`just bench-plot`).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Failed, Plan};

/// One figure of a run.
#[derive(Clone, Serialize, Deserialize)]
pub struct Figure {
    /// `part.what`, the same in each run.
    pub name: String,
    pub value: f64,
    /// Behind a comma, which of the values it is: `ms, p50`.
    pub unit: String,
    /// `at most 5`; none where nothing was promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

/// A run in full form.
#[derive(Serialize, Deserialize)]
struct Run {
    /// RFC 3339.
    at: String,
    /// Of the sources; with a `+` where they had been changed since. `unknown` without git.
    commit: String,
    machine: String,
    /// As `BENCH_ONLY` named them, or `all`.
    parts: String,
    figures: Vec<Figure>,
}

static FIGURES: Mutex<Vec<Figure>> = Mutex::new(Vec::new());

/// Notes a figure of this run.
pub fn keep(name: &str, value: f64, unit: &str, target: Option<(String, bool)>) {
    let (target, met) = target.map_or((None, None), |(target, met)| (Some(target), Some(met)));
    let figure = Figure { name: name.to_owned(), value, unit: unit.to_owned(), target, met };
    FIGURES.lock().unwrap_or_else(PoisonError::into_inner).push(figure);
}

/// Where runs are kept: in the repository, or where `BENCH_HISTORY` says.
fn place() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/history.jsonl");
    std::env::var_os("BENCH_HISTORY").filter(|v| !v.is_empty()).map_or_else(own, PathBuf::from)
}

fn git(arguments: &[&str]) -> Option<String> {
    let done = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

fn commit() -> String {
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    // What the bench writes itself is no change of the sources.
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ":!bench", ":!docs"]);
    if changed.is_some_and(|changed| changed.is_empty()) { head } else { format!("{head}+") }
}

/// Ends a run: keeps its figures and says which targets it missed.
///
/// # Errors
/// In full form, that one was missed.
pub fn close(plan: &Plan, machine: &str, parts: &str) -> Result<(), Failed> {
    let figures = std::mem::take(&mut *FIGURES.lock().unwrap_or_else(PoisonError::into_inner));
    if figures.is_empty() {
        return Ok(());
    }
    let missed: Vec<&str> = figures.iter().filter(|f| f.met == Some(false)).map(|f| f.name.as_str()).collect();
    let targets = figures.iter().filter(|f| f.met.is_some()).count();
    println!("\n{} of {targets} targets are met", targets - missed.len());
    let missed = missed.join(", ");
    if plan.is_quick() {
        if !missed.is_empty() {
            println!("missed, in the short form, which promises nothing: {missed}");
        }
        return Ok(());
    }
    let run = Run {
        at: jiff::Timestamp::now().round(jiff::Unit::Second)?.to_string(),
        commit: commit(),
        machine: machine.to_owned(),
        parts: if parts.is_empty() { "all".to_owned() } else { parts.to_owned() },
        figures,
    };
    let place = place();
    if let Some(dir) = place.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&place)?;
    file.write_all(format!("{}\n", serde_json::to_string(&run)?).as_bytes())?;
    println!("kept in {}", place.display());
    if missed.is_empty() { Ok(()) } else { Err(format!("missed: {missed}").into()) }
}

/// The picture's measures, in pixels.
const WIDTH: usize = 300;
const HEIGHT: usize = 84;
const ACROSS: usize = 3;
/// Runs that are shown of each figure.
const MOST: usize = 40;

/// Draws each figure that has a target over the runs: `docs/figures.svg`, or the file that is named.
pub fn plot(rest: &[String]) -> Result<(), Failed> {
    let text = std::fs::read_to_string(place())?;
    let runs: Vec<Run> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let mut all: BTreeMap<&str, Vec<(&Figure, &Run)>> = BTreeMap::new();
    for run in &runs {
        for figure in run.figures.iter().filter(|figure| figure.met.is_some()) {
            all.entry(&figure.name).or_default().push((figure, run));
        }
    }
    let rows = all.len().div_ceil(ACROSS);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"11\">\n",
        ACROSS * WIDTH,
        rows * HEIGHT
    );
    for (n, (name, points)) in all.iter().enumerate() {
        let points = &points[points.len().saturating_sub(MOST)..];
        svg.push_str(&cell(name, points, ((n % ACROSS) * WIDTH, (n / ACROSS) * HEIGHT)));
    }
    svg.push_str("</svg>\n");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/figures.svg");
    let to = rest.first().map_or(own, PathBuf::from);
    std::fs::write(&to, svg)?;
    println!("{} figures of {} runs: {}", all.len(), runs.len(), to.display());
    Ok(())
}

/// One figure: its name, its last value and target, and its way there; the target is a dashed line.
fn cell(name: &str, points: &[(&Figure, &Run)], (left, top): (usize, usize)) -> String {
    let Some((last, run)) = points.last() else { return String::new() };
    let target = last.target.as_deref().and_then(|target| target.split(' ').nth(2)?.parse::<f64>().ok());
    let most = points.iter().map(|(figure, _)| figure.value).chain(target).fold(f64::MIN_POSITIVE, f64::max);
    let (from, to) = (top as f64 + 34.0, top as f64 + HEIGHT as f64 - 8.0);
    let y = |value: f64| to - (to - from) * (value / most).clamp(0.0, 1.0);
    let step = (WIDTH as f64 - 30.0) / points.len().saturating_sub(1).max(1) as f64;
    let x = |n: usize| left as f64 + 8.0 + step * n as f64;
    let line: Vec<String> =
        points.iter().enumerate().map(|(n, (figure, _))| format!("{:.1},{:.1}", x(n), y(figure.value))).collect();
    let color = if last.met == Some(true) { "#1a7f37" } else { "#b42318" };
    let (at, value) = (points.len() - 1, last.value);
    let dashed = target.map_or_else(String::new, |target| {
        let (begin, end) = (left + 8, left + WIDTH - 22);
        let at = y(target);
        format!("<path d=\"M{begin} {at:.1}H{end}\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>\n")
    });
    format!(
        "<text x=\"{}\" y=\"{}\" fill=\"#444\">{name}</text>\n\
         <text x=\"{}\" y=\"{}\" fill=\"{color}\">{value:.2} {}, {} ({})</text>\n\
         {dashed}<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\"/>\n\
         <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{color}\"/>\n",
        left + 8,
        top + 14,
        left + 8,
        top + 28,
        last.unit,
        last.target.as_deref().unwrap_or_default(),
        run.commit,
        line.join(" "),
        x(at),
        y(value),
    )
}
