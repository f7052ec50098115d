//! Access to a mailbox that its owner gives in a browser: renewed as it ends, and told of when it is taken back. Against a
//! real OpenID provider, a real mail server and the command that people type.

use serde_json::Value;
use testkit::model::ScriptedModel;

use crate::email::{arrived, butler, connector, started, taken_in, the_owner_is_told_once};
use crate::support::mail_server::{HOST, MailServer};
use crate::support::mailbox::{ADA, HOUSEHOLD, proven};
use crate::support::oidc::{CLIENT, CLIENT_WITH_SECRET, Oidc};
use crate::support::tally::died;
use crate::support::{Daemon, Household, Terminal, eventually, http};

/// A household without a mailbox, which trusts the servers' certificates.
fn without_mailbox(model: &ScriptedModel, server: &MailServer) -> Household {
    Household::with_model(model)
        .env("SSL_CERT_FILE", server.ca().to_str().expect("a path"))
        .env("BUTLERD_DELIVERY_PAUSE_MS", "20")
        .env("BUTLERD_NOTICE_SECONDS", "1")
}

/// What is typed for the provider's mailbox.
fn arguments(household: &Household, oidc: &Oidc, server: &MailServer, client: &str, more: &[&str]) -> Vec<String> {
    let data = household.data().to_string_lossy().into_owned();
    let (imap, smtp) =
        (format!("imaps://{HOST}:{}", server.imaps_port()), format!("smtps://{HOST}:{}", server.smtps_port()));
    let typed = ["connect", "oidc", oidc.issuer(), HOUSEHOLD, "--client", client, "--imap", &imap, "--smtp", &smtp];
    typed.into_iter().chain(["--data-dir", &data]).chain(more.iter().copied()).map(str::to_owned).collect()
}

fn opened(household: &Household, arguments: &[String]) -> Terminal {
    Terminal::open(household, &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The address that is to be opened, once it is shown.
async fn shown_address(terminal: &mut Terminal, oidc: &Oidc) -> String {
    terminal.sees("code_challenge=").await;
    let begin = format!("{}/auth", oidc.issuer());
    eventually("the whole address", || async {
        let shown = terminal.shown();
        let found = shown.split_whitespace().find(|word| word.starts_with(&begin) && word.contains("state="));
        found.map(str::to_owned).ok_or(shown)
    })
    .await
}

async fn is_up(daemon: &Daemon) -> Value {
    eventually("the connector is up", || async {
        let seen = connector(daemon).await;
        if seen["state"] == "healthy" && !seen["checkpoint"].is_null() { Ok(seen) } else { Err(seen.to_string()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_given_in_a_browser_is_renewed_until_it_is_taken_back() {
    // Whoever gets a token has a minute to use it: these are renewed for each letter.
    let Some(oidc) = Oidc::start_with(61).await else { return };
    let Some(server) = MailServer::start_with_provider(&oidc).await else { return };
    for n in 0..3 {
        server.deliver(HOUSEHOLD, &proven("shop@example.net", &format!("i{n}@x"), "Hello", "", "Hello.")).await;
    }
    let model = butler().await;
    let household = without_mailbox(&model, &server);
    let daemon = household.start().await;
    let typed = arguments(&household, &oidc, &server, CLIENT, &[]);
    // Who says no has changed nothing.
    oidc.refuse(1).await;
    let mut terminal = opened(&household, &typed);
    terminal.answers("not shown", "").await;
    let end = oidc.consent(&shown_address(&mut terminal, &oidc).await).await;
    http().get(&end).send().await.expect("a page");
    terminal.sees("Nothing was changed").await;
    assert_ne!(terminal.end(), 0);
    let mut terminal = opened(&household, &typed);
    terminal.answers("not shown", "").await;
    let end = oidc.consent(&shown_address(&mut terminal, &oidc).await).await;
    let page = http().get(&end).send().await.expect("a page");
    assert!(page.status().is_success());
    terminal.answers("yes/no", "yes").await;
    terminal.answers("Your own address", ADA).await;
    terminal.sees("Restart butlerd").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    drop(daemon);
    let daemon = started(&household).await;
    is_up(&daemon).await;
    // A provider that is away for a while delays an answer, and nothing else.
    oidc.fail(503, 2).await;
    for n in 1..=3 {
        let id = format!("{n}@x");
        server.deliver(HOUSEHOLD, &proven(ADA, &id, &format!("Letter {n}"), "", "good morning")).await;
        arrived(&server, ADA, n).await;
    }
    let counts = oidc.counts().await;
    assert!(counts.refreshes >= 2 && counts.failed >= 2 && counts.reused == 0, "{counts:?}");
    taken_in(&household, 3).await;
    // Taken back, it is told of once, with what to do.
    oidc.revoke().await;
    server.kill().await;
    server.start_again().await;
    let seen = eventually("its owner must mend it", || async {
        let seen = connector(&daemon).await;
        if seen["state"] == "error" { Ok(seen) } else { Err(seen.to_string()) }
    })
    .await;
    let why = seen["error_message"].as_str().unwrap_or_default();
    assert!(
        why.contains(&format!("butlerd connect oidc {} {HOUSEHOLD} --imap imaps://{HOST}", oidc.issuer())),
        "{why}"
    );
    the_owner_is_told_once(&household).await;
    // Given again, what waited is taken in and answered.
    server.deliver(HOUSEHOLD, &proven(ADA, "4@x", "Letter 4", "", "good morning")).await;
    let mut terminal = opened(&household, &typed);
    terminal.answers("not shown", "").await;
    let end = oidc.consent(&shown_address(&mut terminal, &oidc).await).await;
    http().get(&end).send().await.expect("a page");
    terminal.answers("yes/no", "yes").await;
    terminal.sees("Restart butlerd").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    drop(daemon);
    let daemon = household.start().await;
    arrived(&server, ADA, 4).await;
    // The grant is in no row in clear, and no token in the log.
    let client = household.owner().await;
    let sql = "SELECT count(*) FROM shared.secrets s WHERE s::text LIKE '%refresh%'";
    assert_eq!(client.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0), 0);
    assert!(!daemon.log().contains("refresh_token"), "{}", daemon.log());
}

/// Gives access to the mailbox in a browser.
async fn gives_access(household: &Household, oidc: &Oidc, server: &MailServer) {
    let typed = arguments(household, oidc, server, CLIENT, &["--owner", ADA, "--trust", "mx.example.org"]);
    let mut terminal = opened(household, &typed);
    terminal.answers("not shown", "").await;
    let end = oidc.consent(&shown_address(&mut terminal, oidc).await).await;
    http().get(&end).send().await.expect("a page");
    terminal.sees("Restart butlerd").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_a_renewal_and_its_row_the_mailbox_waits_for_its_owner() {
    // Good for a minute, and so renewed for each connection.
    let Some(oidc) = Oidc::start_with(60).await else { return };
    let Some(server) = MailServer::start_with_provider(&oidc).await else { return };
    let model = butler().await;
    let household = without_mailbox(&model, &server);
    let daemon = household.start().await;
    gives_access(&household, &oidc, &server).await;
    drop(daemon);
    let daemon = started(&household).await;
    is_up(&daemon).await;
    drop(daemon);
    assert_eq!(oidc.counts().await.reused, 0);
    let mut daemon = Daemon::spawn(&Household::again(&household, "BUTLERD_CRASH_POINT", "grant.renewed"));
    died(&mut daemon, "grant.renewed").await;
    drop(daemon);
    // The provider has replaced what is stored, and takes all back when it sees that.
    let daemon = household.start().await;
    let seen = eventually("its owner must mend it", || async {
        let seen = connector(&daemon).await;
        if seen["state"] == "error" { Ok(seen) } else { Err(seen.to_string()) }
    })
    .await;
    let why = seen["error_message"].as_str().unwrap_or_default();
    let again = format!("butlerd connect oidc {} {HOUSEHOLD}", oidc.issuer());
    assert!(why.contains("does not accept the access") && why.contains(&again), "{why}");
    assert!(oidc.counts().await.reused >= 1, "{:?}", oidc.counts().await);
    the_owner_is_told_once(&household).await;
    // Given again, what waited is taken in and answered.
    server.deliver(HOUSEHOLD, &proven(ADA, "1@x", "Letter 1", "", "good morning")).await;
    gives_access(&household, &oidc, &server).await;
    drop(daemon);
    let _daemon = household.start().await;
    arrived(&server, ADA, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_is_given_elsewhere_by_a_pasted_address_or_a_code() {
    let Some(oidc) = Oidc::start().await else { return };
    let Some(server) = MailServer::start_with_provider(&oidc).await else { return };
    let household = Household::few().env("SSL_CERT_FILE", server.ca().to_str().expect("a path"));
    let _daemon = household.start().await;
    let (client, secret) = CLIENT_WITH_SECRET;
    let more = ["--paste", "--owner", ADA, "--trust", "mx.example.org"];
    let mut terminal = opened(&household, &arguments(&household, &oidc, &server, client, &more));
    terminal.answers("not shown", secret).await;
    let end = oidc.consent(&shown_address(&mut terminal, &oidc).await).await;
    terminal.answers("at which it ended", "http://127.0.0.1:1/?code=another&state=wrong").await;
    terminal.sees("That is not it").await;
    terminal.answers("at which it ended", &end).await;
    terminal.sees("Restart butlerd").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    assert!(!terminal.shown().contains(secret), "{}", terminal.shown());
    // By a code, over the one that is there.
    let more = ["--device", "--owner", ADA, "--trust", "mx.example.org"];
    let mut terminal = opened(&household, &arguments(&household, &oidc, &server, CLIENT, &more));
    terminal.answers("not shown", "").await;
    terminal.sees("and type ").await;
    let code = eventually("the code", || async {
        let shown = terminal.shown();
        let behind = shown.split_once("and type ").and_then(|(_, behind)| behind.split_once('\n'));
        behind.map(|(code, _)| code.trim().to_owned()).ok_or(shown)
    })
    .await;
    oidc.approve_device(&code).await;
    terminal.sees("Restart butlerd").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_no_client_is_told_where_to_make_one() {
    let household = Household::few();
    for (typed, place) in
        [(["connect", "google"], "console.cloud.google.com"), (["connect", "microsoft"], "entra.microsoft.com")]
    {
        let mut terminal = Terminal::open(&household, &typed);
        terminal.sees(place).await;
        terminal.answers("The client's id", "").await;
        terminal.sees("Without a client").await;
        assert_ne!(terminal.end(), 0);
    }
}
