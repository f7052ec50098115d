//! Tools and jobs that a roster declares in SQL: `roster/<butler>/tools/<tool>.sql` and `jobs/<job>.sql`, each a YAML
//! header and one statement.
//!
//! The statement's parameters are bound, never pasted. Everything is checked at boot, under the butler's own role, so
//! that a wrong column fails with file and line before a model can meet it.

mod header;
mod job;
mod rights;
mod statement;
mod tool;
mod values;

pub use header::{Header, Notify, Returns, Then, Use};
pub use job::{JobError, SqlJob, check_jobs, prepare_jobs};
pub use rights::refused;
pub use statement::Statement;
pub use tool::{SqlToolError, load_dir, prepare};
