//! Texts to vectors: one trait, and who keeps to it.
//!
//! A vector is a row of `i8` whose direction alone counts: each text's numbers are scaled so that the largest is 127.

mod endpoint;
mod fixed;
#[cfg(feature = "local-embedding")]
mod local;

use async_trait::async_trait;

pub use endpoint::Endpoint;
pub use fixed::Fixed;
#[cfg(feature = "local-embedding")]
pub use local::Local;

/// What the directory of a local model must have.
pub const LOCAL_FILES: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

/// Makes vectors of texts.
#[async_trait]
pub trait Embedder: Send + Sync {
    /// The model's name. Every vector carries it, and only vectors of one model are compared.
    fn model(&self) -> &str;

    /// How many numbers a vector has.
    fn dim(&self) -> usize;

    /// A vector for each text, in their order.
    async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, EmbedError>;
}

/// Why there is no vector.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    #[error("the embedding model compiled in can't be read: {0}")]
    Model(String),
    #[error("no embedding from {url}: {why}")]
    Endpoint { url: String, why: String },
    #[cfg(feature = "local-embedding")]
    #[error("no embedding from the local model: {0}")]
    Local(String),
}

/// Scales a vector so that its largest number is 127. What has no direction becomes zeros.
pub fn quantised(vector: &[f32]) -> Vec<i8> {
    let largest = vector.iter().map(|x| x.abs()).fold(0.0, f32::max);
    if !largest.is_normal() {
        return vec![0; vector.len()];
    }
    // From float to whole number Rust saturates; NaN becomes 0.
    vector.iter().map(|x| (x * (127.0 / largest)).round() as i8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_becomes_127_and_directions_stay() {
        assert_eq!(quantised(&[0.5, -1.0, 0.0]), [64, -127, 0]);
        assert_eq!(quantised(&[0.001, 0.0005]), [127, 64]);
        assert_eq!(quantised(&[0.0, 0.0]), [0, 0]);
        assert_eq!(quantised(&[f32::INFINITY, 1.0]), [0, 0]);
    }
}
