//! A real browser that tests tell what to do: the system's Chromium, driven by `tests/clients/browser/drive.mjs`.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use what_was_left_out::left_out;

use super::{Daemon, Household};

/// A browser with one page. Ends with this.
pub struct Browser {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    base: String,
}

impl Browser {
    /// Starts one for this daemon's pages. `None`: it is not installed, which is told.
    pub async fn start(daemon: &Daemon) -> Option<Self> {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let installed = |name: &str| {
            let set = std::env::var_os(name).map(PathBuf::from).filter(|path| path.exists());
            let why = || format!("{name} is not set; `eval \"$(.ci/run clients)\"` installs a browser");
            set.ok_or_else(|| left_out(&format!("{test}, in a browser"), &why())).ok()
        };
        let (node, modules) = (installed("BUTLERD_TEST_NODE22")?, installed("BUTLERD_TEST_BROWSER")?);
        let chromium = installed("BUTLERD_TEST_CHROMIUM")?;
        let mut child = Command::new(node)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/browser/drive.mjs"))
            .env("MODULES", modules)
            .env("CHROMIUM", chromium)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("node runs");
        let input = child.stdin.take().expect("its input");
        let output = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut browser = Self { _child: child, input, output, base: format!("http://{}", daemon.admin()) };
        let ready = browser.line().await;
        assert_eq!(ready["ready"], true, "{ready}");
        browser.open(json!({})).await;
        Some(browser)
    }

    async fn line(&mut self) -> Value {
        let line = self.output.next_line().await.expect("the browser's output").expect("the browser is there");
        serde_json::from_str(&line).expect("JSON")
    }

    /// A new, empty browser: no cookies, these options.
    pub async fn open(&mut self, mut options: Value) {
        options["baseURL"] = json!(self.base);
        self.does("open", options).await;
    }

    /// What a command came to, also if it failed.
    pub async fn tries(&mut self, command: &str, mut with: Value) -> Value {
        with["command"] = json!(command);
        self.input.write_all(format!("{with}\n").as_bytes()).await.expect("the browser hears");
        self.line().await
    }

    /// The same; it must not fail.
    pub async fn does(&mut self, command: &str, with: Value) -> Value {
        let told = self.tries(command, with.clone()).await;
        assert_eq!(told["ok"], true, "{command} {with}: {told:#}");
        told
    }

    pub async fn goto(&mut self, path: &str) -> u64 {
        self.does("goto", json!({"path": path})).await["status"].as_u64().unwrap_or_default()
    }

    /// Waits until the page shows this.
    pub async fn sees(&mut self, text: &str) {
        self.does("sees", json!({"text": text})).await;
    }

    /// Does what a button or link does, by mouse or by the keyboard alone.
    pub async fn press(&mut self, keyboard: bool, role: &str, name: &str) {
        let how = if keyboard { "press" } else { "click" };
        self.does(how, json!({"role": role, "name": name})).await;
    }

    pub async fn types(&mut self, keyboard: bool, name: &str, text: &str) {
        self.does("type", json!({"role": "textbox", "name": name, "text": text, "keyboard": keyboard})).await;
    }

    /// The page's text.
    pub async fn text(&mut self) -> String {
        self.does("text", json!({})).await["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Signs in by a link of `butlerd open`.
    pub async fn sign_in(&mut self, household: &Household) {
        let link = login_link(household, &["open", "--print"]);
        self.goto(&link).await;
        self.press(true, "button", "Sign in").await;
        self.sees("You are signed in.").await;
    }
}

/// The link that a command prints.
pub fn login_link(household: &Household, args: &[&str]) -> String {
    let (code, out, err) = household.cli(args);
    assert_eq!(code, 0, "{out}{err}");
    out.lines().next().expect("a link").to_owned()
}
