//! Butlers that are shipped, and off until somebody wants them.

use std::path::PathBuf;

use super::SetupError;
use super::place::{is_there, whole_directory};
use super::shipped::unpack_hidden;
use config::{Environment, Overrides, load_config};

/// Who remembers projects for coding assistants. A roster that has no such directory has it off.
pub const WORKSHOP: &str = "workshop";
/// Who has several models deliberate.
pub const COUNCIL: &str = "council";

/// Puts such a butler into the household's roster. Returns its directory; none where it is there already.
///
/// # Errors
///
/// [`SetupError`] where there is no roster, or it can't be written.
pub fn switch_on(
    butler: &str,
    overrides: &Overrides,
    environment: &Environment,
    dry_run: bool,
) -> Result<Option<PathBuf>, SetupError> {
    let config = load_config(overrides, environment).map_err(|e| {
        SetupError::failed(format!("The household's settings can't be read: {e}."), "butlerd check shows each mistake.")
    })?;
    let roster = config.daemon.roster;
    if !roster.is_dir() {
        return Err(SetupError::failed(
            format!("There is no roster at {}, so there is no household for the butler `{butler}`.", roster.display()),
            "Say which household it is with --config or --roster, or make one with butlerd init.",
        ));
    }
    let dir = roster.join(butler);
    if is_there(&dir) {
        return Ok(None);
    }
    if !dry_run {
        whole_directory(&dir, |at| unpack_hidden(butler, at))?;
    }
    Ok(Some(dir))
}
