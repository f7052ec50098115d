//! MCP over the pipes of a program: one JSON message a line.

use std::io;
use std::sync::{Arc, OnceLock};

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::sync::Mutex;

use process::{Lines, Output, OutputLimits};

/// What of a server's output is read. The total is of its whole life.
pub const SERVER_OUTPUT: OutputLimits = OutputLimits { line: 4 << 20, total: 1 << 30, stderr_tail: 16 << 10 };
/// Bytes between two answers: notes of progress, and what programs write that take standard output for a log.
const MOST_BETWEEN: usize = 32 << 20;
/// Lines between two answers that are no message.
const MOST_JUNK: usize = 1000;

/// The daemon's ends of a program's pipes.
pub(super) struct ChildPipe {
    input: Arc<Mutex<Option<Sender>>>,
    output: Lines,
    /// Bytes and lines of no message since the last answer.
    between: usize,
    junk: usize,
    /// Why nothing more is read.
    stopped: Arc<OnceLock<String>>,
}

impl ChildPipe {
    pub fn new(input: Sender, output: Lines, stopped: Arc<OnceLock<String>>) -> Self {
        Self { input: Arc::new(Mutex::new(Some(input))), output, between: 0, junk: 0, stopped }
    }

    /// The next message, or why there is none any more.
    async fn next(&mut self) -> Result<ServerJsonRpcMessage, String> {
        loop {
            let line = match self.output.next().await {
                Ok(Some(Output::Line(line))) => line,
                Ok(Some(Output::TooMuch)) => return Err("it wrote too much".to_owned()),
                Ok(None) => return Err("it ended".to_owned()),
                Err(e) => return Err(format!("its output can't be read: {e}")),
            };
            self.between += line.text.len();
            if line.cut {
                return Err(format!("it wrote a line of more than {} MiB", SERVER_OUTPUT.line >> 20));
            }
            if self.between > MOST_BETWEEN {
                return Err(format!("it wrote more than {} MiB without an answer", MOST_BETWEEN >> 20));
            }
            match serde_json::from_str(&line.text) {
                Ok(message) => {
                    if matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) {
                        (self.between, self.junk) = (0, 0);
                    }
                    return Ok(message);
                }
                Err(_) if self.junk < MOST_JUNK => self.junk += 1,
                Err(_) => return Err("it writes what is no MCP to its standard output".to_owned()),
            }
        }
    }
}

impl Transport<RoleClient> for ChildPipe {
    type Error = io::Error;

    fn send(&mut self, item: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let input = self.input.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            match input.lock().await.as_mut() {
                Some(input) => input.write_all(&line).await,
                None => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self.next().await {
            Ok(message) => Some(message),
            Err(why) => {
                let _ = self.stopped.set(why);
                None
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A program that reads nothing holds the lock until its pipe is broken.
        if let Ok(mut input) = self.input.try_lock() {
            *input = None;
        }
        Ok(())
    }
}
