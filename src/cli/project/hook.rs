//! `butlerd hook EVENT`: what a coding assistant's hooks run, dozens of times in a session.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::panic::catch_unwind;
use std::path::Path;

use base::crash;
use project::hook;

/// The longest input that is read.
const MOST: u64 = 16 << 20;

/// Runs a hook if the program was started for one. Help and flags before the command are for the rest of the program.
pub fn at_once(argv: &[OsString]) -> Option<i32> {
    let (command, words) = argv.get(1..)?.split_first()?;
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    if command != "hook" || words.iter().any(|word| matches!(&**word, "-h" | "--help")) {
        return None;
    }
    let (mut event, mut data_dir) = (None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            _ if word == "--data-dir" => data_dir = words.next().map(|word| &**word),
            Some(("--data-dir", directory)) => data_dir = Some(directory),
            // Whatever else is there, an assistant's work goes on.
            _ if word.starts_with('-') => {}
            _ => event = event.or(Some(&**word)),
        }
    }
    let environment = crate::local::data_dir_of_environment();
    Some(run(event, data_dir.map(Path::new).or(environment.as_deref())))
}

/// Runs a hook. It always ends well: memory that is away is no reason to stop an assistant's work.
pub fn run(event: Option<&str>, data_dir: Option<&Path>) -> i32 {
    let Some(event) = event else {
        eprintln!("butlerd hook: an event is missing. There are: {}", hook::EVENTS.join(", "));
        return 0;
    };
    // A mistake of ours must not look like an answer to the assistant's question, either.
    let said = catch_unwind(|| hook::run(event, standard_input, data_dir)).unwrap_or_default();
    if let Some(said) = said {
        crash::point("hook.answered");
        // Nobody may listen any more: then it was not told.
        let mut stdout = std::io::stdout().lock();
        if writeln!(stdout, "{}", said.line()).and_then(|()| stdout.flush()).is_ok() {
            said.printed();
        }
    }
    0
}

/// Waits for the end of standard input. A terminal has none.
fn standard_input() -> String {
    let (mut input, stdin) = (Vec::new(), std::io::stdin());
    if !stdin.is_terminal() {
        // What was read until then is all there is.
        drop(stdin.lock().take(MOST).read_to_end(&mut input));
    }
    String::from_utf8_lossy(&input).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hook_is_run_at_once() {
        let argv = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in
            ["butlerd", "butlerd status", "butlerd project list", "butlerd hook --help", "butlerd --json hook Stop"]
        {
            assert_eq!(at_once(&argv(line)), None, "{line}");
        }
        assert_eq!(at_once(&argv("butlerd hook")), Some(0));
    }
}
