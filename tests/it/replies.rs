//! The messenger answers stored messages: whom that reaches, the message's row says.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::email;
use crate::support::bot_api::{ADA, BotApi};
use crate::support::mail_server::MailServer;
use crate::support::mailbox::{self, HOUSEHOLD, field, letter, proven};
use crate::support::{Household, eventually, model};
use crate::telegram::{self, said};

const BEA: i64 = 77;
const IN_CHAT: &str = "telegram_reply_to_message";
const IN_THREAD: &str = "email_reply_to_thread";

/// The request that the newest message with these words is.
async fn request_of(household: &Household, words: &str) -> String {
    let client = household.owner().await;
    eventually(&format!("{words} is taken in"), || async {
        let sql = "SELECT request_id::text FROM switchboard.message_inbox WHERE body LIKE '%' || $1 || '%'
                   ORDER BY seq DESC LIMIT 1";
        let row = client.query_opt(sql, &[&words]).await.map_err(|e| e.to_string())?;
        row.map(|row| row.get(0)).ok_or_else(|| "it is not".to_owned())
    })
    .await
}

fn reply(request: &str, message: &str) -> Value {
    json!({"request_id": request, "message": message})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_answered_in_its_own_chat_and_nowhere_else() {
    let (api, model) = (BotApi::start().await, telegram::butler().await);
    let household = Household::with_model(&model).with_telegram(&api, "");
    let daemon = telegram::started(&household).await;
    let messenger = daemon.mcp("messenger");
    let answered = |text: &str| api.sent().into_iter().find(|message| message["text"] == text).expect("the answer");
    let number = api.writes(ADA, "good morning");
    said(&api, ADA, "Good morning").await;
    let private = request_of(&household, "good morning").await;
    let first = messenger.ok(IN_CHAT, reply(&private, "One **more** thing.")).await;
    assert!(first["status"] == "ok" && first["recipient"].is_null(), "{first}");
    said(&api, ADA, "One more thing.").await;
    assert_eq!(answered("One more thing.")["reply_parameters"]["message_id"], number);
    // In the group's topic, where it was asked.
    let group = json!({"id": -1007, "type": "supergroup", "title": "Family"});
    let mention = json!([{"type": "mention", "offset": 0, "length": 9}]);
    let asked = json!({"chat": group, "text": "@home_bot good evening", "entities": mention, "message_thread_id": 9,
                       "is_topic_message": true});
    let number = api.message(ADA, asked);
    said(&api, -1007, "Good evening").await;
    let public = request_of(&household, "good evening").await;
    messenger.ok(IN_CHAT, reply(&public, "To all of you.")).await;
    said(&api, -1007, "To all of you.").await;
    let answer = answered("To all of you.");
    assert_eq!((&answer["message_thread_id"], &answer["reply_parameters"]["message_id"]), (&json!(9), &json!(number)));
    // The same once more is the same; what is no message of the channel is refused.
    assert_eq!(messenger.ok(IN_CHAT, reply(&public, "To all of you.")).await["duplicate"], true);
    let nothing = messenger.call(IN_CHAT, reply(&Uuid::nil().to_string(), "Hello?")).await.text();
    assert_eq!(nothing["code"], "not_found", "{nothing}");
    household.all_delivered("answers").await;
    assert_eq!(api.said_to(-1007).iter().filter(|text| *text == "To all of you.").count(), 1);
    // On record they are answers to these messages, in these conversations.
    let sql = "SELECT count(*) FROM shared.outbox o JOIN switchboard.message_inbox m USING (request_id)
               WHERE o.origin = 'messenger' AND o.intent = 'reply' AND o.conversation = m.lane AND o.endpoint = m.endpoint
                 AND o.target = m.sender AND o.thread IS NOT DISTINCT FROM m.thread";
    assert_eq!(household.owner().await.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0), 2);
    let others = daemon.mcp("general").tools().await;
    assert!(!others.iter().any(|tool| tool.ends_with("_reply_to_message")), "{others:?}");
    api.judge("replies::a_message_is_answered_in_its_own_chat_and_nowhere_else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_saw_others_words_waits_before_it_answers_somebody_else() {
    let api = BotApi::start().await;
    let model = model(json!([
        {"when": "(?s)look around, then answer ([0-9a-f-]{36})", "steps": [
            {"call": {"tool": "messenger_delivery_search", "arguments": {}}},
            {"call": {"tool": IN_CHAT, "arguments": {"request_id": "{{match.1}}", "message": "See you."}}},
            {"say": "done"}]},
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "(?s).*good (morning|evening)", "steps": [{"say": "Good {{match.1}} to you."}]},
    ]))
    .await;
    let household =
        Household::whole_with_model(&model).with_telegram(&api, "").env("BUTLERD_SPAWNER__TOOL_BUDGET", "40000");
    let daemon = telegram::started(&household).await;
    let bea = json!({"name": "Bea", "channel": "telegram", "identity": BEA.to_string()});
    daemon.mcp("switchboard").ok("contact_identity_add", bea).await;
    api.writes(BEA, "good morning");
    said(&api, BEA, "Good morning").await;
    api.writes(66, "good evening");
    said(&api, 66, "Good evening").await;
    household.all_delivered("answers").await;
    let request = request_of(&household, "good morning").await;
    let prompt = json!({"prompt": format!("look around, then answer {request}")});
    let done = daemon.mcp("messenger").ok("trigger", prompt).await;
    assert_eq!(done["success"], true, "{done}\n{}", daemon.log());
    let client = household.owner().await;
    let sql = "SELECT id::text, status, agent_summary FROM shared.pending_actions WHERE tool_name = $1";
    let row = client.query_one(sql, &[&IN_CHAT]).await.expect("one call waits");
    let (id, status, summary): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    assert!(status == "pending" && summary.contains("to 77 on telegram"), "{status}: {summary}");
    assert_eq!(api.said_to(BEA).len(), 1, "{:?}", api.said_to(BEA));
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["approvals", "approve", &id]));
    assert_eq!(code, 0, "{out}{err}");
    said(&api, BEA, "See you.").await;
    api.judge("replies::a_session_that_saw_others_words_waits_before_it_answers_somebody_else");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_letter_is_answered_in_its_thread_if_somebody_surely_wrote_it() {
    let Some(server) = MailServer::start().await else { return };
    let model = email::butler().await;
    let household = Household::with_model(&model).with_email(&server, "backfill = \"7d\"");
    let daemon = email::started(&household).await;
    server.deliver(HOUSEHOLD, &proven(mailbox::ADA, "one@example.org", "Breakfast", "", "good morning")).await;
    server.deliver(HOUSEHOLD, &letter("eve@evil.example", "two@evil.example", "Key", "", "good evening")).await;
    let messenger = daemon.mcp("messenger");
    email::arrived(&server, mailbox::ADA, 1).await;
    let request = request_of(&household, "good morning").await;
    messenger.ok(IN_THREAD, reply(&request, "One more thing.")).await;
    let answers = email::arrived(&server, mailbox::ADA, 2).await;
    let of = |name: &str| field(&answers[1], name).unwrap_or_default();
    assert_eq!((of("Subject").as_str(), of("In-Reply-To").as_str()), ("Re: Breakfast", "<one@example.org>"));
    assert!(of("To").contains(mailbox::ADA) && of("References").contains("<one@example.org>"), "{}", of("To"));
    let request = request_of(&household, "good evening").await;
    messenger.ok(IN_THREAD, reply(&request, "Here is the key.")).await;
    let client = household.owner().await;
    eventually("nobody gets it whose address somebody only wrote down", || async {
        let sql = "SELECT state, coalesce(last_error, '') FROM shared.outbox WHERE message = 'Here is the key.'";
        let row = client.query_one(sql, &[]).await.map_err(|e| e.to_string())?;
        let (state, why): (String, String) = (row.get(0), row.get(1));
        if state == "failed" && why.contains("nothing proves") { Ok(()) } else { Err(format!("{state}: {why}")) }
    })
    .await;
    assert!(server.submitted().iter().all(|sent| sent.rcpt_tos == [mailbox::ADA]));
}
