//! `butlerd completions` and `butlerd man`: what shells and `man` know of the commands.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::problem::{FAILED, Problem};
use super::{Outcome, Place};

/// `completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Of which shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// `man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write a page of each command into this directory, instead of printing the first one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

pub fn completions(mut commands: Command, args: &CompletionsArgs) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut commands, "butlerd", &mut script);
    print(&script)
}

pub fn man(commands: Command, place: &Place, args: &ManArgs) -> Outcome {
    let failed = |what: String| move |e: std::io::Error| Problem::new(FAILED, "file", format!("{what}: {e}."), "");
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        let rendered = Man::new(commands).render(&mut page);
        rendered.map_err(failed("The page can't be made".to_owned()))?;
        return print(&page);
    };
    let made = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(commands, dir));
    made.map_err(failed(format!("The pages can't be written into {}", dir.display())))?;
    place.out.answer(&serde_json::json!({ "dir": dir }), |out, _| {
        out.line(&format!("The pages are in {}; see: man {}", dir.display(), dir.join("butlerd.1").display()));
    })
}

fn print(bytes: &[u8]) -> Outcome {
    let mut stdout = std::io::stdout().lock();
    // Its reader may be gone, and has had enough then.
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    Ok(0)
}
