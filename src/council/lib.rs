//! A council of models, as far as it is words and numbers: what each is asked, how answers are labelled without names,
//! how rankings are read and joined, and whether what is remembered is good enough to be the answer. Pure: no sessions,
//! no database.

pub mod anonymous;
pub mod episode;
pub mod gate;
pub mod import;
pub mod prompts;
pub mod ranking;
