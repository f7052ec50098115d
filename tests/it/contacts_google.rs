//! The contacts of an account at Google and the people of the house: both ways, and never twice. Against a stand-in that
//! takes no request that Google's own description does not have.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::google::people::People;
use crate::google::{Discovery, Fault, Google};
use crate::support::oidc::{CLIENT, Oidc};
use crate::support::{Daemon, Household, Mcp, Terminal, eventually};

const TOKEN: &str = "token-of-ada";
const CREATE: &str = "people.people.createContact";
const UPDATE: &str = "people.people.updateContact";
const LIST: &str = "people.people.connections.list";

/// An account and its server.
struct Account {
    people: Arc<People>,
    google: Google,
}

impl Account {
    async fn start(test: &str, token: &str) -> Option<Self> {
        let described = Discovery::open(&format!("contacts_google::{test}"), "people.v1", &["Person.metadata"])?;
        let people = Arc::new(People::default());
        let google = Google::start(described, people.clone(), token).await;
        Some(Self { people, google })
    }

    /// Whoever has this address.
    fn by_mail(&self, mail: &str) -> Vec<Value> {
        self.people.all().into_iter().filter(|person| person.to_string().contains(mail)).collect()
    }

    fn writes(&self) -> usize {
        self.google.calls(CREATE).len() + self.google.calls(UPDATE).len()
    }
}

fn person(name: &str, mail: &str) -> Value {
    json!({"names": [{"givenName": name, "phoneticGivenName": "said so"}],
           "emailAddresses": [{"value": mail, "type": "my own", "displayName": "shown"}],
           "phoneNumbers": [{"type": "home"}], "addresses": [{"city": "London"}],
           "userDefined": [{"key": "shoes", "value": "42"}],
           "memberships": [{"contactGroupMembership": {"contactGroupResourceName": "contactGroups/myContacts"}}]})
}

/// A household that follows the account by access that was given to it.
async fn following(account: &Account) -> (Household, Daemon, Mcp) {
    let household = Household::new();
    let daemon = household.start().await;
    let grant = json!({"provider": "{}", "refresh": "refresh-of-ada", "access": TOKEN,
                       "expires_at": "2100-01-01T00:00:00Z",
                       "connect": "butlerd connect google ada@example.org --contacts"});
    let set = ["secret", "set", "BUTLER_GOOGLE_GRANT"];
    let (code, out, err) = tokio::task::block_in_place(|| household.cli_with_input(&set, &grant.to_string()));
    assert_eq!(code, 0, "{out}{err}");
    drop(daemon);
    let before = std::fs::read_to_string(household.roster().join("general/butler.toml")).expect("the file");
    let section = format!(
        "\n[modules.contacts]\nprovider = \"google\"\nuser = \"ada@example.org\"\nurl = \"{}\"\n\
         [modules.contacts.sync]\ninterval_minutes = 1440\n",
        account.google.url()
    );
    let household = household.write("general/butler.toml", &format!("{before}{section}"));
    let daemon = household.start().await;
    let butler = daemon.mcp("general");
    eventually("the first sync", || async {
        let status = butler.ok("contacts_sync_status", json!({})).await;
        if status["sources"][0]["state"] == "ok" { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    (household, daemon, butler)
}

async fn sync(butler: &Mcp) -> Value {
    let ran = butler.ok("contacts_sync_now", json!({})).await;
    assert_eq!(ran["status"], "ok", "{ran}");
    ran["source"].clone()
}

async fn people(daemon: &Daemon) -> Vec<String> {
    let list = daemon.mcp("switchboard").ok("contact_identity_list", json!({})).await;
    let line = |one: &Value| ["name", "channel", "identity"].map(|key| one[key].as_str().expect("a text")).join(" ");
    let mut lines: Vec<String> = list.as_array().expect("a list").iter().map(line).collect();
    lines.sort();
    lines
}

async fn add(daemon: &Daemon, name: &str, channel: &str, identity: &str) {
    let args = json!({"name": name, "channel": channel, "identity": identity});
    daemon.mcp("switchboard").ok("contact_identity_add", args).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_contacts_go_both_ways_and_keep_what_nobody_knows() {
    let Some(account) = Account::start("forty_contacts", TOKEN).await else { return };
    let names: Vec<String> =
        (0..40).map(|n| account.people.add(person(&format!("P{n}"), &format!("p{n}@example.org")))).collect();
    let (household, daemon, butler) = following(&account).await;
    let ran = sync(&butler).await;
    assert_eq!((&ran["cards"], &ran["linked"], &ran["to_push"]), (&json!(40), &json!(40), &json!(0)), "{ran}");
    assert_eq!((people(&daemon).await.len(), account.writes()), (40, 0));
    assert!(account.google.calls(LIST).len() >= 4, "there are pages");

    // The house learns a number, and knows somebody whom Google does not.
    add(&daemon, "P7", "phone", "+4930777").await;
    add(&daemon, "Carl", "email", "carl@example.org").await;
    // At Google somebody has another address, and another one's name is new.
    account.people.edit(&names[3], |p| p["emailAddresses"][0]["value"] = json!("new@example.org"));
    account.people.edit(&names[4], |p| p["names"][0]["givenName"] = json!("Dora"));
    sync(&butler).await;
    let p7 = account.people.get(&names[7]);
    assert_eq!(p7["phoneNumbers"], json!([{"type": "home"}, {"value": "+4930777"}]), "{p7}");
    let asked = account.google.calls(UPDATE);
    let fields: Vec<&str> = asked.iter().filter_map(|call| call.parameter("updatePersonFields")).collect();
    assert_eq!(fields, ["phoneNumbers"]);
    for key in ["addresses", "userDefined", "memberships", "emailAddresses"] {
        assert_eq!(p7[key], person("P7", "p7@example.org")[key], "{key}");
    }
    let carl = account.by_mail("carl@example.org");
    assert_eq!((carl.len(), &carl[0]["names"][0]["displayName"]), (1, &json!("Carl")), "{carl:?}");
    let now = people(&daemon).await;
    assert!(
        now.contains(&"P3 email new@example.org".to_owned()) && now.contains(&"Dora email p4@example.org".to_owned())
    );
    // The same again writes nothing.
    let (writes, before) = (account.writes(), people(&daemon).await);
    let ran = sync(&butler).await;
    sync(&butler).await;
    assert_eq!((account.writes(), people(&daemon).await), (writes, before), "{ran}");
    assert_eq!((&ran["cards"], &ran["conflicts"]), (&json!(41), &json!(0)), "{ran}");

    // What is deleted at Google is archived here.
    account.people.delete(&names[5]);
    let ran = sync(&butler).await;
    assert_eq!((&ran["cards"], &ran["archived"]), (&json!(40), &json!(1)), "{ran}");
    assert!(!people(&daemon).await.iter().any(|line| line.contains("p5@")));

    // A sync token that is too old leads to a list of all, and doubles nobody.
    let before = people(&daemon).await;
    account.people.forget();
    account.people.edit(&names[6], |p| p["emailAddresses"][0]["value"] = json!("six@example.org"));
    let ran = sync(&butler).await;
    assert_eq!((&ran["last_run"]["listed"], &ran["cards"]), (&json!(true), &json!(40)), "{ran}");
    assert_eq!(people(&daemon).await.len(), before.len());
    assert!(people(&daemon).await.contains(&"P6 email six@example.org".to_owned()));
    let (_, tried, _) = tokio::task::block_in_place(|| household.cli(&["doctor"]));
    assert!(tried.contains("ada@example.org at Google lets the household in (contacts)"), "{tried}");
    assert!(!daemon.log().contains(TOKEN), "the log holds the token");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_doubles_nobody_and_a_conflict_loses_nothing() {
    let Some(account) = Account::start("a_lost_answer", TOKEN).await else { return };
    let bea = account.people.add(person("Bea", "bea@example.org"));
    let (_household, daemon, butler) = following(&account).await;
    let fails = async |wanted: &str| {
        let ran = butler.ok("contacts_sync_now", json!({})).await;
        assert_eq!(ran["status"], wanted, "{ran}");
    };
    // It is made, and nobody hears of it.
    account.google.fault(CREATE, Fault::Lost);
    add(&daemon, "Carl", "email", "carl@example.org").await;
    fails("later").await;
    sync(&butler).await;
    sync(&butler).await;
    assert_eq!((account.by_mail("carl@").len(), account.google.calls(CREATE).len()), (1, 1));
    // So with a change.
    account.google.fault(UPDATE, Fault::Lost);
    add(&daemon, "Bea", "phone", "+4930777").await;
    fails("later").await;
    sync(&butler).await;
    let numbers = json!([{"type": "home"}, {"value": "+4930777"}]);
    assert_eq!(account.people.get(&bea)["phoneNumbers"], numbers);
    // Too many requests pass by themselves.
    account.google.fault(LIST, Fault::Refused(429, "RATE_LIMIT_EXCEEDED"));
    fails("later").await;
    account.google.fault(LIST, Fault::Refused(403, "userRateLimitExceeded"));
    fails("later").await;
    // Both sides change different parts of one contact: it has both.
    add(&daemon, "Bea", "telegram", "bea").await;
    account.people.edit(&bea, |p| p["emailAddresses"].as_array_mut().unwrap().push(json!({"value": "b@example.org"})));
    sync(&butler).await;
    let now = account.people.get(&bea);
    assert_eq!(now["imClients"], json!([{"protocol": "telegram", "username": "bea"}]), "{now}");
    assert_eq!(
        (now["emailAddresses"].as_array().map(Vec::len), &now["userDefined"][0]["key"]),
        (Some(2), &json!("shoes"))
    );
    assert!(people(&daemon).await.contains(&"Bea email b@example.org".to_owned()));
    // Somebody is faster between a look and the write.
    account.google.fault(UPDATE, Fault::Refused(400, "failedPrecondition"));
    add(&daemon, "Bea", "phone", "+4930778").await;
    sync(&butler).await;
    assert_eq!(account.people.get(&bea)["phoneNumbers"].as_array().map(Vec::len), Some(3));
    // Access that is taken back is for the owner to mend, and is said with the command.
    account.google.accept("another-token");
    let ran = butler.ok("contacts_sync_now", json!({})).await;
    let why = ran["error"].as_str().unwrap_or_default();
    assert!(why.contains("butlerd connect google ada@example.org --contacts"), "{ran}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_both_sides_changed_of_one_contact_stays_as_google_has_it_until_a_person_takes_the_houses() {
    let Some(account) = Account::start("changed_on_both_sides", TOKEN).await else { return };
    let mut bea = person("Bea", "bea@example.org");
    bea["phoneNumbers"] = json!([{"value": "+4930111", "type": "home"}]);
    let bea = account.people.add(bea);
    let (household, daemon, butler) = following(&account).await;
    assert_eq!(people(&daemon).await, ["Bea email bea@example.org", "Bea phone +4930111"]);
    // Each side gives her another number.
    let old = json!({"channel": "phone", "identity": "+4930111"});
    daemon.mcp("switchboard").ok("contact_identity_remove", old).await;
    add(&daemon, "Bea", "phone", "+4930222").await;
    account.people.edit(&bea, |p| p["phoneNumbers"][0]["value"] = json!("+4930333"));
    let ran = sync(&butler).await;
    assert_eq!((&ran["conflicts"], &ran["to_push"], &ran["cards"]), (&json!(1), &json!(0), &json!(1)), "{ran}");
    assert_eq!(account.people.get(&bea)["phoneNumbers"], json!([{"value": "+4930333", "type": "home"}]));
    assert_eq!(people(&daemon).await, ["Bea email bea@example.org", "Bea phone +4930333"]);
    // The house's is on record, and is hers again once somebody says so.
    let cli = |args: &[&str]| {
        let args = [&["contacts", "conflicts"], args, &["--butler", "general"]].concat();
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&args));
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    };
    let shown = cli(&[]);
    let id = shown.split_whitespace().next().expect("a conflict").to_owned();
    for words in ["both_edited", "base: TEL;TYPE=HOME:+4930111", "ours: TEL:+4930222", "theirs: TEL;TYPE=HOME:+4930333"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    cli(&[&id, "--take", "ours"]);
    let ran = sync(&butler).await;
    assert_eq!((&ran["conflicts"], &ran["to_push"]), (&json!(0), &json!(0)), "{ran}");
    let now = account.people.get(&bea);
    assert_eq!(now["phoneNumbers"], json!([{"value": "+4930222"}]), "{now}");
    for key in ["addresses", "userDefined", "memberships", "emailAddresses"] {
        assert_eq!(now[key], person("Bea", "bea@example.org")[key], "{key}");
    }
    assert_eq!(people(&daemon).await, ["Bea email bea@example.org", "Bea phone +4930222"]);
    assert!(cli(&[]).contains("No conflicts"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_google_deletes_while_the_house_edits_them_is_made_anew_once() {
    let Some(account) = Account::start("deleted_there", TOKEN).await else { return };
    let bea = account.people.add(person("Bea", "bea@example.org"));
    account.people.add(person("Dan", "dan@example.org"));
    let (household, daemon, butler) = following(&account).await;
    add(&daemon, "Bea", "phone", "+4930222").await;
    account.people.delete(&bea);
    let ran = sync(&butler).await;
    assert_eq!((&ran["cards"], &ran["archived"], &ran["conflicts"]), (&json!(2), &json!(0), &json!(1)), "{ran}");
    let both = ["Bea email bea@example.org", "Bea phone +4930222", "Dan email dan@example.org"];
    assert_eq!(people(&daemon).await, both);
    let again = account.by_mail("bea@example.org");
    assert_eq!((again.len(), &again[0]["phoneNumbers"]), (1, &json!([{"value": "+4930222"}])), "{again:?}");
    // Fields that no card has went with what Google deleted.
    assert!(again[0]["userDefined"].is_null() && account.people.get(&bea).is_null(), "{again:?}");
    let kinds = "SELECT string_agg(kind, ',') FROM shared.contact_card_conflicts";
    let kinds: Option<String> = household.owner().await.query_one(kinds, &[]).await.expect("kinds").get(0);
    assert_eq!(kinds.as_deref(), Some("deleted_there"));
    // The same again makes nobody, and once nobody edits her she is archived as others are.
    sync(&butler).await;
    assert_eq!((account.google.calls(CREATE).len(), account.people.all().len()), (1, 2));
    account.people.delete(again[0]["resourceName"].as_str().expect("a name"));
    let ran = sync(&butler).await;
    assert_eq!((&ran["cards"], &ran["archived"]), (&json!(1), &json!(1)), "{ran}");
    assert_eq!(account.people.all().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contacts_of_google_are_connected_by_one_command() {
    let Some(oidc) = Oidc::start().await else { return };
    let Some(account) = Account::start("contacts_of_google_are_connected", TOKEN).await else { return };
    account.people.add(person("Bea", "bea@example.org"));
    let household = Household::new();
    let _daemon = household.start().await;
    let file = household.roster().join("general/butler.toml");
    let before = std::fs::read_to_string(&file).expect("the file");
    let (data, roster, url) = (household.data(), household.roster(), account.google.url());
    let command = ["connect", "google", "--contacts"];
    let stands_in = ["--client", CLIENT, "--issuer", oidc.issuer(), "--api-url", &url];
    let places = ["--data-dir", data.to_str().expect("a path"), "--roster", roster.to_str().expect("a path")];
    let typed = [&command[..], &stands_in, &places].concat();
    let consent = async |terminal: &mut Terminal| {
        terminal.answers("not shown", "").await;
        terminal.sees("code_challenge=").await;
        let begin = format!("{}/auth", oidc.issuer());
        let address = eventually("the whole address", || async {
            let shown = terminal.shown();
            let found = shown.split_whitespace().find(|word| word.starts_with(&begin) && word.contains("state="));
            found.map(str::to_owned).ok_or(shown)
        })
        .await;
        let end = oidc.consent(&address).await;
        crate::support::http().get(&end).send().await.expect("a page");
        address
    };
    // The account does not let the new token in: nothing is changed.
    let mut terminal = Terminal::open(&household, &typed);
    let address = consent(&mut terminal).await;
    assert!(address.contains("auth%2Fcontacts") && !address.contains("auth%2Fcalendar"), "{address}");
    assert!(!address.contains("mail.google.com"), "{address}");
    terminal.sees("Nothing was changed").await;
    assert_ne!(terminal.end(), 0);
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), before);
    let (_, listed, _) = tokio::task::block_in_place(|| household.cli(&["secret", "list"]));
    assert!(!listed.contains("BUTLER_GOOGLE_GRANT"), "{listed}");
    // It is let in: one command has given access to contacts, and to nothing else.
    account.google.accept("*");
    let mut terminal = Terminal::open(&household, &typed);
    consent(&mut terminal).await;
    terminal.sees("butlerd contacts sync --butler general").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    let after = std::fs::read_to_string(&file).expect("the file");
    let keys = ["provider = \"google\"", "user = \"household@example.org\"", "grant = \"BUTLER_GOOGLE_GRANT\""];
    let section = format!("[modules.contacts]\n{}\nurl = \"{url}\"\n", keys.join("\n"));
    assert!(after.starts_with(&before) && after.ends_with(&section), "{after}");
    let cli = |args: &[&str]| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        format!("{out}{err}")
    };
    cli(&["reload"]);
    eventually("it is followed", || async {
        let known = cli(&["contacts", "list"]);
        if known.contains("bea@example.org") { Ok(()) } else { Err(known) }
    })
    .await;
    // Again changes nothing; calendars, which nobody asked for, were not asked for.
    let mut terminal = Terminal::open(&household, &typed);
    consent(&mut terminal).await;
    terminal.sees("stay as they are").await;
    assert_eq!((terminal.end(), std::fs::read_to_string(&file).expect("the file")), (0, after));
}
