//! The channel `file`: each delivery is a line of JSON at the end of a file below the data directory.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::contract::{Factory, Manifest, Module, ModuleContext, ModuleError, with_settings};
use base::ButlerName;
use outbox::{Channel, Delivery, Outcome, send_tool, send_tool_name};
use tools::Tool;

const NAME: &str = "file";
/// The directory, below the data directory.
const DIRECTORY: &str = "outbox";

pub(super) struct FileFactory;

/// `[modules.file]`
#[derive(Deserialize, JsonSchema)]
#[schemars(transform = config::keys::<Self>)]
struct Settings {
    /// The file below `outbox/` of the data directory.
    #[schemars(extend("format" = "file-name", "default" = "deliveries.jsonl"))]
    name: String,
}

impl Factory for FileFactory {
    with_settings!(NAME, Settings);
    fn build(&self, config: &Value, _: &ButlerName, _: &Path) -> Result<Box<dyn Module>, ModuleError> {
        let Settings { name } = self.settings().read(config)?;
        Ok(Box::new(FileModule { name }))
    }
}

struct FileModule {
    name: String,
}

#[async_trait]
impl Module for FileModule {
    fn manifest(&self) -> Result<Manifest, ModuleError> {
        Ok(Manifest { tools: vec![send_tool_name(NAME)], ..Manifest::default() })
    }
    async fn start(&self, cx: &ModuleContext) -> Result<(), ModuleError> {
        let directory = cx.data_dir.join(DIRECTORY);
        let made = std::fs::create_dir_all(&directory);
        made.map_err(|e| format!("{} can't be made: {e}", directory.display()).into())
    }
    fn channels(&self, cx: &ModuleContext) -> Result<Vec<Arc<dyn Channel>>, ModuleError> {
        let path = cx.data_dir.join(DIRECTORY).join(&self.name);
        Ok(vec![Arc::new(FileChannel {
            inner: Arc::new(Inner { path, writing: Mutex::new(()) }),
            name: self.name.clone(),
        })])
    }
    async fn tools(&self, cx: &ModuleContext) -> Result<Vec<Tool>, ModuleError> {
        Ok(vec![send_tool(&cx.outbox, NAME).map_err(ModuleError::new)?])
    }
}

struct FileChannel {
    inner: Arc<Inner>,
    name: String,
}

struct Inner {
    path: PathBuf,
    writing: Mutex<()>,
}

impl Inner {
    fn open(&self) -> std::io::Result<File> {
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)
    }

    /// Adds a whole line, and makes it last. What a kill left of another is closed first.
    fn append(&self, line: &Value) -> std::io::Result<()> {
        let _one = self.writing.lock().unwrap_or_else(|e| e.into_inner());
        let mut file = self.open()?;
        let mut text = Vec::new();
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                text.push(b'\n');
            }
        }
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
        file.write_all(&text)?;
        file.sync_data()
    }

    /// Whether a whole line of this delivery is there.
    fn has(&self, id: &str) -> std::io::Result<bool> {
        let _one = self.writing.lock().unwrap_or_else(|e| e.into_inner());
        for line in BufReader::new(self.open()?).split(b'\n') {
            if serde_json::from_slice::<Value>(&line?).is_ok_and(|line| line["delivery_id"] == id) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}

#[async_trait]
impl Channel for FileChannel {
    fn name(&self) -> &str {
        NAME
    }
    fn at_home(&self) -> bool {
        true
    }
    fn targets(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
    async fn send(&self, delivery: &Delivery) -> Outcome {
        let (inner, line) = (self.inner.clone(), delivery.envelope());
        match blocking(move || inner.append(&line)).await {
            Ok(()) => Outcome::Sent { receipt: json!({"file": self.name}) },
            // Part of it may be there: whether the whole is, can be seen.
            Err(why) => match self.reconcile(delivery).await {
                Some(seen @ Outcome::Sent { .. }) => seen,
                _ => Outcome::NotSent { why, retry_after: None },
            },
        }
    }
    async fn reconcile(&self, delivery: &Delivery) -> Option<Outcome> {
        let (inner, id) = (self.inner.clone(), delivery.id.to_string());
        match blocking(move || inner.has(&id)).await.ok()? {
            true => Some(Outcome::Sent { receipt: json!({"file": self.name, "found": true}) }),
            false => Some(Outcome::NotSent { why: "it is not in the file".to_owned(), retry_after: None }),
        }
    }
}
