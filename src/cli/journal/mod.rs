//! `butlerd journal`: a person's side of the journal. The daemon keeps it and is asked over its journal socket; files that
//! belong to the person are read and written here, with the person's rights.

mod accept;
mod access;
mod args;
mod client;
mod init;
mod migrate;
mod print;
mod status;
mod sync;

pub use args::JournalArgs;

use super::local::data_dir;
use super::{Outcome, Place};
use args::Journal;
use client::JournalClient;
use journal::wire::{Checked, Checkpoint, FileText, Op, Rotated, Said, Undone};

/// Which file is shown where none is named.
const CORE: &str = "core.md";

/// `butlerd journal`
pub fn run(place: &Place, JournalArgs { what, butler }: JournalArgs) -> Outcome {
    let client = JournalClient::new(data_dir(place)?, butler.map(|butler| butler.to_string()));
    let out = &place.out;
    match what {
        Journal::Init(args) => init::init(&client, out, &args),
        Journal::Status => status::show(place, &client),
        Journal::Sync(args) => sync::run(place, &client, &args),
        Journal::Checkpoint { end, summary } => {
            let made: Checkpoint = client.ask(Op::Checkpoint { end, summary })?;
            out.answer(&made, print::checkpoint)
        }
        Journal::Rotate => {
            let rotated: Rotated = client.ask(Op::Rotate)?;
            out.answer(&rotated, |out, rotated| rotated.lines.iter().for_each(|line| out.line(line)))
        }
        Journal::Check => {
            let checked: Checked = client.ask(Op::Check)?;
            out.answer(&checked, print::checked)?;
            Ok(i32::from(!checked.ok))
        }
        Journal::Show { file } => {
            let shown: FileText = client.ask(Op::Show { file: file.unwrap_or_else(|| CORE.to_owned()) })?;
            out.answer(&shown, print::file)
        }
        Journal::Log { most } => {
            let said: Vec<Said> = client.ask(Op::Log { most })?;
            out.list(&said, &[], print::log)
        }
        Journal::Checkpoints { most } => {
            let all: Vec<Checkpoint> = client.ask(Op::Checkpoints { most, before: None })?;
            out.list(&all, &[], print::checkpoints)
        }
        Journal::Accept(args) => accept::run(place, &client, &args),
        Journal::Undo { dry_run } => {
            let undone: Undone = client.ask(Op::Undo { dry_run })?;
            out.answer(&undone, |out, undone| print::undone(out, undone, dry_run))
        }
        Journal::Migrate(args) => migrate::run(&client, out, &args),
        Journal::InstallHooks(args) => init::hooks(&client, out, &args),
    }
}
