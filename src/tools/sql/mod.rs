//! Tools, jobs and pages that a roster declares in SQL: `roster/<butler>/tools/<tool>.sql`, `jobs/<job>.sql` and
//! `api/<page>.sql`, each a YAML header and one statement. And the crate's own statements, one file for each table.
//!
//! The statement's parameters are bound, never pasted. Everything is checked at boot, under the butler's own role, so
//! that a wrong column fails with file and line before a model can meet it.

pub mod audited;
pub mod blobs;
pub mod call_undos;
pub mod calls;
mod card;
mod header;
mod job;
pub(crate) mod notes;
mod page;
mod page_files;
pub(crate) mod record;
mod rights;
pub mod state;
mod statement;
mod tool;
pub mod undo;
mod values;

pub use card::{Card, CardKind, Unit};
pub use header::{Header, Notify, PageHead, Returns, Then, Use};
pub use job::{JobError, SqlJob, check_jobs, prepare_jobs};
pub use page::{ButlerPage, PageError, PageRows, Pages};
pub use page_files::load_pages;
pub use record::objects;
pub use rights::refused;
pub use statement::Statement;
pub use tool::{load_dir, prepare};
