//! The page of channels, followed as it stands: each command that it shows is typed and each of its settings is written,
//! with nothing added but where the stand-ins of Telegram and of a mail provider are.

use serde_json::json;

use crate::email::arrived;
use crate::support::bot_api::{ADA as ACCOUNT, BotApi, TOKEN};
use crate::support::mail_server::{HOST, MailServer};
use crate::support::mailbox::{ADA, HOUSEHOLD, proven};
use crate::support::{Household, Terminal, eventually, http, model};

/// A part of the page, from its heading to the next.
fn part(heading: &str) -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/channels.md")).expect("the page");
    let begin = page.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let rest = &page[begin + heading.len() + 2..];
    rest.split("\n### ").next().and_then(|part| part.split("\n## ").next()).expect("its text").to_owned()
}

/// The blocks of code in it: indented ones without their indent, fenced ones without their fences.
fn blocks(part: &str) -> Vec<String> {
    let (mut all, mut block, mut fenced) = (Vec::new(), String::new(), false);
    for line in part.lines() {
        let fence = line.starts_with("```");
        let code = if fenced { (!fence).then_some(line) } else { line.strip_prefix("    ") };
        match code {
            Some(line) => block.push_str(&format!("{line}\n")),
            None if !block.is_empty() => all.push(std::mem::take(&mut block)),
            None => {}
        }
        fenced ^= fence;
    }
    all.extend((!block.is_empty()).then_some(block));
    all
}

/// The first block that holds this.
fn block(part: &str, with: &str) -> String {
    blocks(part).into_iter().find(|block| block.contains(with)).unwrap_or_else(|| panic!("no block with {with}"))
}

/// The words behind `butlerd` of the page's line that begins so.
fn words(part: &str, begin: &str) -> Vec<String> {
    let all = blocks(part);
    let line = all.iter().flat_map(|block| block.lines()).find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no command {begin}"));
    let quoted = line.split('"').enumerate();
    let words = quoted.flat_map(|(n, text)| match n % 2 {
        0 => text.split_whitespace().map(str::to_owned).collect(),
        _ => vec![text.to_owned()],
    });
    words.skip(1).collect()
}

fn run(household: &Household, words: &[String], input: &str) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (code, out, err) = tokio::task::block_in_place(|| household.cli_with_input(&words, input));
    assert_eq!(code, 0, "{words:?}: {out}{err}");
    format!("{out}{err}")
}

/// With this at the end of a butler's settings.
fn with(household: Household, butler: &str, section: &str) -> Household {
    let file = format!("{butler}/butler.toml");
    let before = std::fs::read_to_string(household.roster().join(&file)).expect("the settings");
    household.write(&file, &format!("{before}\n{section}"))
}

/// A household at whose end of Telegram and mail nobody is the owner yet.
async fn empty() -> (testkit::model::ScriptedModel, Household) {
    let model = model(json!([
        {"when": "(?s)report.*file", "steps": [
            {"call": {"tool": "notify", "arguments": {"intent": "send", "channel": "chat", "message": "Here it is.",
                      "files": [{"name": "report.csv", "text": "a,b\n"}]}}}, {"say": "Done."}]},
        {"when": "(?s).*good (morning|evening)", "steps": [{"say": "Good {{match.1}} to you."}]},
        {"when": "Somebody rings", "steps": [{"say": "It rang."}]},
    ]))
    .await;
    let household = Household::with_model(&model).env("BUTLERD_DELIVERY_PAUSE_MS", "20");
    (model, household)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_is_connected_as_the_page_says() {
    let (api, page) = (BotApi::start().await, part("### Telegram"));
    let (_model, household) = empty().await;
    let household = household.env("BUTLERD_OWNER__IDENTITIES__TELEGRAM", "42");
    let daemon = household.start().await;
    let (url, data) = (api.url(), household.data().to_string_lossy().into_owned());
    let mut typed = words(&page, "butlerd connect telegram");
    typed.extend(["--api-url", &url, "--data-dir", &data].map(str::to_owned));
    let mut terminal = Terminal::open(&household, &typed.iter().map(String::as_str).collect::<Vec<_>>());
    terminal.answers("token (not shown)", TOKEN).await;
    terminal.sees("press Start: https://t.me/home_bot?start=").await;
    let code = terminal.sees("\n").await.trim().to_owned();
    api.writes(ACCOUNT, &format!("/start {code}"));
    terminal.sees("Restart butlerd").await;
    assert_eq!(terminal.end(), 0, "{}", terminal.shown());
    drop(daemon);
    let _daemon = household.start().await;
    run(&household, &["rules", "add", "channel", "telegram", "route_to", "general"].map(str::to_owned), "");
    api.writes(ACCOUNT, "good morning");
    let said = async |chat: i64, what: &str| {
        eventually(what, || async {
            let said = api.said_to(chat);
            if said.iter().any(|text| text.contains(what)) { Ok(()) } else { Err(format!("{said:?}")) }
        })
        .await;
    };
    said(ACCOUNT, "Good morning to you.").await;
    // Somebody is made known by the link that the command prints, and is written to by name.
    let link = run(&household, &words(&page, "butlerd contacts pair"), "");
    let code = link.lines().find_map(|line| line.split_once("?start=")).expect("a link").1.trim().to_owned();
    api.writes(77, &format!("/start {code}"));
    said(77, "Hello Bea!").await;
    let out = part("## Messages out");
    let shown = run(&household, &words(&out, "butlerd deliveries send"), "");
    assert!(shown.contains("Dinner at seven") && shown.contains("Nothing was sent"), "{shown}");
    // A file that a butler sends where none is shown is saved by the command that the page names.
    run(&household, &["trigger", "general", "the report as a file"].map(str::to_owned), "");
    let mut save = words(&out, "butlerd deliveries save");
    save[2] = "5be08c9684a1".to_owned();
    let path = household.path().join("saved.csv");
    save.extend(["--path".to_owned(), path.to_string_lossy().into_owned()]);
    run(&household, &save, "");
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "a,b\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn telegram_and_mail_are_set_by_hand_as_the_page_says() {
    let Some(server) = MailServer::start().await else { return };
    let api = BotApi::start().await;
    let (_model, household) = empty().await;
    let (telegram, mail) = (part("### Telegram"), part("### Mail"));
    let bot = block(&telegram, "[modules.telegram.bot]");
    let bot = bot.replace("[modules.telegram]\n", &format!("[modules.telegram]\napi_url = \"{}\"\n", api.url()));
    // The servers of the page are at other places here.
    let mailbox = block(&mail, "[modules.email.accounts.home]");
    let at = |scheme: &str, port: u16| format!("{scheme}://{HOST}:{port}");
    let mailbox = mailbox
        .replace("\"imap.example.org\"", &format!("\"{}\"", at("imap", server.imap_port())))
        .replace("\"smtp.example.org\"", &format!("\"{}\"", at("smtp", server.smtp_port())));
    assert!(mailbox.contains(HOST), "{mailbox}");
    let household = with(with(household, "switchboard", &bot), "switchboard", &mailbox)
        .env("SSL_CERT_FILE", server.ca().to_str().expect("a path"))
        .env("BUTLERD_OWNER__IDENTITIES__TELEGRAM", &ACCOUNT.to_string())
        .env("BUTLERD_OWNER__IDENTITIES__EMAIL", ADA);
    let daemon = household.start().await;
    for (page, name, value) in
        [(&telegram, "BUTLER_TELEGRAM_TOKEN", TOKEN), (&mail, "BUTLER_EMAIL_PASSWORD", "secret1")]
    {
        assert!(page.replace('\n', " ").contains(&format!("butlerd secret set {name}")), "the page names {name}");
        run(&household, &["secret", "set", name].map(str::to_owned), value);
    }
    drop(daemon);
    let _daemon = household.start().await;
    for channel in ["telegram", "email"] {
        run(&household, &["rules", "add", "channel", channel, "route_to", "general"].map(str::to_owned), "");
    }
    api.writes(ACCOUNT, "good morning");
    server.deliver(HOUSEHOLD, &proven(ADA, "1@x", "Hello", "", "good evening")).await;
    arrived(&server, ADA, 1).await;
    eventually("the bot answers", || async {
        let said = api.said_to(ACCOUNT);
        if said.iter().any(|text| text == "Good morning to you.") { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_doorbell_rings_as_the_page_says() {
    let (_model, household) = empty().await;
    let page = part("### Webhook in");
    let household = with(household, "switchboard", &block(&page, "[modules.webhook.inbound.doorbell]"))
        .env("DOORBELL_SECRET", "it-is-long-and-nobody-guesses-it")
        .env("BUTLERD_OWNER__IDENTITIES__WEBHOOK", "doorbell");
    let daemon = household.start().await;
    // The page's own line, by a shell; the household listens at another port here.
    let line = block(&page, "curl ").trim().replace("127.0.0.1:40200", daemon.admin());
    let mut shell = std::process::Command::new("sh");
    let rung = shell.arg("-c").arg(&line).env("DOORBELL_SECRET", "it-is-long-and-nobody-guesses-it").output();
    let rung = rung.expect("a shell");
    match rung.status.code() {
        // As a shell says that there is no curl on this machine: the same is posted.
        Some(127) => {
            let url = format!("http://{}/hooks/webhook/doorbell", daemon.admin());
            let ask = http().post(url).bearer_auth("it-is-long-and-nobody-guesses-it").body(r#"{"at": "1"}"#);
            assert!(ask.send().await.expect("an answer").status().is_success());
        }
        _ => {
            let said = String::from_utf8_lossy(&rung.stdout).into_owned();
            assert!(said.contains("request_id"), "{line}: {said}");
        }
    }
    let client = household.owner().await;
    eventually("it is dealt with", || async {
        let sql = "SELECT body, trust, state FROM switchboard.message_inbox";
        let rows = client.query(sql, &[]).await.map_err(|e| e.to_string())?;
        let seen: Vec<[String; 3]> = rows.iter().map(|row| [row.get(0), row.get(1), row.get(2)]).collect();
        match seen.as_slice() {
            [[body, trust, state]] if body.starts_with("Somebody rings") && trust == "owner" && state == "done" => {
                Ok(())
            }
            _ => Err(format!("{seen:?}")),
        }
    })
    .await;
}
