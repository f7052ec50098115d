//! The roster's SQL, as far as it can be judged without a database.

use super::{ButlerContents, finding, in_file};
use config::{Finding, Place};
use store::rules;
use tools::sql;

pub(super) fn check(known: &ButlerContents<'_>) -> Vec<Finding> {
    let dir = &known.butler.dir;
    let wrong = sql::load_dir(&dir.join("tools"), sql::Use::Tool).err();
    let tools = wrong.into_iter().flatten().map(in_file);
    let migrations = rules::broken(&dir.join("migrations")).into_iter();
    tools.chain(migrations.map(|b| finding(Place::Line(b.file, b.line), b.problem, b.expected))).collect()
}
