//! Why an address book can't be read or written.

use dav::DavError;
use google::GoogleError;

/// Why an address book can't be read or written: a sentence for its owner.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum BookError {
    #[error(transparent)]
    Dav(#[from] DavError),
    #[error(transparent)]
    Google(#[from] GoogleError),
    #[error("{0}")]
    Files(String),
    /// The settings don't say which one, or name one that isn't there.
    #[error("{0}")]
    Which(String),
}

impl BookError {
    /// Whether it passes by itself.
    pub fn passes(&self) -> bool {
        match self {
            Self::Dav(e) => matches!(
                e,
                DavError::Later { .. }
                    | DavError::Changed { .. }
                    | DavError::TokenExpired { .. }
                    | DavError::Protocol { .. }
            ),
            Self::Google(e) => matches!(
                e,
                GoogleError::Later { .. }
                    | GoogleError::Changed { .. }
                    | GoogleError::Gone { .. }
                    | GoogleError::Protocol { .. }
            ),
            Self::Files(_) | Self::Which(_) => false,
        }
    }
}
