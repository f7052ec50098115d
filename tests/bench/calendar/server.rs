//! A CalDAV server in memory that can be read: discovery, `sync-collection` and `calendar-multiget`, and nothing else.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use jiff::Span;
use jiff::civil::Date;

use crate::Failed;

/// The account's home, in which its calendars are.
const HOME: &str = "/ada/";

pub struct Server {
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    /// Of each calendar, its items by their number.
    calendars: Vec<Vec<String>>,
    own_us: AtomicU64,
}

impl Server {
    /// Serves so many events, spread over calendars and over a year around `today`, until the program ends.
    pub fn start(calendars: usize, events: usize, today: Date) -> Result<Self, Failed> {
        let mut all = vec![Vec::new(); calendars];
        for n in 0..events {
            all[n % calendars].push(event(n, events, today)?);
        }
        let shared = Arc::new(Shared { calendars: all, own_us: AtomicU64::new(0) });
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}{HOME}", listener.local_addr()?);
        let all = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = all.clone();
                std::thread::spawn(move || drop(shared.serve(&stream)));
            }
        });
        Ok(Self { url, shared })
    }

    /// Seconds in which it worked on answers.
    pub fn own_time(&self) -> f64 {
        self.shared.own_us.load(Ordering::Relaxed) as f64 / 1e6
    }
}

/// An event; one of fifty is a weekly series.
fn event(n: usize, of: usize, today: Date) -> Result<String, Failed> {
    let day = today.checked_add(Span::new().days(i64::try_from(n * 364 / of)? - 182))?;
    let start = day.at(i8::try_from(7 + n % 11)?, i8::try_from(n * 7 % 60)?, 0, 0);
    let end = start.checked_add(Span::new().minutes(30))?;
    let rule = if n.is_multiple_of(50) { "RRULE:FREQ=WEEKLY;COUNT=10\r\n" } else { "" };
    let (start, end) = (start.strftime("%Y%m%dT%H%M%SZ"), end.strftime("%Y%m%dT%H%M%SZ"));
    Ok(format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//bench//EN\r\nBEGIN:VEVENT\r\nUID:event-{n}\r\nDTSTAMP:20260101T000000Z\r\n\
         DTSTART:{start}\r\nDTEND:{end}\r\n{rule}SUMMARY:Event number {n}\r\nLOCATION:Room {}\r\n\
         DESCRIPTION:What is said of event number {n}\\, in a line that is long enough \r\n to be folded.\r\n\
         END:VEVENT\r\nEND:VCALENDAR\r\n",
        n % 40
    ))
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut input = BufReader::new(stream);
        loop {
            let (mut first, mut length) = (String::new(), 0);
            if input.read_line(&mut first)? == 0 {
                return Ok(());
            }
            loop {
                let mut line = String::new();
                input.read_line(&mut line)?;
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().unwrap_or(0);
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            input.read_exact(&mut body)?;
            let begun = Instant::now();
            let mut words = first.split(' ');
            let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let (status, answer) = match self.answer(method, path, &String::from_utf8_lossy(&body)) {
                Some(inner) => ("207 Multi-Status", multistatus(&inner)),
                None => ("404 Not Found", String::new()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/xml\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            let mut output = stream;
            output.write_all(format!("{head}{answer}").as_bytes())?;
            let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.own_us.fetch_add(took, Ordering::Relaxed);
        }
    }

    fn answer(&self, method: &str, path: &str, body: &str) -> Option<String> {
        let calendar = path.strip_prefix(HOME)?.trim_end_matches('/');
        let at = calendar.strip_prefix("cal").and_then(|n| n.parse::<usize>().ok());
        match (method, at) {
            ("PROPFIND", None) => Some(self.found(body)),
            ("REPORT", Some(at)) if body.contains("sync-collection") => self.listed(at),
            ("REPORT", Some(at)) => self.items(at, body),
            _ => None,
        }
    }

    /// The account, its home and its calendars in one.
    fn found(&self, body: &str) -> String {
        let own = format!(
            "<current-user-principal><href>{HOME}</href></current-user-principal>\
             <c:calendar-home-set><href>{HOME}</href></c:calendar-home-set><resourcetype><collection/></resourcetype>"
        );
        let mut all = response(HOME, &own);
        if body.contains("displayname") {
            for at in 0..self.calendars.len() {
                let properties = format!(
                    "<resourcetype><collection/><c:calendar/></resourcetype><displayname>cal{at}</displayname>\
                     <sync-token>t</sync-token>"
                );
                all.push_str(&response(&format!("{HOME}cal{at}/"), &properties));
            }
        }
        all
    }

    fn listed(&self, at: usize) -> Option<String> {
        let mut all = String::new();
        for n in 0..self.calendars.get(at)?.len() {
            all.push_str(&response(&format!("{HOME}cal{at}/{n}.ics"), "<getetag>\"1\"</getetag>"));
        }
        all.push_str("<sync-token>t</sync-token>");
        Some(all)
    }

    fn items(&self, at: usize, body: &str) -> Option<String> {
        let items = self.calendars.get(at)?;
        let mut all = String::new();
        for part in body.split(".ics<") {
            let Some((_, n)) = part.rsplit_once('/') else { continue };
            let Some(item) = n.parse::<usize>().ok().and_then(|n| items.get(n)) else { continue };
            let properties = format!("<getetag>\"1\"</getetag><c:calendar-data>{item}</c:calendar-data>");
            all.push_str(&response(&format!("{HOME}cal{at}/{n}.ics"), &properties));
        }
        Some(all)
    }
}

fn response(href: &str, properties: &str) -> String {
    let mut text = String::new();
    let _ = write!(
        text,
        "<response><href>{href}</href><propstat><prop>{properties}</prop><status>HTTP/1.1 200 OK</status></propstat></response>"
    );
    text
}

fn multistatus(inner: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><multistatus xmlns=\"DAV:\" xmlns:c=\"urn:ietf:params:xml:ns:caldav\">{inner}</multistatus>"
    )
}
