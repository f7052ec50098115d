//! Calendars and address books are connected by one command, which changes nothing where it fails and nothing the second
//! time; and `doctor` tries them. Against a real server of both.

use crate::support::radicale::{CALENDAR, PASSWORD, Radicale};
use crate::support::{Household, Terminal, eventually};

const BOOK: &str = "/ada/people/";

/// Another collection of Ada's.
async fn make(server: &Radicale, kind: &str, path: &str) {
    let body = match kind {
        "calendar" => String::new(),
        _ => "<d:mkcol xmlns:d=\"DAV:\" xmlns:a=\"urn:ietf:params:xml:ns:carddav\"><d:set><d:prop><d:resourcetype>\
              <d:collection/><a:addressbook/></d:resourcetype></d:prop></d:set></d:mkcol>"
            .to_owned(),
    };
    server.send(if kind == "calendar" { "MKCALENDAR" } else { "MKCOL" }, path, body).await;
}

fn text(household: &Household, butler: &str) -> String {
    std::fs::read_to_string(household.roster().join(butler).join("butler.toml")).expect("the settings")
}

/// What a command says, all of it, and how it ended. The password is on its standard input.
fn run(household: &Household, args: &[&str], password: &str) -> (i32, String) {
    let (code, out, err) = tokio::task::block_in_place(|| household.cli_with_input(args, password));
    let said = format!("{out}{err}");
    assert!(password.is_empty() || !said.contains(password), "it tells the password: {said}");
    (code, said)
}

fn secrets(household: &Household) -> String {
    run(household, &["secret", "list"], "").1
}

fn doctor(household: &Household) -> String {
    run(household, &["doctor"], "").1
}

fn opened(household: &Household, args: &[&str]) -> Terminal {
    let (data, roster) = (household.data(), household.roster());
    let places = ["--data-dir", data.to_str().expect("a path"), "--roster", roster.to_str().expect("a path")];
    Terminal::open(household, &[args, &places].concat())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calendars_are_connected_by_one_command() {
    let Some(server) = Radicale::start("connect_accounts::calendars_are_connected_by_one_command").await else {
        return;
    };
    make(&server, "calendar", "/ada/work/").await;
    let url = server.server.url.clone();
    let household = Household::new();
    let _daemon = household.start().await;
    let before = text(&household, "general");
    let base = ["connect", "caldav", &url, "--user", "ada"];
    // Nothing is changed by what fails.
    for (more, password, said) in [
        (vec![], "wrong", "does not accept the user name or the password"),
        (vec!["--calendar", "garden"], PASSWORD, "there is no `garden`; there are: `ada/cal`, `ada/work`"),
        (vec!["--calendar", "cal", "--private", "work"], PASSWORD, "there is no `work`"),
        (vec!["--address", "ada"], PASSWORD, "`ada` is no mail address"),
        (vec!["--butler", "nobody"], PASSWORD, "nobody/butler.toml can't be read"),
    ] {
        let (code, shown) = run(&household, &[&base[..], &more].concat(), password);
        assert!(code != 0 && shown.contains(said), "{more:?}: {shown}");
        assert_eq!(text(&household, "general"), before, "{more:?}");
        assert!(!secrets(&household).contains("BUTLER_CALENDAR_PASSWORD"), "{more:?}");
    }
    let (code, shown) = run(&household, &["connect", "caldav", "https://ada:hush@dav.example"], PASSWORD);
    assert!(code != 0 && !shown.contains("hush"), "{shown}");

    let mut terminal = opened(&household, &base);
    terminal.answers("not shown", PASSWORD).await;
    terminal.answers("as invitations name you", "ada@example.org").await;
    terminal.answers("new events go into the first", "3").await;
    terminal.sees("There is no `3`").await;
    terminal.answers("new events go into the first", "work").await;
    terminal.sees("butlerd reload").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    assert!(!terminal.shown().contains(PASSWORD), "{}", terminal.shown());
    let after = text(&household, "general");
    let section = format!(
        "[modules.calendar]\nprovider = \"caldav\"\nurl = \"{url}\"\nuser = \"ada\"\n\
         password = \"BUTLER_CALENDAR_PASSWORD\"\ncalendars = [\"ada/work\"]\nown_addresses = [\"ada@example.org\"]\n"
    );
    // The household's own calendar went, and nothing else.
    let (kept, _) = before.split_once("\n# The household's calendar").expect("the shipped section");
    assert!(after.starts_with(kept) && after.ends_with(&section), "{after}");
    assert_eq!(after.matches("[modules.calendar]").count(), 1, "{after}");
    assert!(secrets(&household).contains("BUTLER_CALENDAR_PASSWORD"));

    // Again changes nothing, and no other account takes its place.
    let (code, shown) = run(&household, &base, PASSWORD);
    assert!(code == 0 && shown.contains("stay as they are"), "{shown}");
    let (code, shown) = run(&household, &["connect", "caldav", &url, "--user", "bea"], "no-such-password");
    assert!(code != 0 && shown.contains("already, and nothing was changed"), "{shown}");
    assert_eq!(text(&household, "general"), after);

    let (code, shown) = run(&household, &["reload"], "");
    assert_eq!(code, 0, "{shown}");
    server.send("PUT", "/ada/work/a.ics", event("a", "Board meeting")).await;
    eventually("the butler follows it", || async {
        let (_, synced) = run(&household, &["calendar", "sync"], "");
        let (_, shown) = run(&household, &["calendar", "list", "--from", "2027-03-01", "--to", "2027-04-01"], "");
        if shown.contains("Board meeting") { Ok(()) } else { Err(format!("{synced}\n{shown}")) }
    })
    .await;
    assert!(doctor(&household).contains(&format!("ada at {url} lets the household in (calendar)")));
    // Where nobody is named, the account is meant, and not the household's own calendar of the first butler.
    let (code, shown) = run(&household, &["calendar", "add", "Dinner", "2027-03-11T19:00"], "");
    assert_eq!(code, 0, "{shown}");
    let window = ["--from", "2027-03-01", "--to", "2027-04-01"];
    let (_, shown) = run(&household, &[&["calendar", "list", "--butler", "general"], &window[..]].concat(), "");
    assert!(shown.contains("Dinner"), "{shown}");
    let (code, shown) = run(&household, &["calendar", "conflicts"], "");
    assert!(code == 0 && shown.contains("No conflicts"), "{shown}");
}

fn event(uid: &str, title: &str) -> String {
    format!(
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t//EN\r\nBEGIN:VEVENT\r\nUID:{uid}\r\nDTSTAMP:20270101T000000Z\r\n\
         DTSTART:20270310T090000Z\r\nDTEND:20270310T100000Z\r\nSUMMARY:{title}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_book_is_connected_by_one_command() {
    let Some(server) = Radicale::start("connect_accounts::an_address_book_is_connected_by_one_command").await else {
        return;
    };
    make(&server, "people", BOOK).await;
    let card = "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:bea\r\nFN:Bea\r\nN:Bea;;;;\r\nEMAIL:bea@example.org\r\nEND:VCARD\r\n";
    server.send("PUT", &format!("{BOOK}bea.vcf"), card.to_owned()).await;
    let url = server.server.url.clone();
    let household = Household::new();
    let _daemon = household.start().await;
    let before = text(&household, "general");
    let base = ["connect", "carddav", &url, "--user", "ada"];
    let (code, shown) = run(&household, &[&base[..], &["--address-book", "garden"]].concat(), PASSWORD);
    assert!(code != 0 && shown.contains("there is no `garden`; there are: `ada/people`"), "{shown}");
    assert_eq!(text(&household, "general"), before);
    // There is no butler `relationship` here.
    let (code, shown) = run(&household, &base, PASSWORD);
    assert_eq!(code, 0, "{shown}");
    let after = text(&household, "general");
    let section = format!("url = \"{url}\"\nuser = \"ada\"\npassword = \"BUTLER_CONTACTS_PASSWORD\"\n");
    // The household's own calendar went, and nothing else.
    let (kept, _) = before.split_once("\n# The household's calendar").expect("the shipped section");
    assert!(after.starts_with(kept) && after.ends_with(&section), "{after}");
    assert_eq!(after.matches("[modules.calendar]").count(), 1, "{after}");
    let (code, _) = run(&household, &base, PASSWORD);
    assert_eq!((code, text(&household, "general")), (0, after));
    // With a second one, somebody has to say which.
    make(&server, "people", "/ada/club/").await;
    let other = [&base[..], &["--butler", "health"]].concat();
    let (code, shown) = run(&household, &other, PASSWORD);
    assert!(code != 0 && shown.contains("there are several: ") && shown.contains("--address-book NAME"), "{shown}");
    let mut terminal = opened(&household, &other);
    terminal.answers("not shown", PASSWORD).await;
    terminal.answers("Which address book", "club").await;
    terminal.sees("butlerd reload").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    // The same account has the same secret.
    let health = text(&household, "health");
    assert!(health.ends_with("password = \"BUTLER_CONTACTS_PASSWORD\"\naddress_book = \"ada/club\"\n"), "{health}");
    // The first one's settings don't say which of the two that there are by now.
    let (code, shown) = run(&household, &["reload"], "");
    assert_eq!(code, 0, "{shown}");
    let tried = doctor(&household);
    assert!(tried.contains("set `address_book` to one of"), "{tried}");
    assert!(tried.contains("(ada/club) lets the household in (contacts)"), "{tried}");
}

/// What `doctor` finds of accounts, as `status` and its sentence.
fn accounts(household: &Household) -> Vec<String> {
    let shown = run(household, &["doctor"], "").1;
    shown
        .lines()
        .filter(|line| line.contains("lets the household in") || line.contains("does not work"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_tries_each_account_and_says_what_is_wrong() {
    let Some(server) = Radicale::start("connect_accounts::doctor_tries_each_account").await else { return };
    make(&server, "people", BOOK).await;
    let host = server.server.url.trim_start_matches("http://").to_owned();
    let household = Household::new().with_caldav("general", &server, "").with_caldav("health", &server, "");
    let wrong = text(&household, "health").replace("calendars = [\"cal\"]", "calendars = [\"cal\", \"garden\"]");
    let books = |secret: &str, more: &str| {
        format!(
            "\n[modules.contacts]\nprovider = \"carddav\"\nurl = \"{}\"\nuser = \"ada\"\npassword = \"{secret}\"\n{more}",
            server.server.url
        )
    };
    let general = format!("{}{}", text(&household, "general"), books("BUTLER_CONTACTS_PASSWORD", ""));
    let health = format!("{wrong}{}", books("BUTLER_CONTACTS_PASSWORD", "address_book = \"garden\"\n"));
    let switchboard = format!("{}{}", text(&household, "switchboard"), books("OTHER_PASSWORD", ""));
    let household = household
        .write("general/butler.toml", &general)
        .write("health/butler.toml", &health)
        .write("switchboard/butler.toml", &switchboard)
        .env("BUTLER_CONTACTS_PASSWORD", PASSWORD)
        .env("OTHER_PASSWORD", "no-such-password");
    let _daemon = household.start().await;
    // A trial looks by itself, whatever a sync found.
    let all = accounts(&household);
    let has = |words: &[&str]| all.iter().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&[&format!("ada at {} lets the household in (calendar)", server.server.url)]), "{all:?}");
    assert!(has(&["no calendar `garden`", "there are: `ada/cal`", "Correct `calendars`"]), "{all:?}");
    assert!(has(&[&format!("ada at {host} lets the household in (contacts)")]), "{all:?}");
    assert!(has(&["no address book `garden`", "`ada/people`"]), "{all:?}");
    assert!(has(&["does not accept the user name or the password", "butlerd secret set OTHER_PASSWORD"]), "{all:?}");
    let (code, _) = run(&household, &["doctor"], "");
    assert_ne!(code, 0);
    let (_, json) = run(&household, &["doctor", "--json"], "");
    assert!(!json.contains("no-such-password") && !json.contains(PASSWORD), "{json}");
    // A calendar that is deleted at the server is missed at the next look.
    server.send("DELETE", CALENDAR, String::new()).await;
    let all = accounts(&household);
    assert!(!all.iter().any(|line| line.contains("lets the household in (calendar)")), "{all:?}");
}
