//! What the household says on Telegram besides plain answers: drafts, files, and what the owner sends by hand.

use serde_json::{Value, json};

use crate::chat_stream::SlowModel;
use crate::support::bot_api::{ADA, BotApi, Fault};
use crate::support::{Household, eventually};
use crate::telegram::{butler, said, started};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_sees_an_answer_as_it_is_written_and_nobody_else_does() {
    let api = BotApi::start().await;
    let model = SlowModel::start(&["Good **morning** ", "to you, ", "Ada."]).await;
    let household = model.household().with_telegram(&api, "");
    let _daemon = started(&household).await;
    let number = api.writes(ADA, "write slowly");
    let drafts = || api.calls("sendMessageDraft").into_iter().map(|call| call.arguments).collect::<Vec<_>>();
    eventually("the begin is seen", || async {
        let seen = drafts();
        if seen.iter().any(|draft| draft["text"] == "Good") { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    assert!(api.said_to(ADA).is_empty(), "it is no message yet");
    let draft = drafts().pop().expect("a draft");
    assert_eq!((&draft["chat_id"], &draft["draft_id"]), (&json!(ADA), &json!(number)), "{draft}");
    // Put off, it goes on later.
    api.fault("sendMessageDraft", Fault::Flood(1));
    model.next.notify_one();
    eventually("it grows", || async {
        let seen = drafts();
        let bold = |draft: &Value| draft["entities"][0]["type"] == "bold";
        let grown =
            |draft: &Value| draft["text"].as_str().is_some_and(|text| text.starts_with("Good morning")) && bold(draft);
        if seen.iter().any(grown) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    model.next.notify_one();
    said(&api, ADA, "Good morning to you, Ada.").await;
    assert_eq!(api.said_to(ADA), ["Good morning to you, Ada."], "once");
    // Nobody else, and no group.
    api.writes(66, "write slowly");
    model.next.notify_one();
    model.next.notify_one();
    let group = json!({"id": -1007, "type": "supergroup", "title": "Family"});
    let mention = json!([{"type": "mention", "offset": 0, "length": 9}]);
    api.message(ADA, json!({"chat": group, "text": "@home_bot write at once", "entities": mention}));
    said(&api, -1007, "Good morning").await;
    let other = drafts().into_iter().find(|draft| draft["chat_id"] != ADA || draft["draft_id"] != number);
    assert_eq!(other, None);
    api.judge("telegram_out::the_owner_sees_an_answer_as_it_is_written_and_nobody_else_does");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_along_and_those_of_others_to_the_owner_alone() {
    let (api, model) = (BotApi::start().await, butler().await);
    let household = Household::with_model(&model).with_telegram(&api, "");
    let daemon = started(&household).await;
    api.writes(ADA, "my weights as a file");
    said(&api, ADA, "Here they are.").await;
    household.all_delivered("answers").await;
    assert_eq!(api.uploaded("weights.csv").as_deref(), Some("day,kg\n1,72\n"));
    let client = household.owner().await;
    let sql = "SELECT f.name, f.size, f.content IS NULL, o.state FROM shared.outbox_files f
               JOIN shared.outbox o ON o.id = f.outbox_id ORDER BY o.seq DESC, f.n LIMIT 1";
    let kept = async || {
        let row = client.query_one(sql, &[]).await.expect("a file");
        (row.get::<_, String>(0), row.get::<_, i64>(1), row.get::<_, bool>(2), row.get::<_, String>(3))
    };
    eventually("what has left is not kept", || async {
        let seen = kept().await;
        if seen == ("weights.csv".to_owned(), 12, true, "sent".to_owned()) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    // What the channel does not take is said where it would stand, and its delivery has failed.
    api.writes(ADA, "my tool as a program");
    said(&api, ADA, "tool.exe could not be sent here").await;
    eventually("it has failed", || async {
        let seen = kept().await;
        if seen == ("tool.exe".to_owned(), 2, false, "failed".to_owned()) { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
    // A file that came in goes back to the owner, and to nobody else.
    daemon
        .mcp("switchboard")
        .ok("contact_identity_add", json!({"name": "Bea", "channel": "telegram", "identity": "77"}))
        .await;
    api.file("letter", b"a letter of somebody");
    let chat = json!({"id": ADA, "type": "private", "first_name": "Ada"});
    let document = json!({"file_id": "letter", "file_unique_id": "letter", "file_name": "letter.txt",
                          "mime_type": "text/plain", "file_size": 20});
    api.message(ADA, json!({"chat": chat, "caption": "send back what this is", "document": document}));
    said(&api, ADA, "Yours again.").await;
    eventually("the file comes back", || async {
        api.uploaded("letter.txt").ok_or_else(|| format!("{:?}", api.said_to(ADA)))
    })
    .await;
    // Whose it was first, its row says.
    let trust = "SELECT o.trust FROM shared.outbox o WHERE o.message = 'Yours again.'";
    assert_eq!(client.query_one(trust, &[]).await.expect("the row").get::<_, String>(0), "owner");
    assert!(api.said_to(77).is_empty(), "{:?}", api.said_to(77));
    let refused = "SELECT count(*) FROM general.tool_calls WHERE tool = 'notify' AND outcome = 'refused'";
    eventually("the other call was refused", || async {
        let count: i64 = client.query_one(refused, &[]).await.map_err(|e| e.to_string())?.get(0);
        if count == 1 { Ok(()) } else { Err(format!("{count} refused")) }
    })
    .await;
    assert!(api.said_to(77).is_empty(), "{:?}", api.said_to(77));
    api.judge("telegram_out::files_go_along_and_those_of_others_to_the_owner_alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_sends_by_hand_and_looks_first() {
    let (api, model) = (BotApi::start().await, butler().await);
    let household = Household::with_model(&model).with_telegram(&api, "");
    let _daemon = started(&household).await;
    let cli = |args: &[&str]| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
        (code, format!("{out}{err}"))
    };
    let send = ["deliveries", "send", "**Dinner** at seven", "--channel", "telegram"];
    let (code, said_first) = cli(&[&send[..], &["--dry-run"]].concat());
    assert_eq!(code, 0, "{said_first}");
    for words in ["owner", "telegram", "Dinner at seven", "at once", "Nothing was sent"] {
        assert!(said_first.contains(words), "{words}: {said_first}");
    }
    let (code, nobody) = cli(&[&send[..], &["--to", "Bea", "--dry-run"]].concat());
    assert!(code != 0 && nobody.contains("nobody is known as Bea on telegram"), "{nobody}");
    assert_eq!(cli(&["contacts", "add", "Bea", "telegram", "77"]).0, 0);
    let (code, whom) = cli(&[&send[..], &["--to", "Bea", "--dry-run"]].concat());
    assert!(code == 0 && whom.contains("Bea (77), outside of the house"), "{whom}");
    assert!(api.said_to(ADA).is_empty() && api.said_to(77).is_empty());
    let (code, sent) = cli(&[&send[..], &["--to", "Bea"]].concat());
    assert!(code == 0 && sent.contains("over telegram"), "{sent}");
    said(&api, 77, "Dinner at seven").await;
    // A file for the chat is saved as its message says, and never over another one.
    let files = json!({"intent": "send", "channel": "chat", "message": "Here.", "files": [{"name": "notes.md", "text": "# Notes"}]});
    let (code, told) = cli(&["tool", "call", "general", "notify", &files.to_string()]);
    assert_eq!(code, 0, "{told}");
    let path = household.path().join("saved.md");
    // The beginning of the SHA-256 of `# Notes`.
    let save = ["deliveries", "save", "360aa5ebfa18", "--path", path.to_str().expect("a path")];
    assert_eq!(cli(&save).0, 0);
    assert_eq!(std::fs::read_to_string(&path).expect("the file"), "# Notes");
    let (code, again) = cli(&save);
    assert!(code != 0 && again.contains("can't be written"), "{again}");
    let (code, none) = cli(&["deliveries", "save", "0123456789ab"]);
    assert!(code != 0 && none.contains("No such file is kept"), "{none}");
}
