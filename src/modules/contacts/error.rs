//! Why an address book can't be read or written.

use dav::DavError;

/// Why an address book can't be read or written: a sentence for its owner.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum BookError {
    #[error(transparent)]
    Dav(#[from] DavError),
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
            Self::Files(_) | Self::Which(_) => false,
        }
    }
}
