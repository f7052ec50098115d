//! What memory needs to know of texts, and no database: their plain form, the words of facts, vectors, whether two
//! texts say the same, and the index that finds memories.

mod calendar;
pub mod embed;
mod kind;
pub mod predicates;
pub mod rank;
pub mod same;
pub mod text;

pub use kind::Kind;
