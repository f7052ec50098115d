//! The secrets of Telegram and mail, quoted by the model that answers: none is anywhere afterwards.

use serde_json::json;

use crate::canary::{Canaries, command_lines, every_table};
use crate::support::bot_api::{ADA as ACCOUNT, BotApi, Fault, TOKEN};
use crate::support::mail_server::MailServer;
use crate::support::mailbox::{ADA, HOUSEHOLD, proven};
use crate::support::{Household, eventually, model};

const MAIL_TOKEN: &str = "ya29.kanarienvogel-of-the-mailbox_2";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_of_a_channel_is_found_anywhere() {
    let Some(server) = MailServer::start_with_oauth().await else { return };
    server.grant(HOUSEHOLD, MAIL_TOKEN);
    let api = BotApi::start().await;
    let quoted = format!("I found {TOKEN} and {MAIL_TOKEN}");
    let model = model(json!([{"when": "what did you find", "steps": [{"say": quoted}]}])).await;
    let household = Household::with_model(&model)
        .with_telegram(&api, "")
        .with_email(&server, "auth = \"token\"")
        .env("BUTLER_EMAIL_PASSWORD", MAIL_TOKEN)
        .env("BUTLERD_LOG", "debug");
    let mut daemon = household.start().await;
    for (name, value) in [("BUTLER_TELEGRAM_TOKEN", TOKEN), ("BUTLER_EMAIL_PASSWORD", MAIL_TOKEN)] {
        let stored = tokio::task::block_in_place(|| household.cli_with_input(&["secret", "set", name], value));
        assert_eq!(stored.0, 0, "{stored:?}");
    }
    for channel in ["telegram", "email"] {
        let rule = ["rules", "add", "channel", channel, "route_to", "general"];
        assert_eq!(tokio::task::block_in_place(|| household.cli(&rule)).0, 0);
    }
    let mut canaries = Canaries::default();
    canaries.add("the bot's token", TOKEN);
    canaries.add("the bot's secret", TOKEN.split_once(':').expect("a token").1);
    canaries.add("the mailbox's token", MAIL_TOKEN);
    let search = canaries.search();
    // The model answers with them.
    api.fault("sendMessage", Fault::Broken);
    api.writes(ACCOUNT, "what did you find?");
    server.deliver(HOUSEHOLD, &proven(ADA, "1@x", "Found", "", "what did you find?")).await;
    household.all_delivered("answers").await;
    eventually("both came in", || async {
        let client = household.owner().await;
        let sql = "SELECT count(*) FROM switchboard.message_inbox WHERE state = 'done'";
        let done: i64 = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?.get(0);
        if done >= 2 { Ok(()) } else { Err(format!("{done} of 2")) }
    })
    .await;
    search.none("command lines", command_lines());
    // Neither lets the household in any more.
    api.revoke();
    server.revoke(MAIL_TOKEN);
    server.kill().await;
    server.start_again().await;
    eventually("both are in error", || async {
        let list = daemon.mcp("switchboard").ok("connector_list", json!({})).await;
        let wrong = list.as_array().into_iter().flatten().filter(|one| one["state"] == "error").count();
        if wrong == 2 { Ok(()) } else { Err(list.to_string()) }
    })
    .await;
    for args in [
        &["status", "--json"][..],
        &["doctor", "--json"],
        &["deliveries", "list", "--json"],
        &["inbox", "list", "--json"],
    ] {
        let (_, out, err) = tokio::task::block_in_place(|| household.cli(args));
        search.none(&args.join(" "), out + &err);
    }
    search.none("the connectors", daemon.mcp("switchboard").ok("connector_list", json!({})).await.to_string());
    let tables = every_table(&household, "general").await;
    assert!(tables.contains("[hidden]"), "they were quoted");
    search.none("tables", tables);
    assert_eq!(daemon.stop_blocking(), 0);
    search.none("the log", daemon.log());
    let hits = search.files(&household.data(), &[&household.data().join("master.key")]);
    assert!(hits.is_empty(), "{} hits:\n{}", hits.len(), hits.join("\n"));
}
