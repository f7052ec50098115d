//! Calendars and contacts at Google, from the command that people type to what they see in the house: access that is given,
//! given in part, refused, renewed and taken back. Against a real OpenID provider and stand-ins of Google's services, which
//! let in whoever that provider knows.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::calendar_caldav::{event, synced, titles};
use crate::google::calendar::{ADA, Calendars};
use crate::google::people::People;
use crate::google::{Answer, Call, Discovery, Google, Service};
use crate::support::oidc::{CLIENT, CLIENT_WITH_SECRET, Oidc};
use crate::support::{Daemon, Household, Mcp, Terminal, eventually, http};

const FAMILY: &str = "family@group.calendar.google.com";
const LIST: &str = "calendar.events.list";

/// Calendars whose server ends all access tokens while a list is read.
struct Ending {
    calendars: Calendars,
    provider: String,
    /// In how many pages; 0: not at all.
    pages: AtomicUsize,
}

impl Service for Ending {
    fn answer(&self, call: &Call) -> Answer {
        let last = |left: usize| left.checked_sub(1);
        if call.id == LIST && self.pages.fetch_update(Ordering::SeqCst, Ordering::SeqCst, last) == Ok(1) {
            let mut stream = TcpStream::connect(&self.provider).expect("the provider");
            let asked =
                "POST /control/end_access HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(asked.as_bytes()).expect("it is asked");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        self.calendars.answer(call)
    }
}

/// Ada's account: who gives access to it, and what is in it.
struct Account {
    oidc: Oidc,
    google: Google,
    calendars: Arc<Ending>,
    people: Arc<People>,
}

impl Account {
    /// `None` where the provider or Google's descriptions are not installed.
    async fn start(test: &str) -> Option<Self> {
        let calendar = Discovery::open(test, "calendar.v3", &[])?;
        let contacts = Discovery::open(test, "people.v1", &["Person.metadata"])?;
        let oidc = Oidc::start().await?;
        let provider = oidc.issuer().trim_start_matches("http://").to_owned();
        let calendars = Arc::new(Ending { calendars: Calendars::default(), provider, pages: AtomicUsize::new(0) });
        calendars.calendars.add(ADA, "Ada", "owner");
        let people = Arc::new(People::default());
        let services: Vec<(Discovery, Arc<dyn Service>)> =
            vec![(calendar, calendars.clone()), (contacts, people.clone())];
        let google = Google::start_all(services, &oidc.introspection()).await;
        Some(Self { oidc, google, calendars, people })
    }

    fn put(&self, id: &str, title: &str) {
        let event = json!({"id": id, "summary": title,
            "start": {"dateTime": "2027-03-10T09:00:00+01:00", "timeZone": "Europe/Berlin"},
            "end": {"dateTime": "2027-03-10T10:00:00+01:00", "timeZone": "Europe/Berlin"}});
        self.calendars.calendars.put(ADA, event);
    }

    fn titles(&self) -> Vec<String> {
        self.calendars.calendars.titles(ADA)
    }

    /// The tokens that opened the calendar, in the order of their first use.
    fn tokens(&self) -> Vec<String> {
        let mut tokens: Vec<String> = Vec::new();
        for call in self.google.calls(LIST) {
            let token = call.headers["authorization"].trim_start_matches("Bearer ").to_owned();
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
        tokens
    }

    /// Types `butlerd connect google ada@example.org` with `more`, and the client's secret where it is asked for.
    async fn connect(&self, household: &Household, client: &str, secret: &str, more: &[&str]) -> Terminal {
        let (data, roster, url) = (household.data(), household.roster(), self.google.url());
        let places = ["--data-dir", data.to_str().expect("a path"), "--roster", roster.to_str().expect("a path")];
        let stands_in = ["--client", client, "--issuer", self.oidc.issuer(), "--api-url", &url];
        let typed = [&["connect", "google", ADA][..], more, &stands_in, &places].concat();
        let mut terminal = Terminal::open(household, &typed);
        terminal.answers("not shown", secret).await;
        terminal
    }

    /// Opens the address that is shown, and does there what the provider's person does.
    async fn browse(&self, terminal: &mut Terminal) -> String {
        terminal.sees("code_challenge=").await;
        let begin = format!("{}/auth", self.oidc.issuer());
        let address = eventually("the whole address", || async {
            let shown = terminal.shown();
            let found = shown.split_whitespace().find(|word| word.starts_with(&begin) && word.contains("state="));
            found.map(str::to_owned).ok_or(shown)
        })
        .await;
        let end = self.oidc.consent(&address).await;
        http().get(&end).send().await.expect("a page");
        address
    }

    /// Gives access to Ada's calendar, to which nobody else has any.
    async fn give_calendar(&self, household: &Household) -> String {
        let mut terminal =
            self.connect(household, CLIENT, "", &["--calendar", "--only", "Ada", "--private", "Ada"]).await;
        self.browse(&mut terminal).await;
        terminal.sees("butlerd reload").await;
        assert_eq!(terminal.end(), 0, "{}", terminal.shown());
        terminal.shown()
    }
}

fn settings(household: &Household) -> String {
    std::fs::read_to_string(household.roster().join("general/butler.toml")).expect("the settings")
}

fn said(household: &Household, args: &[&str]) -> String {
    let (_, out, err) = tokio::task::block_in_place(|| household.cli(args));
    format!("{out}{err}")
}

/// The files of a household that hold one of these texts.
fn files_with(household: &Household, texts: &[String]) -> Vec<String> {
    let mut grep = Command::new("grep");
    grep.args(["--recursive", "--text", "--fixed-strings", "--files-with-matches", "--devices=skip", "--file=-"]);
    // Files of the database may go while they are looked at.
    grep.arg(household.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut grep = grep.spawn().expect("grep runs");
    grep.stdin.take().expect("its input").write_all(texts.join("\n").as_bytes()).expect("it is taken");
    let found = grep.wait_with_output().expect("its output").stdout;
    String::from_utf8_lossy(&found).lines().map(str::to_owned).collect()
}

/// The processes of this machine whose arguments or environment hold one of these texts.
fn processes_with(texts: &[String]) -> Vec<String> {
    let of = |place: &std::path::Path| {
        ["cmdline", "environ"].map(|part| std::fs::read(place.join(part)).unwrap_or_default()).concat()
    };
    let all = std::fs::read_dir("/proc").expect("proc").flatten().map(|entry| of(&entry.path()));
    let all = all.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    all.filter(|shown| texts.iter().any(|text| shown.contains(text))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calendars_and_contacts_are_connected_by_one_command_and_followed_from_the_next_start() {
    let Some(account) = Account::start("connect_google::connected_by_one_command").await else { return };
    account.calendars.calendars.add(FAMILY, "Family", "reader");
    account.put("dentist", "Dentist");
    account.people.add(json!({"names": [{"givenName": "Bea"}], "emailAddresses": [{"value": "bea@example.org"}]}));
    let household = Household::new();
    let daemon = household.start().await;
    let before = settings(&household);
    let (client, secret) = CLIENT_WITH_SECRET;
    let mut terminal = account.connect(&household, client, secret, &["--calendar", "--contacts"]).await;
    let address = account.browse(&mut terminal).await;
    assert!(address.contains("auth%2Fcalendar") && address.contains("auth%2Fcontacts"), "{address}");
    assert!(!address.contains("mail.google.com"), "{address}");
    // What she sees, in its order: whose calendars there are, which of them she may choose, and what comes next.
    terminal.sees("127.0.0.1 gave access").await;
    terminal.sees(&format!("{ADA} has 2 calendars")).await;
    terminal.sees("1  Ada").await;
    terminal.sees("2  Family, which this account only reads").await;
    terminal.answers("new events go into the first", "Ada, 2").await;
    terminal.sees(&format!("{ADA} has 1 contacts")).await;
    terminal.sees("what opens it is stored as BUTLER_GOOGLE_GRANT, encrypted").await;
    terminal.sees("written for the butler general").await;
    terminal.sees("butlerd calendar sync --butler general · butlerd contacts sync --butler general").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    let shown = terminal.shown();
    let after = settings(&household);
    let keys = format!(
        "provider = \"google\"\nuser = \"{ADA}\"\ngrant = \"BUTLER_GOOGLE_GRANT\"\nurl = \"{}\"\n",
        account.google.url()
    );
    let sections = format!(
        "[modules.calendar]\n{keys}calendars = [\"Ada\",\"Family\"]\n\n\
         # An address book, kept equal with the people whom the household knows.\n[modules.contacts]\n{keys}"
    );
    // The household's own calendar went, and nothing else.
    let (kept, _) = before.split_once("\n# The household's calendar").expect("the shipped section");
    assert!(after.starts_with(kept) && after.ends_with(&sections), "{after}");
    assert_eq!(after.matches("[modules.calendar]").count(), 1, "{after}");

    drop(daemon);
    let daemon = household.start().await;
    eventually("a calendar and a contact are in the house", || async {
        let events = said(&household, &["calendar", "list", "--from", "2027-03-01", "--to", "2027-04-01"]);
        let people = said(&household, &["contacts", "list"]);
        let both = events.contains("Dentist") && people.contains("bea@example.org");
        if both { Ok(()) } else { Err(format!("{events}\n{people}")) }
    })
    .await;
    // What the house changes is there as well, by the same access.
    daemon.mcp("general").ok("calendar_create_event", event("Tea", "2027-03-11T16:00")).await;
    eventually("Google has it", || async {
        let titles = account.titles();
        if titles == ["Dentist", "Tea"] { Ok(()) } else { Err(format!("{titles:?}")) }
    })
    .await;
    let doctor = said(&household, &["doctor"]);
    let good = |what: &str| doctor.lines().any(|line| line.contains("lets the household in") && line.contains(what));
    assert!(good("(calendar)") && good("(contacts)"), "{doctor}");
    // What opens the account is in no file, log, argument or environment: neither of the command nor of the daemon.
    let mut secrets = account.oidc.given().await;
    assert_eq!(secrets.len(), 2, "a token and what renews it");
    assert_eq!(account.tokens(), secrets[..1]);
    secrets.push(secret.to_owned());
    assert!(!files_with(&household, &["BUTLER_GOOGLE_GRANT".to_owned()]).is_empty(), "files are looked through");
    assert_eq!(files_with(&household, &secrets), [] as [&str; 0]);
    assert_eq!(processes_with(&secrets), [] as [&str; 0]);
    let told = format!("{shown}{doctor}{}", daemon.log());
    assert!(!secrets.iter().any(|secret| told.contains(secret)), "somebody tells a secret");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_gives_less_or_nothing_is_told_what_to_do_and_nothing_is_changed() {
    let Some(account) = Account::start("connect_google::gives_less_or_nothing").await else { return };
    let household = Household::new();
    let _daemon = household.start().await;
    let before = settings(&household);
    let both = ["--calendar", "--contacts", "--only", "Ada"];
    let unchanged = async |mut terminal: Terminal, why: &[&str]| {
        for words in why {
            terminal.sees(words).await;
        }
        assert_ne!(terminal.end(), 0, "{}", terminal.shown());
        assert_eq!(settings(&household), before, "{why:?}");
        let stored = said(&household, &["secret", "list"]);
        assert!(!stored.contains("BUTLER_GOOGLE_GRANT"), "{why:?}: {stored}");
    };
    account.oidc.refuse(1).await;
    let mut terminal = account.connect(&household, CLIENT, "", &both).await;
    account.browse(&mut terminal).await;
    unchanged(terminal, &["Nothing was changed: access was refused at 127.0.0.1", "start again, and agree there"])
        .await;
    // She unticks a box.
    account.oidc.hold_back("https://www.googleapis.com/auth/contacts").await;
    let mut terminal = account.connect(&household, CLIENT, "", &both).await;
    account.browse(&mut terminal).await;
    let less =
        ["Nothing was changed: access to your contacts was not given", "leave every box on Google's page ticked"];
    unchanged(terminal, &less).await;
    // The client's secret is another.
    let (client, _) = CLIENT_WITH_SECRET;
    let mut terminal = account.connect(&household, client, "no-such-secret", &both).await;
    account.browse(&mut terminal).await;
    unchanged(terminal, &["Nothing was changed: 127.0.0.1 does not work with these settings", "check client id"]).await;
    // What was held back is not needed for the calendar alone.
    let shown = account.give_calendar(&household).await;
    assert!(shown.contains("written for the butler general"), "{shown}");
    let after = settings(&household);
    assert!(after.contains("private = [\"Ada\"]") && !after.contains("[modules.contacts]"), "{after}");
}

async fn notices(household: &Household) -> i64 {
    let sql = "SELECT count(*) FROM shared.outbox WHERE kind = 'notice' AND message LIKE '%does not follow%'";
    household.owner().await.query_one(sql, &[]).await.expect("a count").get(0)
}

/// Asks for syncs until one failed, and what is said then.
async fn parked(butler: &Mcp) -> Value {
    eventually("it is parked", || async {
        let state = butler.ok("calendar_force_sync", json!({})).await["calendars"][0].clone();
        if state["state"] == "failed" { Ok(state) } else { Err(state.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_that_ends_amid_a_sync_is_renewed_once_and_access_taken_back_parks_the_calendar() {
    let Some(account) = Account::start("connect_google::renewed_and_taken_back").await else { return };
    account.put("dentist", "Dentist");
    let household = Household::new();
    let daemon = household.start().await;
    account.give_calendar(&household).await;
    drop(daemon);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    assert_eq!((titles(&butler).await, account.oidc.counts().await.refreshes), (vec!["Dentist".to_owned()], 0));
    // The token ends before its time after the second of seven pages, while something waits here to go there.
    for n in 0..6 {
        account.put(&format!("event{n}"), &format!("E{n}"));
    }
    account.calendars.calendars.pages_of(1);
    account.calendars.pages.store(2, Ordering::SeqCst);
    butler.ok("calendar_create_event", event("Tea", "2027-03-11T16:00")).await;
    synced(&butler).await;
    let all = ["Dentist", "E0", "E1", "E2", "E3", "E4", "E5", "Tea"];
    assert_eq!(
        (titles(&butler).await, account.titles()),
        (all.map(str::to_owned).into(), all.map(str::to_owned).into())
    );
    let counts = account.oidc.counts().await;
    assert_eq!((counts.refreshes, counts.reused, account.tokens().len()), (1, 0, 2), "{counts:?}");
    assert_eq!(account.calendars.pages.load(Ordering::SeqCst), 0, "the access did end");
    assert_eq!(notices(&household).await, 0);
    // What was renewed is written down: the next daemon needs no other.
    drop(daemon);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    assert_eq!((account.oidc.counts().await.refreshes, account.tokens().len()), (1, 2));

    // She takes the access back, at Google.
    account.oidc.revoke().await;
    butler.ok("calendar_create_event", event("Supper", "2027-03-12T19:00")).await;
    let state = parked(&butler).await;
    let why = state["error"].as_str().unwrap_or_default();
    let command = format!("butlerd connect google {ADA} --calendar");
    assert!(why.contains("does not accept the access that was given") && why.contains(&command), "{state}");
    assert_eq!(state["changes_waiting"], 1, "{state}");
    for _ in 0..3 {
        parked(&butler).await;
    }
    let told = async |daemon: &Daemon| {
        let seen = daemon.butler("general").await["modules"]["calendar"].clone();
        let note = seen["note"].as_str().unwrap_or_default().to_owned();
        if seen["health"] == "degraded" && note.contains(&command) { Ok(()) } else { Err(seen.to_string()) }
    };
    eventually("the status says it", || told(&daemon)).await;
    eventually("she is told once", || async {
        match notices(&household).await {
            1 => Ok(()),
            n => Err(format!("{n} notices")),
        }
    })
    .await;
    let doctor = said(&household, &["doctor"]);
    assert!(doctor.contains(&command), "{doctor}");
    assert!(titles(&butler).await.contains(&"Supper".to_owned()), "here it is all the same");
    // Given again by that command, what waited goes on, and nobody is told again.
    let shown = account.give_calendar(&household).await;
    assert!(shown.contains("stay as they are"), "{shown}");
    drop(daemon);
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    synced(&butler).await;
    assert!(account.titles().contains(&"Supper".to_owned()), "{:?}", account.titles());
    assert_eq!(notices(&household).await, 1);
    let secrets = account.oidc.given().await;
    let log = daemon.log();
    assert!(!secrets.iter().any(|secret| log.contains(secret)), "the log tells a token");
}
