//! Processes of the bench: this program again, with a role.

use std::process::Stdio;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::{Failed, bot_api};

/// A process with a role, spoken to by lines of JSON. Dropped, it is killed.
pub struct Part {
    role: &'static str,
    pub child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Part {
    /// Starts this program in `role`, with its errors where `log` says, else on our own standard error.
    pub fn start(role: &'static str, args: &[String], log: Option<std::fs::File>) -> Result<Self, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(role).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        // A runtime that asks for a key before it starts gets one, and so does a bot for its token; nothing here goes to
        // anybody who would look at them, but for the stand-in of that bot.
        command.env("ANTHROPIC_API_KEY", "sk-a-key-of-nobody").env("BUTLER_TELEGRAM_TOKEN", bot_api::TOKEN);
        command.env("BUTLER_CALENDAR_PASSWORD", "of nobody");
        if let Some(log) = log {
            command.stderr(log);
        }
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("a child without its output")?;
        Ok(Self { role, child, input, output: BufReader::new(output).lines() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Sends one line.
    pub async fn send<T: Serialize>(&mut self, value: &T) -> Result<(), Failed> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.input.as_mut().ok_or("its input is closed")?.write_all(&line).await?;
        Ok(())
    }

    /// The next line.
    pub async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, Failed> {
        match self.output.next_line().await? {
            Some(line) => Ok(serde_json::from_str(&line)?),
            None => Err(format!("the part `{}` ended early", self.role).into()),
        }
    }

    /// Closes its input, which tells it to end.
    pub fn close_input(&mut self) {
        drop(self.input.take());
    }

    /// Closes its input and waits for its end.
    pub async fn finish(mut self) -> Result<(), Failed> {
        self.close_input();
        let status = self.child.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("the part `{}` ended with {status}", self.role).into()) }
    }
}

/// What both kinds of load are told.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Window {
    pub warm_up_ms: u64,
    pub measured_ms: u64,
}

/// What both kinds of load tell: first `"measuring"`, then this.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Measured {
    pub calls: u64,
    pub errors: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

impl Measured {
    /// Of latencies in nanoseconds.
    pub fn of(mut latencies: Vec<u32>, errors: u64, seconds: f64) -> Self {
        latencies.sort_unstable();
        let at = |q: f64| {
            let i = (latencies.len() as f64 * q) as usize;
            latencies.get(i.min(latencies.len().saturating_sub(1))).map_or(0.0, |ns| f64::from(*ns) / 1000.0)
        };
        Self { calls: latencies.len() as u64, errors, seconds, p50_us: at(0.5), p99_us: at(0.99) }
    }

    pub fn per_second(&self) -> f64 {
        self.calls as f64 / self.seconds
    }
}
