//! The roster's SQL and requests, as far as they can be judged without a database or a network.

use super::{ButlerContents, finding, in_file};
use config::{Finding, Place};
use store::rules;
use tools::{http, sql};

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let dir = &known.butler.dir;
    let wrong = sql::load_dir(&dir.join("tools"), sql::Use::Tool).err();
    let asking = http::load_dir(&dir.join("tools")).err();
    let pages = sql::load_pages(&dir.join("api")).err();
    let tools = wrong.into_iter().chain(asking).chain(pages).flatten().map(in_file);
    let migrations = rules::broken(&dir.join("migrations")).into_iter();
    tools.chain(migrations.map(|b| finding(Place::Line(b.file, b.line), b.problem, b.expected))).collect()
}
