//! Real mail servers: Dovecot, and a submission server whose mail arrives there. The next answers can be chosen, and
//! they can be killed, silenced and given other certificates, as a test needs.

mod proxy;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use nix::unistd::{Gid, Group, Uid, User};
use serde_json::{Value, json};
use tempfile::TempDir;
use what_was_left_out::left_out;

use super::oidc::Oidc;
use super::ports;
pub use proxy::Proxy;

pub const HOUSEHOLD: (&str, &str) = ("household@example.org", "secret1");
pub const ADA: (&str, &str) = ("ada@example.org", "secret2");

/// Where the servers are, beside 127.0.0.1 and `localhost`. There, Dovecot takes a password without TLS as well, for
/// a client at its own address is safe to it; here, it tells LOGINDISABLED as servers do elsewhere.
pub const HOST: &str = "127.0.0.2";

/// What the submission server comes to once, the next time that it gets so far.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A message is answered with this after its end, such as 421 (which hangs up) or 451.
    Later(u16),
    /// A message is answered with this after its end, such as 550 or 552.
    Refused(u16),
    /// A connection is greeted with this, and closed.
    AtGreeting(u16),
    AtMail(u16),
    AtRecipient(u16),
    /// 535 for as long as the connection lasts, whatever is shown.
    BadAuth,
    /// The connection is gone when the client says DATA.
    DropBeforeData,
    /// The message is taken and goes its way, and the connection is gone before that is said.
    LostAfterData,
}

/// A message that the submission server took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Who was logged in.
    pub user: String,
    pub mail_from: String,
    pub rcpt_tos: Vec<String>,
    pub raw: Vec<u8>,
}

/// The servers. They run until it is dropped, and no longer than this process.
pub struct MailServer {
    dir: TempDir,
    ca: PathBuf,
    imap: u16,
    imaps: u16,
    smtp: u16,
    smtps: u16,
    control: Arc<Mutex<Control>>,
}

/// The process that runs both, and answers a line with a line.
struct Control {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let mut control = match self.control.lock() {
            Ok(control) => control,
            Err(broken) => broken.into_inner(),
        };
        // It takes Dovecot along when its input ends.
        drop(control.input.take());
        let _ = control.child.wait();
    }
}

/// Whom Dovecot runs as: root drops to `nobody`, anybody else is good enough.
fn run_as() -> (User, Group) {
    let own = Uid::effective();
    let user = if own.is_root() { User::from_name("nobody") } else { User::from_uid(own) };
    let user = user.ok().flatten().expect("a user with a name");
    let gid = if own.is_root() { user.gid } else { Gid::effective() };
    let group = Group::from_gid(gid).ok().flatten().expect("a group with a name");
    (user, group)
}

/// Why there can be no servers here; else the Python that has the one of them.
fn python() -> Result<PathBuf, String> {
    let dovecot = Command::new("dovecot").arg("--version").env("PATH", path()).output();
    let version = dovecot.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    if !version.starts_with("2.3.") {
        let found = if version.is_empty() { "none" } else { version.trim() };
        return Err(format!("the servers need Dovecot 2.3 (Debian's dovecot-imapd), and here is {found}"));
    }
    let python = std::env::var_os("BUTLERD_TEST_MCP_PY").map(PathBuf::from);
    python
        .ok_or("BUTLERD_TEST_MCP_PY is not set; `eval \"$(.ci/run clients)\"` installs a submission server".to_owned())
}

/// Where Dovecot is, for those as well who have no need of servers else.
fn path() -> String {
    format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default())
}

/// A certificate of `dir`'s authority in `server.pem`, with a new key. The authority is made where there is none.
fn certify(dir: &Path) {
    let openssl = |arguments: &[&str]| {
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
        let out = openssl.args(["-days", "2"]).args(arguments).current_dir(dir).output().expect("openssl runs");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    if !dir.join("ca.pem").exists() {
        openssl(&["-subj", "/CN=authority of a test", "-keyout", "ca.key", "-out", "ca.pem"]);
    }
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:127.0.0.2";
    let of = ["-addext", names, "-addext", "basicConstraints=critical,CA:FALSE", "-CA", "ca.pem", "-CAkey", "ca.key"];
    openssl(&[&["-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.pem"][..], &of].concat());
    ["server.key", "server.pem"].iter().for_each(|name| own(&dir.join(name)));
}

/// Gives it to whom Dovecot runs as.
fn own(path: &Path) {
    if Uid::effective().is_root() {
        let (user, group) = run_as();
        let ids = (Some(user.uid.as_raw()), Some(group.gid.as_raw()));
        std::os::unix::fs::chown(path, ids.0, ids.1).expect("it is given away");
    }
}

impl MailServer {
    /// `None`: they are not installed here, and that was told.
    pub async fn start() -> Option<Self> {
        Self::start_with(None).await
    }

    /// As [`MailServer::start`]. Bearer tokens are good as well, once they are granted.
    pub async fn start_with_oauth() -> Option<Self> {
        Self::start_with(Some(String::new())).await
    }

    /// The same, where this provider says whose a token is.
    pub async fn start_with_provider(provider: &Oidc) -> Option<Self> {
        Self::start_with(Some(provider.introspection())).await
    }

    /// `judge`: who says whose a token is; empty: these servers themselves.
    async fn start_with(judge: Option<String>) -> Option<Self> {
        let started = tokio::task::spawn_blocking(move || Self::start_blocking(judge)).await.expect("it starts");
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        started.map_err(|why| left_out(&format!("{test}, with mail servers"), &why)).ok()
    }

    fn start_blocking(judge: Option<String>) -> Result<Self, String> {
        let python = python()?;
        let dir = tempfile::Builder::new().prefix("mail").tempdir().expect("a directory");
        let at = dir.path();
        own(at);
        certify(at);
        for (path, mode) in [(at.to_owned(), 0o755), (at.join("ca.pem"), 0o644)] {
            let open = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path, open).expect("whoever is a client reads it");
        }
        let (user, group) = run_as();
        let [imap, imaps, tokens] = ports::free(3).try_into().expect("three ports");
        let dovecot = include_str!("mail_server/dovecot.conf")
            .replace("@dir@", at.to_str().expect("a path"))
            .replace("@user@", &user.name)
            .replace("@group@", &group.name)
            .replace("@uid@", &user.uid.to_string())
            .replace("@gid@", &group.gid.to_string())
            .replace("@imap@", &imap.to_string())
            .replace("@imaps@", &imaps.to_string());
        let write = |name: &str, text: &str| {
            std::fs::write(at.join(name), text).expect("it can be written");
            own(&at.join(name));
        };
        write("dovecot.conf", &dovecot);
        write("users", &[HOUSEHOLD, ADA].map(|(user, password)| format!("{user}:{{PLAIN}}{password}\n")).concat());
        write("dovecot.log", "");
        write("servers.py", include_str!("mail_server/servers.py"));
        write("submission.py", include_str!("mail_server/submission.py"));
        let judge = judge.map(|judge| if judge.is_empty() { format!("http://127.0.0.1:{tokens}/") } else { judge });
        if let Some(judge) = &judge {
            let args = format!("args = {}/tokens.conf", at.display());
            write("oauth.conf", &include_str!("mail_server/oauth.conf").replace("@args@", &args));
            let judge = format!("introspection_url = {judge}\n");
            write("tokens.conf", &(include_str!("mail_server/tokens.conf").to_owned() + &judge));
        }
        let mut command = Command::new(python);
        command.arg(at.join("servers.py")).arg(at).arg(imap.to_string()).arg(imaps.to_string());
        command.arg(match &judge {
            Some(own) if own.contains(&format!(":{tokens}/")) => tokens.to_string(),
            Some(other) => other.clone(),
            None => "none".to_owned(),
        });
        command.arg(user.uid.to_string()).arg(group.gid.to_string());
        command.env_clear().env("PATH", path()).env("HOME", at).current_dir(at);
        let errors = std::fs::File::create(at.join("servers.log")).expect("a log");
        // In a group of its own: who interrupts the tests ends it by its input, so that it can clear up.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().expect("python runs");
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("its output")));
        let control = Arc::new(Mutex::new(Control { child, input, output }));
        let ca = at.join("ca.pem");
        let mut server = Self { dir, ca, imap, imaps, smtp: 0, smtps: 0, control };
        let said = read(&mut server.control.lock().expect("the servers"), server.dir.path());
        if let Some(missing) = said["missing"].as_str() {
            return Err(format!("{missing}; `eval \"$(.ci/run clients)\"` installs it"));
        }
        let port = |at: usize| said["ok"][at].as_u64().and_then(|port| u16::try_from(port).ok());
        (server.smtp, server.smtps) = (port(0).expect("a port"), port(1).expect("a port"));
        Ok(server)
    }

    /// Where IMAP begins without TLS, which STARTTLS has to change.
    pub fn imap_port(&self) -> u16 {
        self.imap
    }

    pub fn imaps_port(&self) -> u16 {
        self.imaps
    }

    /// Where messages are submitted after STARTTLS and AUTH.
    pub fn smtp_port(&self) -> u16 {
        self.smtp
    }

    pub fn smtps_port(&self) -> u16 {
        self.smtps
    }

    /// The certificate of the authority that is to be believed.
    pub fn ca(&self) -> &Path {
        &self.ca
    }

    /// Puts a message into a user's INBOX, as it is. Dovecot may be dead or silent meanwhile.
    pub async fn deliver(&self, user: &str, raw: &[u8]) {
        self.deliver_into(user, "INBOX", raw).await;
    }

    /// Puts a message into a user's folder, which is made where there is none.
    pub async fn deliver_into(&self, user: &str, folder: &str, raw: &[u8]) {
        self.ask(json!({"do": "deliver", "user": user, "folder": folder, "raw": text(raw)})).await;
    }

    /// Puts a message into a user's INBOX that Dovecot can't read: it shows its UID, and answers NO to its FETCH.
    pub async fn deliver_unreadable(&self, user: &str, raw: &[u8]) {
        let letter = json!({"do": "deliver", "user": user, "folder": "INBOX", "raw": text(raw), "readable": false});
        self.ask(letter).await;
    }

    /// All messages of a folder in the order of their UIDs, as Dovecot gives them out. It must run.
    pub async fn folder(&self, user: &str, folder: &str) -> Vec<Vec<u8>> {
        self.flagged(user, folder).await.into_iter().map(|(_, raw)| raw).collect()
    }

    /// As [`MailServer::folder`], each message with its flags.
    pub async fn flagged(&self, user: &str, folder: &str) -> Vec<(Vec<String>, Vec<u8>)> {
        let found = self.ask(json!({"do": "look", "user": user, "folder": folder})).await;
        let message = |found: &Value| (strings(&found["flags"]), bytes(&found["raw"]));
        found.as_array().expect("a list").iter().map(message).collect()
    }

    /// What the submission server took, in its order.
    pub fn submitted(&self) -> Vec<Submitted> {
        let of = |taken: &Value| Submitted {
            user: taken["user"].as_str().expect("a user").to_owned(),
            mail_from: taken["from"].as_str().expect("a sender").to_owned(),
            rcpt_tos: strings(&taken["to"]),
            raw: bytes(&taken["raw"]),
        };
        self.at_once(&json!({"do": "submitted"})).as_array().expect("a list").iter().map(of).collect()
    }

    /// What the submission server comes to the next time. Several of one kind come one after the other.
    pub fn fail_next(&self, fault: Fault) {
        let (at, what) = match fault {
            Fault::Later(code) | Fault::Refused(code) => ("message", json!(code)),
            Fault::AtGreeting(code) => ("greeting", json!(code)),
            Fault::AtMail(code) => ("mail", json!(code)),
            Fault::AtRecipient(code) => ("recipient", json!(code)),
            Fault::BadAuth => ("auth", json!(535)),
            Fault::DropBeforeData => ("data", json!("drop")),
            Fault::LostAfterData => ("accepted", json!("drop")),
        };
        self.at_once(&json!({"do": "fault", "at": at, "what": what}));
    }

    /// Makes a token good for a user, on both servers.
    pub fn grant(&self, user: &str, token: &str) {
        self.at_once(&json!({"do": "grant", "user": user, "token": token}));
    }

    pub fn revoke(&self, token: &str) {
        self.at_once(&json!({"do": "revoke", "token": token}));
    }

    /// Kills all of Dovecot at once, until none of it is left.
    pub async fn kill(&self) {
        self.ask(json!({"do": "kill"})).await;
    }

    /// Starts Dovecot where it was, until it greets.
    pub async fn start_again(&self) {
        self.ask(json!({"do": "start"})).await;
    }

    /// Dovecot goes silent: connections stay, and new ones come about, but nothing is said.
    pub fn freeze(&self) {
        self.at_once(&json!({"do": "signal", "signal": "SIGSTOP"}));
    }

    pub fn thaw(&self) {
        self.at_once(&json!({"do": "signal", "signal": "SIGCONT"}));
    }

    /// Gives a user's INBOX another UIDVALIDITY, and its messages other UIDs. Dovecot is killed and started for it.
    pub async fn change_uidvalidity(&self, user: &str) {
        self.ask(json!({"do": "change_uidvalidity", "user": user})).await;
    }

    /// Both servers have another key and certificate, of the same authority. Dovecot is killed and started for it.
    pub async fn renew_certificate(&self) {
        let dir = self.dir.path().to_owned();
        tokio::task::spawn_blocking(move || certify(&dir)).await.expect("a certificate");
        self.ask(json!({"do": "renew"})).await;
    }

    /// A question whose answer takes its time.
    async fn ask(&self, question: Value) -> Value {
        let (control, dir) = (self.control.clone(), self.dir.path().to_owned());
        let asked = tokio::task::spawn_blocking(move || answer(&control, &dir, &question)).await;
        asked.expect("an answer")
    }

    fn at_once(&self, question: &Value) -> Value {
        answer(&self.control, self.dir.path(), question)
    }
}

fn answer(control: &Mutex<Control>, dir: &Path, question: &Value) -> Value {
    let mut control = control.lock().expect("the servers");
    let input = control.input.as_mut().expect("its input");
    input.write_all(format!("{question}\n").as_bytes()).expect("the servers run");
    let said = read(&mut control, dir);
    assert!(said["error"].is_null(), "{question}: {}", said["error"].as_str().unwrap_or_default());
    said["ok"].clone()
}

fn read(control: &mut Control, dir: &Path) -> Value {
    let mut line = String::new();
    control.output.read_line(&mut line).expect("the servers answer");
    let log = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    serde_json::from_str(&line)
        .unwrap_or_else(|_| panic!("the servers have ended:\n{}\n{}", log("servers.log"), log("dovecot.log")))
}

/// Bytes as JSON can have them: a character for each.
fn text(raw: &[u8]) -> String {
    raw.iter().map(|byte| char::from(*byte)).collect()
}

fn bytes(text: &Value) -> Vec<u8> {
    let byte = |char: char| u8::try_from(u32::from(char)).expect("a byte");
    text.as_str().expect("a text").chars().map(byte).collect()
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("a text").to_owned()).collect()
}
