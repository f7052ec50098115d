//! `butlerd backup` and `butlerd restore`

use std::future::Future;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::common::PostgresArgs;
use super::out::{Out, Tone};
use super::problem::{FAILED, Problem};
use super::text::{count, sentence, size};
use super::{Outcome, Place, runtime};
use base::Clock;
use config::{Config, Overrides, load_config};
use offline::backup::{BackupError, Summary, Where};

/// `backup`
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The file to write; it appears once all of it is on the disk
    pub file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// The master key, if it is not in the data directory
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// As of the moment that another transaction exported with pg_export_snapshot()
    #[arg(long, value_name = "ID", hide = true)]
    pub snapshot: Option<String>,
    #[command(flatten)]
    pub postgres: PostgresArgs,
}

/// `restore`
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// What `butlerd backup` wrote
    pub file: PathBuf,
    /// The master key under which it was written; a copy is put into the data directory
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Read all of it and say what is in it; change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub postgres: PostgresArgs,
}

impl From<BackupError> for Problem {
    fn from(error: BackupError) -> Self {
        let said = error.to_string();
        Problem::new(FAILED, error.code(), format!("{}.", sentence(said.trim_end_matches('.'))), error.next())
    }
}

pub fn backup(place: Place, args: BackupArgs) -> Outcome {
    let (config, out) = settings(place, args.postgres)?;
    let from = Where { key: args.key, ..Where::of(&config) };
    let clock = Clock::default();
    let summary = run(offline::backup::backup(&from, &args.file, args.force, args.snapshot.as_deref(), &clock))?;
    let key = summary.master_key.display();
    let reminder = format!(
        "The master key {key} is not in it: keep a copy of that key apart from it. Nothing else can read this file."
    );
    if out.json {
        let mut shown = json!(summary);
        shown["reminder"] = json!(reminder);
        out.value(&shown);
        return Ok(0);
    }
    out.line(&format!("{} {}", out.paint(Tone::Good, "Backed up:"), told(&summary)));
    out.line(&out.paint(Tone::Warn, &reminder));
    out.line("Roster and settings are files of yours, and not in it either.");
    Ok(0)
}

pub fn restore(place: Place, args: RestoreArgs) -> Outcome {
    let (config, out) = settings(place, args.postgres)?;
    let into = Where { key: args.key, ..Where::of(&config) };
    if args.dry_run {
        let summary = offline::backup::examine(&into, &args.file)?;
        show(&out, &summary, "Whole and readable:");
        return Ok(0);
    }
    let summary = run(offline::backup::restore(&into, &args.file))?;
    show(&out, &summary, "Restored:");
    if !out.json {
        out.line(&out.paint(Tone::Warn, &after_the_backup(&config.daemon.data_dir)));
        out.line(&format!(
            "The master key is {}. Start the household with `butlerd serve`.",
            summary.master_key.display()
        ));
    }
    Ok(0)
}

fn show(out: &Out, summary: &Summary, word: &str) {
    match out.json {
        true => out.value(summary),
        false => out.line(&format!("{} {}", out.paint(Tone::Good, word), told(summary))),
    }
}

/// What a restore brings back that was taken out of the household after the backup.
fn after_the_backup(data_dir: &std::path::Path) -> String {
    let purged = data_dir.join(memory::PURGED);
    match purged.is_dir() {
        true => format!(
            "Memories that were purged after that moment are purged again at the start, as {} says.",
            purged.display()
        ),
        false => format!(
            "Memories that were purged after that moment are in it again: purge them anew, or lay the household's directory \
             `{}` into the data directory before you start it.",
            memory::PURGED
        ),
    }
}

/// What a backup holds, in a sentence.
fn told(summary: &Summary) -> String {
    let (file, counts) = (summary.file.display(), summary.counts);
    let rows = count(usize::try_from(counts.rows).unwrap_or(usize::MAX), "row");
    let size = size(summary.bytes);
    let (tables, butlers) = (count(counts.tables, "table"), count(summary.butlers.len(), "butler"));
    let at = summary.created_at.strftime("%Y-%m-%d %H:%M:%S UTC");
    format!("{file} ({size}), {rows} in {tables} of {butlers}, as of {at}.")
}

fn settings(place: Place, postgres: PostgresArgs) -> Result<(Config, Out), Problem> {
    let overrides = Overrides { pg_bin: postgres.pg_bin, pg_bundle: postgres.pg_bundle, ..place.overrides };
    Ok((load_config(&overrides, &place.environment)?, place.out))
}

/// Runs `work` to its end; Ctrl-C and SIGTERM give it up in good order.
fn run<T>(work: impl Future<Output = Result<T, BackupError>>) -> Result<T, Problem> {
    runtime()?.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
        let told = async {
            match terminate.as_mut() {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            done = work => done.map_err(Problem::from),
            _ = tokio::signal::ctrl_c() => Err(given_up()),
            () = told => Err(given_up()),
        }
    })
}

fn given_up() -> Problem {
    Problem::new(FAILED, "given_up", "Given up; nothing was written and nothing restored.", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_a_sentence_with_what_to_do() {
        let problem = Problem::from(BackupError::Nothing("the data directory /d".into()));
        assert_eq!(problem.message, "There is no household in the data directory /d yet.");
        assert_eq!((problem.exit, problem.code.as_str()), (FAILED, "nothing"));
        let broken = BackupError::Broken { file: "a.backup".into(), problem: offline::backup::SealError::Cut(7) };
        let problem = Problem::from(broken);
        assert_eq!(problem.message, "a.backup is cut off after 7 bytes; nothing was restored.");
        assert!(!problem.next.is_empty());
    }
}
