//! A value that never prints itself.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// Holds a secret: `Debug` hides it, dropping it overwrites it, reading it is visible in the code as `expose`.
#[derive(Clone)]
pub struct Secret<T: Zeroize>(T);

impl<T: Zeroize> Secret<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }
    /// The value itself. Every call is a place to look at.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize + AsRef<[u8]>> Secret<T> {
    /// Compares without telling by its duration where the two differ.
    pub fn same_as(&self, other: &[u8]) -> bool {
        self.0.as_ref().ct_eq(other).into()
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl<T: Zeroize> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl From<String> for Secret<String> {
    fn from(s: String) -> Self {
        Self(s)
    }
}
