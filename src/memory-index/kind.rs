//! The kinds of memories.

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

/// What kind of memory it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(IntoStaticStr, EnumString, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Kind {
    /// Something that was said or done.
    Episode,
    /// Something that is so.
    Fact,
    /// Something to keep to.
    Rule,
}

base::named!(Kind, from_name);

impl Kind {
    pub const ALL: &'static [Self] = Self::VARIANTS;
}
