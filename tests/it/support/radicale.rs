//! The real Radicale as Ada's server of calendars and address books, which other programs edit, too.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use what_was_left_out::left_out;

use super::{Household, http};

/// Ada's calendar, and her password.
pub const CALENDAR: &str = "/ada/cal/";
pub const PASSWORD: &str = "secret1";

/// The server; it ends with this, or with this process.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stands_still(false);
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts it with nothing in it; `None` where it is not installed.
    pub fn start(test: &str) -> Option<Self> {
        let Some(python) = std::env::var_os("BUTLERD_TEST_RADICALE") else {
            left_out(test, "BUTLERD_TEST_RADICALE is not set; `eval \"$(.ci/run clients)\"` installs Radicale");
            return None;
        };
        let mut command = Command::new(python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/dav/server.py"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("Radicale starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut port).expect("its port");
        Some(Self { child, url: format!("http://127.0.0.1:{}", port.trim()) })
    }

    /// From now on it answers nobody, or again.
    pub fn stands_still(&self, still: bool) {
        let signal = if still { nix::sys::signal::Signal::SIGSTOP } else { nix::sys::signal::Signal::SIGCONT };
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        nix::sys::signal::kill(pid, signal).expect("it is there");
    }

    /// One request of another program of Ada's: the status and the text of its answer.
    pub async fn ask(&self, method: &str, path: &str, body: String) -> (u16, String) {
        let method = reqwest::Method::from_bytes(method.as_bytes()).expect("a method");
        let request = http().request(method, format!("{}{path}", self.url)).basic_auth("ada", Some(PASSWORD));
        let depth = if path.ends_with('/') { "1" } else { "0" };
        let answer = request.header("depth", depth).body(body).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("a body"))
    }
}

/// The server with a calendar.
pub struct Radicale {
    pub server: Server,
}

impl Radicale {
    /// Starts it with one calendar of Ada's; `None` where it is not installed.
    pub async fn start(test: &str) -> Option<Self> {
        let radicale = Self { server: Server::start(test)? };
        radicale.send("MKCALENDAR", CALENDAR, String::new()).await;
        Some(radicale)
    }

    /// One request of another program of Ada's.
    pub async fn send(&self, method: &str, path: &str, body: String) -> String {
        let sent = self.try_send(method, path, body).await;
        sent.unwrap_or_else(|why| panic!("{method} {path}: {why}"))
    }

    async fn try_send(&self, method: &str, path: &str, body: String) -> Result<String, String> {
        let (status, text) = self.server.ask(method, path, body).await;
        if (200..300).contains(&status) { Ok(text) } else { Err(format!("{status}: {text}")) }
    }

    /// Puts an event there; `more` goes into it.
    pub async fn put(&self, name: &str, title: &str, more: &str) {
        let text = format!(
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\nBEGIN:VEVENT\r\nUID:{name}\r\nDTSTAMP:20270101T000000Z\r\n\
             DTSTART:20270310T090000Z\r\nDTEND:20270310T100000Z\r\nSUMMARY:{title}\r\n{more}END:VEVENT\r\nEND:VCALENDAR\r\n"
        );
        self.send("PUT", &format!("{CALENDAR}{name}.ics"), text).await;
    }

    /// Edits whatever has this text.
    pub async fn edit(&self, from: &str, to: &str) {
        let mut done = 0;
        for href in self.hrefs().await {
            let text = self.send("GET", &href, String::new()).await;
            if text.contains(from) {
                self.send("PUT", &href, text.replace(from, to)).await;
                done += 1;
            }
        }
        assert_eq!(done, 1, "{from} is not there once");
    }

    /// Where its items are.
    pub async fn hrefs(&self) -> Vec<String> {
        let listed = self.send("PROPFIND", CALENDAR, String::new()).await;
        let hrefs = listed.split("href>").filter(|part| part.ends_with("</") && part.contains(".ics"));
        let mut hrefs: Vec<String> = hrefs.map(|part| part.trim_end_matches("</").to_owned()).collect();
        hrefs.sort();
        hrefs.dedup();
        hrefs
    }

    /// The titles of its events, in order.
    pub async fn titles(&self) -> Vec<String> {
        let mut titles = Vec::new();
        for href in self.hrefs().await {
            // It may have gone since it was listed.
            let text = self.try_send("GET", &href, String::new()).await.unwrap_or_default();
            titles.extend(text.lines().filter_map(|line| Some(line.strip_prefix("SUMMARY:")?.trim_end().to_owned())));
        }
        titles.sort();
        titles
    }
}

impl Household {
    /// A butler follows Ada's calendar; `more` goes into its section.
    pub fn with_caldav(self, butler: &str, server: &Radicale, more: &str) -> Self {
        let section = format!(
            "\n[modules.calendar]\nprovider = \"caldav\"\nurl = \"{}\"\nuser = \"ada\"\ncalendars = [\"cal\"]\n\
             own_addresses = [\"ada@example.org\"]\ntime_zone = \"Europe/Berlin\"\n{more}",
            server.server.url
        );
        self.with_module(butler, "calendar", &section).env("BUTLER_CALENDAR_PASSWORD", PASSWORD)
    }
}
