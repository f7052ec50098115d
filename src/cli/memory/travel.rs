//! `butlerd memory export` and `import`: all that a butler remembers, as lines of JSON.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::Outcome;
use super::super::lines;
use super::super::problem::{FAILED, Problem};
use super::super::text::count;
use super::RememberingButler;

/// So many lines are asked for, or handed in, at once; an episode can be long.
const PAGE: usize = 200;

pub async fn export(house: &RememberingButler<'_>, file: Option<&Path>) -> Outcome {
    let out = &house.caller.out;
    let Some(path) = file.filter(|file| *file != Path::new("-")) else {
        // The lines are the answer, for programs as for people.
        pages(house, &mut |line| {
            out.record(line);
            Ok(())
        })
        .await?;
        return Ok(0);
    };
    let cant = |e: std::io::Error| {
        let next = if e.kind() == std::io::ErrorKind::AlreadyExists {
            "Name a file that does not exist yet."
        } else {
            "Name another file."
        };
        Problem::new(FAILED, "file", format!("{} can't be written: {e}.", path.display()), next)
    };
    use std::os::unix::fs::OpenOptionsExt;
    // It is all that somebody told a butler.
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(cant)?;
    let mut to = BufWriter::new(opened);
    let written = pages(house, &mut |line| writeln!(to, "{line}").map_err(cant)).await;
    let written = match written.and_then(|n| to.flush().map_err(cant).map(|()| n)) {
        Ok(written) => written,
        Err(problem) => {
            // Half an export would pass for a whole one.
            let _ = std::fs::remove_file(path);
            return Err(problem);
        }
    };
    out.answer(&json!({"butler": house.butler, "file": path, "lines": written}), |out, _| {
        out.line(&format!("{} of {} are in {}.", count(written, "line"), house.butler, path.display()));
    })
}

/// What `memory_export` answers.
#[derive(Deserialize)]
struct Page {
    lines: Vec<Value>,
    next: Option<String>,
}

/// How many lines of each kind came to what.
type Outcomes = BTreeMap<String, BTreeMap<String, u64>>;

/// What `memory_import` answers.
#[derive(Deserialize)]
struct Imported {
    outcomes: Outcomes,
}

async fn pages(
    house: &RememberingButler<'_>,
    take: &mut dyn FnMut(&Value) -> Result<(), Problem>,
) -> Result<usize, Problem> {
    let (mut after, mut written) = (None::<String>, 0);
    loop {
        let page: Page = house.call("memory_export", json!({"limit": PAGE, "after": after})).await?;
        written += page.lines.len();
        page.lines.iter().try_for_each(&mut *take)?;
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(written),
        }
    }
}

pub async fn import(house: &RememberingButler<'_>, file: &Path) -> Outcome {
    let out = &house.caller.out;
    let mut given = lines::of(Some(file))?;
    let mut outcomes = Outcomes::new();
    let (mut page, mut first, mut read) = (Vec::new(), 1, 0);
    loop {
        let next = given.recv().await;
        if let Some(line) = next {
            let (number, line) = line.map_err(|e| {
                Problem::usage(
                    format!("The lines can't be read: {e}."),
                    "Give a file that `butlerd memory export` wrote.",
                )
            })?;
            page.push(line.trim_end().to_owned());
            read = number;
            if page.len() < PAGE {
                continue;
            }
        } else if page.is_empty() {
            break;
        }
        hand_in(house, &page, first, &mut outcomes).await?;
        page.clear();
        first = read + 1;
    }
    let sum = |outcome: &str| outcomes.values().filter_map(|of| of.get(outcome)).sum::<u64>();
    out.answer(&json!({"butler": house.butler, "lines": read, "outcomes": outcomes}), |out, _| {
        out.line(&format!("{} brought in of {}; {} were there.", sum("added"), count(read, "line"), sum("there")));
        if sum("forgotten") > 0 {
            out.line(&format!("{} were forgotten here on purpose, and stay so.", sum("forgotten")));
        }
        if sum("taken") > 0 {
            out.line(&format!("{} contradict what holds here, which stays.", sum("taken")));
        }
    })
}

async fn hand_in(
    house: &RememberingButler<'_>,
    page: &[String],
    first: usize,
    outcomes: &mut Outcomes,
) -> Result<(), Problem> {
    let done: Imported = house.call("memory_import", json!({"lines": page})).await.map_err(|problem| {
        // The tool counts within the page.
        let told = problem.message.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        let Some((number, why)) = told.and_then(|(n, why)| Some((n.parse::<usize>().ok()?, why))) else {
            return problem;
        };
        let before = match first {
            1 => "Nothing was brought in.".to_owned(),
            _ => format!("The lines before {first} are in; the same file can be brought in again."),
        };
        let message = format!("Line {}: {why}. {before}", number + first - 1);
        Problem::new(FAILED, &problem.code, message, "Correct the line, or remove it.")
    })?;
    for (kind, of) in done.outcomes {
        let sums = outcomes.entry(kind).or_default();
        of.into_iter().for_each(|(outcome, n)| *sums.entry(outcome).or_default() += n);
    }
    Ok(())
}
