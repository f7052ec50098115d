//! A model in the shape of BERT, such as all-MiniLM-L6-v2, run by the daemon itself. In builds with `local-embedding`.
//!
//! Texts are taken one by one, in the order in which they were asked for: a question waits for one text of whoever has
//! many, and a text has the same vector whatever stands beside it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokenizers::{Tokenizer, TruncationParams};
use tokio::sync::Semaphore;

use super::{EmbedError, Embedder, LOCAL_FILES, quantised};

/// What a text has beyond it is not looked at: these models were taught on no more, and the work grows with its square.
const MOST_TOKENS: usize = 256;
/// Bytes of a text that are split into tokens at all.
const LONGEST: usize = 16 << 10;
/// Says, in directories of sentence models, which of the tokens' vectors make the text's.
const POOLING: &str = "1_Pooling/config.json";
/// A model of more bytes is none of this kind.
const LARGEST: u64 = 2 << 30;

/// One model of one directory. Butlers with the same files share what is in memory.
pub struct Local {
    bert: Arc<Bert>,
}

struct Bert {
    name: String,
    dim: usize,
    tokenizer: Tokenizer,
    model: BertModel,
    /// One text at a time; whoever waits longest is next.
    turn: Arc<Semaphore>,
}

impl Local {
    /// Reads the model of a directory, unless some butler has it already, and lets it do one text.
    pub async fn open(dir: &Path) -> Result<Self, EmbedError> {
        let dir = dir.to_owned();
        let opened = tokio::task::spawn_blocking(move || Bert::shared(&dir)).await;
        let bert = opened.map_err(|e| e.to_string()).and_then(|bert| bert).map_err(EmbedError::Local)?;
        Ok(Self { bert })
    }

    async fn vector(&self, text: &str) -> Result<Vec<i8>, String> {
        let turn = self.bert.turn.clone().acquire_owned().await.map_err(|e| e.to_string())?;
        let (bert, text) = (self.bert.clone(), text.to_owned());
        let work = tokio::task::spawn_blocking(move || {
            // It is given back by whoever works, not by whoever waits and may have gone away.
            let _turn = turn;
            bert.numbers(&text)
        });
        Ok(quantised(&work.await.map_err(|e| e.to_string())??))
    }
}

#[async_trait]
impl Embedder for Local {
    fn model(&self) -> &str {
        &self.bert.name
    }

    fn dim(&self) -> usize {
        self.bert.dim
    }

    async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            vectors.push(self.vector(text).await.map_err(EmbedError::Local)?);
        }
        Ok(vectors)
    }
}

/// A file of the directory, and its name in front of whatever is wrong with it.
fn read(dir: &Path, file: &str) -> Result<Vec<u8>, String> {
    let path = dir.join(file);
    let said = |why: String| format!("{}: {why}", path.display());
    let size = std::fs::metadata(&path).map_err(|e| said(e.to_string()))?.len();
    if size > LARGEST {
        return Err(said(format!("it has {size} bytes, more than the {LARGEST} that are read")));
    }
    std::fs::read(&path).map_err(|e| said(e.to_string()))
}

impl Bert {
    /// The model of these files, once in the process.
    fn shared(dir: &Path) -> Result<Arc<Self>, String> {
        static KNOWN: Mutex<Vec<Weak<Bert>>> = Mutex::new(Vec::new());
        // Held while the model is read: who comes meanwhile wants the same one.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|bert| bert.strong_count() > 0);
        let [config, tokenizer, weights] = LOCAL_FILES.map(|file| read(dir, file));
        let (config, tokenizer, weights) = (config?, tokenizer?, weights?);
        if let Ok(pooling) = std::fs::read(dir.join(POOLING))
            && serde_json::from_slice::<Value>(&pooling).is_ok_and(|said| said["pooling_mode_mean_tokens"] == false)
        {
            let file = dir.join(POOLING);
            return Err(format!("{}: found a model of another kind, expected the mean of all tokens", file.display()));
        }
        let name = name(dir, &[&config, &tokenizer, &weights]);
        if let Some(there) = known.iter().filter_map(Weak::upgrade).find(|bert| bert.name == name) {
            return Ok(there);
        }
        let bert = Self::new(dir, name, &config, &tokenizer, weights)?;
        bert.numbers("How do you do?").map_err(|e| format!("the model in {} does not work: {e}", dir.display()))?;
        let bert = Arc::new(bert);
        known.push(Arc::downgrade(&bert));
        Ok(bert)
    }

    fn new(dir: &Path, name: String, config: &[u8], tokenizer: &[u8], weights: Vec<u8>) -> Result<Self, String> {
        let [of_config, of_tokenizer, of_weights] =
            LOCAL_FILES.map(|file| move |why: String| format!("{}: {why}", dir.join(file).display()));
        let config = shape(config).map_err(of_config)?;
        let mut tokenizer = Tokenizer::from_bytes(tokenizer).map_err(|e| of_tokenizer(e.to_string()))?;
        if tokenizer.get_vocab_size(true) > config.vocab_size {
            let (has, knows) = (tokenizer.get_vocab_size(true), config.vocab_size);
            return Err(of_tokenizer(format!("it has {has} tokens, and the model of config.json knows {knows}")));
        }
        let max_length = MOST_TOKENS.min(config.max_position_embeddings);
        let truncation = TruncationParams { max_length, ..TruncationParams::default() };
        tokenizer.with_truncation(Some(truncation)).map_err(|e| of_tokenizer(e.to_string()))?;
        tokenizer.with_padding(None);
        let model = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)
            .and_then(|weights| BertModel::load(weights, &config))
            .map_err(|e| of_weights(e.to_string()))?;
        Ok(Self { name, dim: config.hidden_size, tokenizer, model, turn: Arc::new(Semaphore::new(1)) })
    }

    /// The mean of the vectors of a text's tokens, of length one.
    fn numbers(&self, text: &str) -> Result<Vec<f32>, String> {
        let text = &text[..text.floor_char_boundary(LONGEST)];
        let tokens = self.tokenizer.encode(text, true).map_err(|e| e.to_string())?;
        let mut mean = self.mean(tokens.get_ids()).map_err(|e| e.to_string())?;
        let length = mean.iter().map(|n| n * n).sum::<f32>().sqrt();
        if !length.is_normal() {
            return Err("its numbers are none".to_owned());
        }
        mean.iter_mut().for_each(|n| *n /= length);
        Ok(mean)
    }

    fn mean(&self, tokens: &[u32]) -> candle_core::Result<Vec<f32>> {
        let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let each = self.model.forward(&tokens, &tokens.zeros_like()?, None)?;
        each.mean(1)?.squeeze(0)?.to_vec1()
    }
}

/// What vectors carry: another file is another model.
fn name(dir: &Path, files: &[&[u8]]) -> String {
    let mut digest = Sha256::new();
    for file in files {
        digest.update(Sha256::digest(file));
    }
    let digest = base::text::hex(&digest.finalize()[..8]);
    let called = dir.file_name().map_or_else(|| "model".into(), |name| name.to_string_lossy());
    format!("{called}:{digest}")
}

/// The model's shape, if it is one that this code knows.
fn shape(config: &[u8]) -> Result<Config, String> {
    let read: Value = serde_json::from_slice(config).map_err(|e| e.to_string())?;
    match read["model_type"].as_str() {
        None | Some("bert") => {}
        Some(other) => return Err(format!("model_type: found \"{other}\", expected \"bert\"")),
    }
    let config: Config = serde_json::from_value(read).map_err(|e| e.to_string())?;
    let (heads, dim) = (config.num_attention_heads, config.hidden_size);
    if heads == 0 || dim % heads != 0 || !(16..=4096).contains(&dim) {
        return Err(format!("found {dim} numbers in {heads} heads, expected 16 to 4096 in equal parts"));
    }
    if config.max_position_embeddings < 8 {
        let found = config.max_position_embeddings;
        return Err(format!("max_position_embeddings: found {found}, expected at least 8"));
    }
    Ok(config)
}

#[cfg(test)]
mod tests;
