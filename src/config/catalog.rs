//! What a roster is checked against beyond its own files: the modules of this build.

use std::path::PathBuf;

use serde_json::Value as Json;

use super::butler::ButlerConfig;
use super::section::KeyMistake;

/// What this build can do, as far as a configuration depends on it.
pub trait Catalog {
    /// Whether this build has the module. A butler's own module (`[modules.<butler>]`) is never asked for here.
    fn module(&self, name: &str) -> bool;

    /// Mistakes in a module's settings, their keys relative to `modules.<name>`. Also called for a butler's own module.
    fn check_module(&self, butler: &str, name: &str, table: &Json) -> Vec<KeyMistake>;

    /// Mistakes that show only where a butler's settings and the files of its directory are seen together. Asked where
    /// nothing else is wrong.
    fn check_butler(&self, _: &ButlerConfig) -> Vec<Finding> {
        Vec::new()
    }
}

/// A mistake that [`Catalog::check_butler`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub place: Place,
    pub problem: String,
    pub expected: String,
}

/// Where a mistake is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A key of `butler.toml`, segment by segment; a number is a place in a list.
    Key(Vec<String>),
    /// A line of a file of the roster.
    Line(PathBuf, usize),
}
