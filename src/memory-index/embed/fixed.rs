//! The model compiled in: a vector for each of 29,525 word pieces, a text's is their weighted mean.

use std::sync::OnceLock;

use async_trait::async_trait;
use model2vec_rs::model::StaticModel;

use super::{EmbedError, Embedder, quantised};

const TOKENIZER: &[u8] = include_bytes!("../model/tokenizer.json");
const WEIGHTS: &[u8] = include_bytes!("../model/model.safetensors");
const CONFIG: &[u8] = include_bytes!("../model/config.json");

/// The static model. It is read at first use, once in a process; a text takes microseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fixed;

impl Fixed {
    pub const MODEL: &'static str = "static256-i8";
    pub const DIM: usize = 256;

    /// The vector of a text, at once: nothing here waits.
    pub fn vector(text: &str) -> Result<Vec<i8>, EmbedError> {
        Ok(quantised(&model()?.encode_single(text)))
    }
}

#[async_trait]
impl Embedder for Fixed {
    fn model(&self) -> &str {
        Self::MODEL
    }

    fn dim(&self) -> usize {
        Self::DIM
    }

    async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, EmbedError> {
        texts.iter().map(|text| Self::vector(text)).collect()
    }
}

fn model() -> Result<&'static StaticModel, EmbedError> {
    static MODEL: OnceLock<Result<StaticModel, String>> = OnceLock::new();
    let read = || StaticModel::from_bytes(TOKENIZER, WEIGHTS, CONFIG, Some(true)).map_err(|e| format!("{e:#}"));
    MODEL.get_or_init(read).as_ref().map_err(|why| EmbedError::Model(why.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str) -> f32 {
        let (a, b) = (Fixed::vector(a).unwrap(), Fixed::vector(b).unwrap());
        let product = |a: &[i8], b: &[i8]| a.iter().zip(b).map(|(a, b)| f32::from(*a) * f32::from(*b)).sum::<f32>();
        product(&a, &b) / (product(&a, &a) * product(&b, &b)).sqrt()
    }

    #[test]
    fn what_means_alike_lies_near() {
        assert_eq!(Fixed::vector("tea").unwrap().len(), Fixed::DIM);
        assert!(
            cosine("She bought a new car", "the automobile was purchased")
                > cosine("She bought a new car", "banana bread recipe")
        );
        assert!(cosine("doctor", "physician") > 0.5 && cosine("doctor", "gravel") < 0.3);
        assert_eq!(Fixed::vector("").unwrap(), [0; Fixed::DIM]);
    }
}
