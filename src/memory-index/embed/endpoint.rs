//! A model behind an endpoint that speaks like OpenAI's `/v1/embeddings`: a local server, or somebody's.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{EmbedError, Embedder, quantised};
use base::{Secret, body_within, http_client, innermost};

/// So many texts go in one request.
const AT_ONCE: usize = 64;
/// An answer takes about 20 bytes a number; this is enough for 64 vectors of 4096 and some more.
const LARGEST_ANSWER: usize = 16 << 20;
/// So much of a refusal is passed on.
const SAID: usize = 200;

/// One model of one endpoint.
pub struct Endpoint {
    client: reqwest::Client,
    url: String,
    model: String,
    key: Option<Secret<String>>,
    dim: usize,
}

#[derive(Serialize)]
struct EmbedRequest<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    embedding: Vec<f32>,
}

impl Endpoint {
    /// `base` is the URL up to and with `/v1`; `dim` is how many numbers the model's vectors have.
    pub fn new(
        base: &str,
        model: &str,
        key: Option<Secret<String>>,
        dim: usize,
        timeout: Duration,
    ) -> Result<Self, EmbedError> {
        let url = format!("{}/embeddings", base.trim_end_matches('/'));
        let client = http_client(&url).timeout(timeout).build();
        let client = client.map_err(|e| EmbedError::Endpoint { url: url.clone(), why: innermost(&e) })?;
        Ok(Self { client, url, model: model.to_owned(), key, dim })
    }

    async fn ask(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, String> {
        let request = EmbedRequest { model: &self.model, input: texts, encoding_format: "float" };
        let mut request = self.client.post(&self.url).json(&request);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let response = request.send().await.map_err(|e| innermost(&e))?;
        let status = response.status();
        let body = body_within(response, LARGEST_ANSWER).await.map_err(|e| innermost(&e))?;
        let body = body.ok_or_else(|| format!("its answer is longer than {LARGEST_ANSWER} bytes"))?;
        if !status.is_success() {
            let said: String = String::from_utf8_lossy(&body).chars().take(SAID).collect();
            return Err(format!("{status}: {said}"));
        }
        let answer = serde_json::from_slice(&body).map_err(|e| format!("its answer can't be read: {e}"))?;
        self.sorted(answer, texts.len())
    }

    /// The vectors in the order of the texts, each there and of the right length.
    fn sorted(&self, answer: Answer, texts: usize) -> Result<Vec<Vec<i8>>, String> {
        let mut vectors = vec![Vec::new(); texts];
        for Item { index, embedding } in answer.data {
            if embedding.len() != self.dim {
                return Err(format!("{} gives {} numbers a text, not {}", self.model, embedding.len(), self.dim));
            }
            *vectors.get_mut(index).ok_or("it answers what was not asked")? = quantised(&embedding);
        }
        match vectors.iter().filter(|vector| vector.is_empty()).count() {
            0 => Ok(vectors),
            missing => Err(format!("{missing} of {texts} vectors are missing")),
        }
    }
}

#[async_trait]
impl Embedder for Endpoint {
    fn model(&self) -> &str {
        &self.model
    }

    fn dim(&self) -> usize {
        self.dim
    }

    async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(AT_ONCE) {
            let some = self.ask(texts).await;
            vectors.extend(some.map_err(|why| EmbedError::Endpoint { url: self.url.clone(), why })?);
        }
        Ok(vectors)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Asks an endpoint that gives `answer`; what it was sent, and what came of it.
    async fn asked(status: &str, answer: &str, texts: &[&str]) -> (String, Result<Vec<Vec<i8>>, EmbedError>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1/", listener.local_addr().unwrap());
        let key = Some(Secret::new("k-123".to_owned()));
        let endpoint = Endpoint::new(&base, "small", key, 2, Duration::from_secs(20)).unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut sent = Vec::new();
            while !String::from_utf8_lossy(&sent).ends_with('}') {
                stream.read_buf(&mut sent).await.unwrap();
            }
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
            stream.write_all((head + answer).as_bytes()).await.unwrap();
            String::from_utf8(sent).unwrap()
        };
        tokio::join!(serve, endpoint.embed(texts))
    }

    #[tokio::test]
    async fn vectors_come_in_the_order_of_the_texts() {
        let answer = r#"{"data":[{"index":1,"embedding":[0.0,0.5]},{"index":0,"embedding":[-1.0,0.25]}],"usage":{}}"#;
        let (sent, got) = asked("200 OK", answer, &["one", "two"]).await;
        assert_eq!(got.unwrap(), [[-127, 32], [0, 127]]);
        assert!(sent.starts_with("POST /v1/embeddings ") && sent.contains("Bearer k-123"), "{sent}");
        assert!(sent.ends_with(r#"{"model":"small","input":["one","two"],"encoding_format":"float"}"#), "{sent}");
    }

    #[tokio::test]
    async fn what_is_wrong_is_said() {
        for (status, answer, why) in [
            ("401 Unauthorized", "no such key", "401 Unauthorized: no such key"),
            ("200 OK", "{", "can't be read"),
            ("200 OK", r#"{"data":[]}"#, "1 of 1 vectors are missing"),
            ("200 OK", r#"{"data":[{"index":0,"embedding":[1.0]}]}"#, "small gives 1 numbers a text, not 2"),
            ("200 OK", r#"{"data":[{"index":5,"embedding":[1.0,2.0]}]}"#, "what was not asked"),
        ] {
            let error = asked(status, answer, &["one"]).await.1.unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("/v1/embeddings"), "{error}");
        }
    }

    #[tokio::test]
    async fn nothing_is_asked_for_nothing() {
        let endpoint = Endpoint::new("http://127.0.0.1:1", "small", None, 2, Duration::from_secs(5)).unwrap();
        assert!(endpoint.embed(&[]).await.unwrap().is_empty());
        assert!(endpoint.embed(&["one"]).await.is_err());
    }
}
