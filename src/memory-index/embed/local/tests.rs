//! With models of sixteen random numbers a token, which the tests write themselves.

use std::collections::HashMap;

use serde_json::json;
use tempfile::TempDir;

use super::*;

const WORDS: [&str; 12] =
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "tea", "coffee", "the", "cup", "of", "weigh", "##ed", "kilos"];
const DIM: usize = 16;
const POSITIONS: usize = 32;

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 40) as f32 / (1u64 << 24) as f32) - 0.5
    }

    fn tensor(&mut self, shape: &[usize]) -> Tensor {
        let numbers: Vec<f32> = (0..shape.iter().product()).map(|_| self.next()).collect();
        Tensor::from_vec(numbers, shape, &Device::Cpu).unwrap()
    }
}

fn weights(layers: usize, seed: u64) -> HashMap<String, Tensor> {
    let mut numbers = Numbers(seed);
    let mut all = HashMap::new();
    let mut put = |name: String, shape: &[usize]| drop(all.insert(name, numbers.tensor(shape)));
    for (table, rows) in [("word", WORDS.len()), ("position", POSITIONS), ("token_type", 2)] {
        put(format!("embeddings.{table}_embeddings.weight"), &[rows, DIM]);
    }
    let layer = |i: usize| {
        let dense = ["attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"];
        let dense = dense.map(|part| (part, DIM, DIM)).into_iter();
        let wide = [("intermediate.dense", 2 * DIM, DIM), ("output.dense", DIM, 2 * DIM)];
        dense.chain(wide).map(move |(part, to, from)| (format!("encoder.layer.{i}.{part}"), to, from))
    };
    for (part, to, from) in (0..layers).flat_map(layer) {
        put(format!("{part}.weight"), &[to, from]);
        put(format!("{part}.bias"), &[to]);
    }
    let norms =
        (0..layers).flat_map(|i| ["attention.output", "output"].map(|part| format!("encoder.layer.{i}.{part}")));
    for part in norms.chain(["embeddings".to_owned()]) {
        put(format!("{part}.LayerNorm.weight"), &[DIM]);
        put(format!("{part}.LayerNorm.bias"), &[DIM]);
    }
    all
}

/// A directory with a whole model.
fn model(layers: usize, seed: u64) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let vocabulary: HashMap<&str, usize> = WORDS.iter().enumerate().map(|(i, word)| (*word, i)).collect();
    let special = |i: usize| json!({"id": i, "content": WORDS[i], "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
    let tokenizer = json!({
        "version": "1.0", "added_tokens": [special(0), special(1), special(2), special(3)],
        // As shipped with many models: neither is what a memory needs.
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
                    "pad_type_id": 0, "pad_token": "[PAD]"},
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    let config = json!({
        "model_type": "bert", "vocab_size": WORDS.len(), "hidden_size": DIM, "num_hidden_layers": layers,
        "num_attention_heads": 2, "intermediate_size": 2 * DIM, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
        "max_position_embeddings": POSITIONS, "type_vocab_size": 2, "initializer_range": 0.02,
        "layer_norm_eps": 1e-12, "pad_token_id": 0,
    });
    std::fs::write(dir.path().join("config.json"), config.to_string()).unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    candle_core::safetensors::save(&weights(layers, seed), dir.path().join("model.safetensors")).unwrap();
    dir
}

async fn opened(dir: &TempDir) -> Local {
    Local::open(dir.path()).await.unwrap()
}

async fn refused(dir: &TempDir) -> String {
    Local::open(dir.path()).await.err().expect("a refusal").to_string()
}

const TEXTS: [&str; 4] = ["Tea", "the cup of coffee", "", "weighed 80 kilos, the cup of tea!"];

#[tokio::test]
async fn a_text_has_one_vector_whatever_stands_beside_it() {
    let dir = model(2, 7);
    let local = opened(&dir).await;
    let together = local.embed(&TEXTS).await.unwrap();
    let (again, other) = (local.embed(&TEXTS).await.unwrap(), opened(&dir).await);
    assert_eq!(together, again);
    for (text, vector) in TEXTS.iter().zip(&together) {
        assert_eq!(local.embed(&[text]).await.unwrap(), [vector.clone()], "{text}");
        assert_eq!(other.embed(&[text]).await.unwrap(), [vector.clone()], "{text}");
        assert_eq!((vector.len(), local.dim()), (DIM, DIM));
        let numbers = local.bert.numbers(text).unwrap();
        let length: f32 = numbers.iter().map(|n| n * n).sum();
        assert!((length - 1.0).abs() < 1e-5, "{text}: {length}");
        assert_eq!(quantised(&numbers), *vector);
    }
    assert_ne!(together[0], together[1]);
    assert!(local.embed(&[]).await.unwrap().is_empty());
}

/// Without layers a token's vector is its three rows, normalised: the mean can be had by hand.
#[tokio::test]
async fn the_vector_is_the_mean_of_all_tokens() {
    let dir = model(0, 11);
    let rows = weights(0, 11);
    let table = |name: &str| rows[&format!("embeddings.{name}")].to_vec2::<f32>().unwrap();
    let line = |name: &str| rows[&format!("embeddings.LayerNorm.{name}")].to_vec1::<f32>().unwrap();
    let (word, position, kind) =
        (table("word_embeddings.weight"), table("position_embeddings.weight"), table("token_type_embeddings.weight"));
    let (weight, bias) = (line("weight"), line("bias"));
    // [CLS] the cup weigh ##ed [UNK] [SEP]
    let tokens = [2, 6, 7, 9, 10, 1, 3];
    let mut sum = [0f32; DIM];
    for (at, token) in tokens.into_iter().enumerate() {
        let row: Vec<f32> = (0..DIM).map(|i| word[token][i] + position[at][i] + kind[0][i]).collect();
        let mean = row.iter().sum::<f32>() / DIM as f32;
        let spread = (row.iter().map(|n| (n - mean).powi(2)).sum::<f32>() / DIM as f32).sqrt();
        for i in 0..DIM {
            sum[i] += (row[i] - mean) / spread * weight[i] + bias[i];
        }
    }
    let length = sum.iter().map(|n| n * n).sum::<f32>().sqrt();
    let numbers = opened(&dir).await.bert.numbers("The cup WEIGHED gravel").unwrap();
    for (wanted, found) in sum.iter().map(|n| n / length).zip(&numbers) {
        assert!((wanted - found).abs() < 1e-4, "{wanted} {found}");
    }
}

#[tokio::test]
async fn of_a_long_text_its_beginning_counts() {
    let dir = model(1, 3);
    let local = opened(&dir).await;
    let tea = |times: usize| "tea ".repeat(times);
    // The positions of the model are the bound here; two are the frame's.
    let (whole, longer) = (tea(POSITIONS - 2), tea(POSITIONS - 2) + &"kilos ".repeat(10_000) + "é");
    assert_eq!(local.embed(&[&whole]).await.unwrap(), local.embed(&[&longer]).await.unwrap());
    assert_ne!(local.embed(&[&whole]).await.unwrap(), local.embed(&[&(tea(5) + "kilos")]).await.unwrap());
    let cut = "é".repeat(LONGEST);
    assert_eq!(local.embed(&[&cut]).await.unwrap().len(), 1);
}

#[tokio::test]
async fn other_files_are_another_model() {
    let (one, other) = (model(1, 1), model(1, 2));
    let (first, second) = (opened(&one).await, opened(&other).await);
    assert_ne!(first.model(), second.model());
    assert_ne!(first.embed(&["tea"]).await.unwrap(), second.embed(&["tea"]).await.unwrap());
    // Whoever opens the same files has the same model in memory; after a change of a file, another one.
    assert!(Arc::ptr_eq(&first.bert, &opened(&one).await.bert));
    let config = one.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("\"gelu\"", "\"relu\"")).unwrap();
    assert_ne!(first.model(), opened(&one).await.model());
}

#[tokio::test]
async fn wrong_files_are_refused() {
    let broken = |file: &str, text: &str| {
        let dir = model(1, 5);
        std::fs::write(dir.path().join(file), text).unwrap();
        dir
    };
    let changed = |from: &str, to: &str| {
        let dir = model(1, 5);
        let text = std::fs::read_to_string(dir.path().join("config.json")).unwrap();
        assert!(text.contains(from), "{text}");
        broken("config.json", &text.replace(from, to))
    };
    let without = model(1, 5);
    std::fs::remove_file(without.path().join("tokenizer.json")).unwrap();
    let mut short = weights(1, 5);
    short.remove("encoder.layer.0.output.dense.bias");
    let lacking = model(1, 5);
    candle_core::safetensors::save(&short, lacking.path().join("model.safetensors")).unwrap();
    let of_first = model(1, 5);
    std::fs::create_dir(of_first.path().join("1_Pooling")).unwrap();
    std::fs::write(
        of_first.path().join(POOLING),
        r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#,
    )
    .unwrap();
    for (dir, file, why) in [
        (of_first, "1_Pooling/config.json", "expected the mean"),
        (without, "tokenizer.json", "No such file"),
        (broken("tokenizer.json", "{}"), "tokenizer.json", ""),
        (broken("config.json", "weights"), "config.json", "expected value"),
        (broken("model.safetensors", "none"), "model.safetensors", ""),
        (lacking, "model.safetensors", "output.dense.bias"),
        (changed("\"bert\"", "\"gpt2\""), "config.json", "model_type: found \"gpt2\", expected \"bert\""),
        (changed("\"vocab_size\":12", "\"vocab_size\":11"), "tokenizer.json", "12 tokens"),
        (changed("\"vocab_size\":12", "\"vocab_size\":13"), "model.safetensors", "shape"),
        (changed("\"num_attention_heads\":2", "\"num_attention_heads\":0"), "config.json", "in 0 heads"),
        (changed("\"hidden_size\":16", "\"hidden_size\":15"), "config.json", "found 15 numbers"),
        (changed("\"num_hidden_layers\":1", "\"num_hidden_layers\":2"), "model.safetensors", "encoder.layer.1"),
        (changed("\"max_position_embeddings\":32", "\"max_position_embeddings\":2"), "config.json", "at least 8"),
    ] {
        let said = refused(&dir).await;
        assert!(said.contains(file) && said.contains(why), "{file}, {why}: {said}");
    }
}
