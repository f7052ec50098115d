//! The ways in which people have got servers to ask what lies inside, each through the whole path of a call: the file is
//! read, the request made, names are looked up, and redirects are followed by the client that a daemon uses.
//!
//! A service that is allowed listens at 127.0.0.2, a trap on the same port at 127.0.0.1 and ::1. Names mean what the test
//! says. Whatever connects to the trap has got through.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use serde_json::json;

use super::*;

/// How the address comes to butlerd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// It stands in the tool's file.
    File,
    /// An allowed service redirects there.
    Redirect,
    /// A name that the file allows means the address.
    Name,
    /// It is an entry of `allow_hosts`.
    Allow,
    /// A model writes it into an argument: of a path, then of a header.
    Argument,
}
use By::{Allow, Argument, File, Name as Means, Redirect};

/// `PORT` is that of the service and the trap. What is told has these words.
#[rustfmt::skip]
const CASES: &[(By, &str, &str)] = &[
    // Loopback in other clothes.
    (Redirect, "http://127.0.0.1:PORT/", "127.0.0.1:PORT is not among its allow_hosts"),
    (Redirect, "http://127.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://127.0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://2130706433:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://0x7f000001:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://0x7f.0.0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://0177.0.0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://017700000001:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://127.0.0.1.:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://0:PORT/", "0.0.0.0:PORT is not among"),
    (Redirect, "http://0.0.0.0:PORT/", "0.0.0.0:PORT is not among"),
    (Redirect, "http://4294967296:PORT/", "nowhere"),
    (Redirect, "http://localhost:PORT/", "localhost:PORT is not among"),
    (Redirect, "http://LOCALHOST.:PORT/", "localhost.:PORT is not among"),
    (Redirect, "http://%6c%6f%63%61%6c%68%6f%73%74:PORT/", "localhost:PORT is not among"),
    (Redirect, "http://127.0.0.1%2f@api.example.org:PORT/", "user name"),
    (Redirect, "http://127.0.0.1%00.example.org:PORT/", "nowhere"),
    // Of IPv6.
    (Redirect, "http://[::1]:PORT/", "[::1]:PORT is not among"),
    (Redirect, "http://[::]:PORT/", "[::]:PORT is not among"),
    (Redirect, "http://[0:0:0:0:0:0:0:1]:PORT/", "[::1]:PORT is not among"),
    (Redirect, "http://[::ffff:127.0.0.1]:PORT/", "[::ffff:7f00:1]:PORT is not among"),
    (Redirect, "http://[::ffff:7f00:1]:PORT/", "[::ffff:7f00:1]:PORT is not among"),
    (Redirect, "http://[::127.0.0.1]:PORT/", "is not among"),
    (Redirect, "http://[64:ff9b::7f00:1]:PORT/", "is not among"),
    (Redirect, "http://[2002:7f00:1::]:PORT/", "is not among"),
    (Redirect, "http://[fe80::1%25lo]:PORT/", "nowhere"),
    (Redirect, "http://[fe80::1%lo]:PORT/", "nowhere"),
    (Redirect, "http://[fe80::1]:PORT/", "is not among"),
    (Redirect, "http://[fd00:ec2::254]/latest/meta-data/", "is not among"),
    // What clouds and routers answer.
    (Redirect, "http://169.254.169.254/latest/meta-data/", "169.254.169.254 is not among"),
    (Redirect, "http://2852039166/latest/meta-data/", "169.254.169.254 is not among"),
    (Redirect, "http://metadata.google.internal/computeMetadata/v1/", "is not among"),
    (Redirect, "http://192.168.1.1/", "is not among"),
    // Not where it looks to be.
    (Redirect, "http://api.example.org@127.0.0.1:PORT/", "user name"),
    (Redirect, "http://api.example.org:pw@127.0.0.1:PORT/", "user name"),
    (Redirect, "http://127.0.0.1:PORT#@api.example.org:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://127.0.0.1:PORT?@api.example.org:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://127.0.0.1:PORT\\@api.example.org:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http:\\\\127.0.0.1:PORT\\", "127.0.0.1:PORT is not among"),
    (Redirect, "//127.0.0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "///127.0.0.1:PORT/", "nowhere"),
    (Redirect, "/\\127.0.0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "https:127.0.0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "\thttp://127.0.0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://127.0.\t0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://127\u{3002}0\u{3002}0\u{3002}1:PORT/", "nowhere"),
    (Redirect, "http://%E2%91%A0%E2%91%A1%E2%91%A6.0.0.1:PORT/", "127.0.0.1:PORT is not among"),
    (Redirect, "http://xn--127-.0.0.1:PORT/", "nowhere"),
    // Beside the names that are allowed.
    (Redirect, "http://api.example.org.evil.example.net:PORT/", "is not among"),
    (Redirect, "http://evil-api.example.org:PORT/", "is not among"),
    (Redirect, "http://sub.api.example.org:PORT/", "is not among"),
    (Redirect, "http://example.org:PORT/", "is not among"),
    (Redirect, "http://api.example.org.:PORT/", "is not among"),
    (Redirect, "http://xn--ap-jma.example.org:PORT/", "is not among"),
    (Redirect, "http://api.example.org/", "api.example.org is not among"),
    (Redirect, "http://api.example.org:22/", "api.example.org:22 is not among"),
    (Redirect, "http://api.example.org:6379/", "api.example.org:6379 is not among"),
    (Redirect, "http://api.example.org:99999/", "nowhere"),
    // Other schemes.
    (Redirect, "file:///etc/passwd", "file is neither https nor http"),
    (Redirect, "gopher://127.0.0.1:PORT/_INFO", "gopher is neither"),
    (Redirect, "ftp://127.0.0.1:PORT/", "ftp is neither"),
    (Redirect, "data:application/json,{}", "data is neither"),
    (Redirect, "ws://127.0.0.1:PORT/", "ws is neither"),
    // Names that are allowed, and mean what is inside.
    (Means, "127.0.0.1", "inside"),
    (Means, "::1", "inside"),
    (Means, "0.0.0.0", "inside"),
    (Means, "::", "inside"),
    (Means, "::ffff:127.0.0.1", "inside"),
    (Means, "::ffff:0:127.0.0.1", "inside"),
    (Means, "64:ff9b::7f00:1", "inside"),
    (Means, "64:ff9b:1::7f00:1", "inside"),
    (Means, "2002:7f00:1::", "inside"),
    (Means, "2001:0:7f00:1::", "inside"),
    (Means, "10.1.2.3", "inside"),
    (Means, "100.64.0.1", "inside"),
    (Means, "172.16.0.1", "inside"),
    (Means, "192.168.1.1", "inside"),
    (Means, "169.254.169.254", "inside"),
    (Means, "fd00::1", "inside"),
    (Means, "fe80::1", "inside"),
    (Means, "ff02::1", "inside"),
    (Means, "224.0.0.1", "inside"),
    (Means, "255.255.255.255", "inside"),
    // The first time it means the service, the second time what is inside.
    (Means, "127.0.0.2 127.0.0.1", "inside"),
    (Means, "127.0.0.2 ::1", "inside"),
    (Means, "127.0.0.2 169.254.169.254", "inside"),
    // In the file itself.
    (File, "http://127.0.0.1:PORT/", "inside"),
    (File, "http://2130706433:PORT/", "inside"),
    (File, "http://[::ffff:127.0.0.1]:PORT/", "inside"),
    (File, "http://[64:ff9b::a9fe:a9fe]/", "inside"),
    (File, "http://169.254.169.254/", "inside"),
    (File, "http://u:p@api.example.org:PORT/", "user name"),
    (File, "file:///etc/passwd", "neither"),
    (File, "http://{to}/", "an argument can't choose it"),
    (File, "http://{to}.example.org/", "an argument can't choose it"),
    (File, "http://api.example.org:{to}/", "an argument can't choose it"),
    (File, "{to}://api.example.org/", "an argument can't choose it"),
    (File, "http://[fe80::1%25lo]:PORT/", "invalid"),
    // In what the file allows.
    (Allow, "*.example.org", "is no host"),
    (Allow, ".example.org", "is no host"),
    (Allow, "http://127.0.0.1:PORT", "is no host"),
    (Allow, "api.example.org@127.0.0.1:PORT", "is no host"),
    (Allow, "api.example.org/..", "is no host"),
    (Allow, "10.0.0.0/33", "is no host"),
    (Allow, "[fe80::1%25lo]", "is no host"),
    // What a model writes.
    (Argument, "..", "can't be"),
    (Argument, ".", "can't be"),
    (Argument, "a\r\nHost: 127.0.0.1:PORT", "can't be"),
    (Argument, "a\nX-Forwarded-For: 127.0.0.1", "can't be"),
];

/// What a model writes into a path, and stays there: it is asked of the service that the file names, and of nobody else.
const STAYS: &[&str] = &[
    "http://127.0.0.1:PORT/",
    "//127.0.0.1:PORT/",
    "../../127.0.0.1",
    "@127.0.0.1:PORT",
    "\\127.0.0.1",
    "a?x=1#y",
    "%2e%2e%2f",
    "a b HTTP/1.1",
];

/// The service, and what got into the trap beside it.
struct Place {
    port: u16,
    trapped: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Place {
    fn new() -> Self {
        let bound = || {
            let trap = TcpListener::bind("127.0.0.1:0").ok()?;
            let port = trap.local_addr().ok()?.port();
            let service = TcpListener::bind(("127.0.0.2", port)).ok()?;
            // A machine may have no IPv6.
            let has_v6 = TcpListener::bind("[::1]:0").is_ok();
            let second = TcpListener::bind(("::1", port)).ok();
            (second.is_some() || !has_v6).then_some((port, service, [Some(trap), second]))
        };
        let (port, service, traps) = (0..50).find_map(|_| bound()).expect("a port that is free at three addresses");
        let place = Self { port, trapped: Arc::default(), asked: Arc::default() };
        for trap in traps.into_iter().flatten() {
            let trapped = place.trapped.clone();
            let count = move |_| {
                trapped.fetch_add(1, Ordering::SeqCst);
            };
            std::thread::spawn(move || trap.incoming().for_each(count));
        }
        let asked = place.asked.clone();
        std::thread::spawn(move || service.incoming().flatten().for_each(|stream| answer(stream, &asked)));
        place
    }

    fn here(&self, text: &str) -> String {
        text.replace("PORT", &self.port.to_string())
    }
}

/// Redirects to where the request's `x-to` says, else answers.
fn answer(mut stream: TcpStream, asked: &Mutex<Vec<String>>) {
    let (mut head, mut part) = (String::new(), [0; 4096]);
    while !head.contains("\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(n) if n > 0 => head.push_str(&String::from_utf8_lossy(&part[..n])),
            _ => return,
        }
    }
    let first = head.lines().next().unwrap_or_default().to_owned();
    let to = first.split_once("to=").and_then(|(_, to)| to.split([' ', '&']).next()).map(decoded).unwrap_or_default();
    asked.lock().unwrap().push(first);
    let reply = match to.as_slice() {
        [] => b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
            .to_vec(),
        to => {
            [b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nconnection: close\r\nlocation: ".as_slice(), to, b"\r\n\r\n"]
                .concat()
        }
    };
    let _ = stream.write_all(&reply);
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let hex: Vec<u8> = bytes.by_ref().take(2).collect();
                out.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
            }
            byte => out.push(byte),
        }
    }
    out
}

/// The service's name means the service; any other one these addresses, one after the other and the last one for ever.
fn names(means: &str) -> Lookup {
    let means: Vec<IpAddr> = means.split(' ').filter_map(|ip| ip.parse().ok()).collect();
    let times = Arc::new(AtomicUsize::new(0));
    Arc::new(move |name: String| -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let found = match name.as_str() {
            "api.example.org" => IpAddr::from([127, 0, 0, 2]),
            _ => means[times.fetch_add(1, Ordering::SeqCst).min(means.len() - 1)],
        };
        Box::pin(async move { Ok(vec![found]) })
    })
}

/// Makes one call: what it is refused with, or what was answered.
async fn call(file: &str, args: Value, lookup: Lookup) -> Result<Vec<u8>, String> {
    let tool = HttpTool::parse(Path::new("tools/t.http"), file).map_err(|e| e.problem)?;
    let client = client(http_client("http:"), &tool.plan, lookup).unwrap();
    let runner = Runner {
        plan: tool.plan,
        secrets: BTreeMap::new(),
        recordings: None,
        client: OnceLock::from(client),
        kept: Mutex::default(),
    };
    let args = args.as_object().unwrap();
    let refused = |e: ToolError| e.to_string();
    let request = runner.prepare(args, &BTreeMap::new()).map_err(refused)?;
    let asked = runner.ask(args, &request, true).await.map_err(refused)?;
    asked.map(|answer| answer.body).map_err(|e| e.to_string())
}

async fn tried(place: &Place, by: By, target: &str) -> Result<Vec<u8>, String> {
    let allow = "127.0.0.2, 'means.example.org:PORT'";
    let redirecting = format!(
        "url: http://api.example.org:PORT/go?to={{to}}\nargs: {{to: {{type: string}}}}\nallow_hosts: [{allow}]"
    );
    let file = |header: &str| place.here(&format!("---\ndescription: d\ntimeout: 5s\n{header}\n---\n"));
    let to = |target: &str| json!({"to": target});
    match by {
        Redirect => call(&file(&redirecting), to(target), names("127.0.0.1")).await,
        Means => {
            let again = place.here("http://means.example.org:PORT/go?to=http%3A%2F%2Fmeans.example.org%3APORT%2F");
            call(&file(&redirecting), to(&again), names(target)).await
        }
        File => {
            let args = if target.contains("{to}") { "args: {to: {type: string}}" } else { "args: {}" };
            call(&file(&format!("url: '{target}'\n{args}")), to("127.0.0.1"), names("127.0.0.1")).await
        }
        Allow => {
            let header = format!("url: http://api.example.org:PORT/\nallow_hosts: [127.0.0.2, '{target}']");
            call(&file(&header), json!({}), names("127.0.0.1")).await
        }
        Argument => {
            let head = if target.contains('\n') { "headers: {X-To: '{to}'}" } else { "headers: {}" };
            let path = if target.contains('\n') { "" } else { "{to}" };
            let header = format!(
                "url: http://api.example.org:PORT/{path}\nargs: {{to: {{type: string}}}}\n{head}\nallow_hosts: [{allow}]"
            );
            call(&file(&header), to(target), names("127.0.0.1")).await
        }
    }
}

#[tokio::test]
async fn nothing_inside_is_asked_whatever_way_it_is_written() {
    let place = Place::new();
    let mut wrong = Vec::new();
    for (by, target, words) in CASES {
        let (target, words) = (place.here(target), place.here(words));
        let told = match tried(&place, *by, &target).await {
            Err(told) => told,
            Ok(body) => format!("ANSWERED: {}", String::from_utf8_lossy(&body)),
        };
        println!("{by:?} {target:?}: {told}");
        if !told.contains(&words) || told.starts_with("ANSWERED") || place.trapped.load(Ordering::SeqCst) > 0 {
            wrong.push(format!("{by:?} {target:?}: {told} ({words} was expected)"));
        }
    }
    println!("{} cases", CASES.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The way itself is open: it is not for another reason that nothing arrives.
    assert!(tried(&place, Redirect, &place.here("http://api.example.org:PORT/")).await.is_ok());
    assert!(tried(&place, Means, "127.0.0.2").await.is_ok());
    let trap = SocketAddr::from(([127, 0, 0, 1], place.port));
    assert!(TcpStream::connect(trap).is_ok());
    while place.trapped.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_a_model_writes_stays_where_it_stands() {
    let place = Place::new();
    for text in STAYS {
        let text = place.here(text);
        let answered = tried(&place, Argument, &text).await;
        let asked = place.asked.lock().unwrap().pop().unwrap_or_default();
        println!("{text:?}: {asked}");
        assert!(answered.is_ok(), "{text:?}: {answered:?}");
        let path = asked.strip_prefix("GET /").and_then(|rest| rest.strip_suffix(" HTTP/1.1"));
        assert!(path.is_some_and(|path| !path.contains(['/', '?', ' ', '#'])), "{text:?}: {asked}");
    }
    assert_eq!(place.trapped.load(Ordering::SeqCst), 0);
}
