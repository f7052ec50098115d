//! A person at the chat's terminal: edits a line, pastes, gives commands, attaches files, and is told things meanwhile.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{Household, Terminal, eventually, model};

/// A picture of one pixel.
pub const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\nIDATx\x9cc\0\x01\0\0\x05\0\x01\r\n-\xb4\0\0\0\0IEND\xaeB`\x82";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_is_edited_kept_and_sent_once() {
    // A later message has the earlier ones before it.
    let model = model(json!([
        {"when": "my key is", "steps": [{"say": "Do not tell me."}]},
        {"when": "good morning", "steps": [
            {"call": {"tool": "notify", "arguments": {"message": "Morning."}}}, {"say": "Told them."}]},
        {"when": "two\\nlines", "steps": [{"say": "# Both\n- **one**\n- two\u{1b}[2J"}]},
    ]))
    .await;
    let household = Household::with_model(&model).env("NO_COLOR", "").env("TERM", "xterm");
    let daemon = household.start().await;
    let mut chat = Terminal::chat(&household, &["health"]);
    chat.sees("/help lists what you can do here").await;
    chat.sees("> ").await;
    // Ctrl-A goes to the begin, and what is pasted is one message.
    chat.presses("lines\u{1}\u{1b}[200~two\r\u{1b}[201~\n");
    chat.sees("\u{1b}[1mBoth\u{1b}[0m").await;
    chat.sees("• \u{1b}[1mone\u{1b}[0m").await;
    chat.sees("• two[2J").await;
    chat.sees("> ").await;
    // Something comes while a line is typed: it goes above, and the line is there again.
    chat.presses("good mor");
    chat.sees("good mor").await;
    daemon.mcp("health").ok("notify", json!({"intent": "send", "message": "Shall I book the check-up?"})).await;
    chat.sees("Shall I book the check-up?").await;
    chat.sees("good mor").await;
    chat.presses("ning\n");
    chat.sees("Morning.").await;
    chat.sees("Told them.").await;
    chat.sees("> ").await;
    // Taken back; then the last message is there again.
    chat.presses("never sent\u{3}");
    chat.sees("> ").await;
    chat.presses("\u{1b}[A");
    chat.sees("good morning").await;
    chat.presses("\u{3}");
    chat.sees("> ").await;
    chat.types("/hepl");
    chat.sees("There is no command `/hepl`, and nothing was sent. Commands: /help, /quit").await;
    chat.sees("> ").await;
    chat.types("my key is sk-ant-1234567890");
    chat.sees("Do not tell me.").await;
    chat.sees("> ").await;
    chat.types("/quit");
    assert_eq!(chat.end(), 0, "{}", chat.shown());
    let shown = chat.shown();
    assert_eq!(shown.matches("Morning.").count(), 1, "{shown}");
    assert!(!shown.contains("\u{1b}[2J"), "what a model writes commands no terminal: {shown}");
    let file = household.data().join("chat_history");
    let kept = std::fs::read_to_string(&file).expect("the history");
    assert!(kept.contains("good morning") && !kept.contains("sk-ant") && !kept.contains("never sent"), "{kept}");
    assert_eq!(std::fs::metadata(&file).expect("the history").permissions().mode() & 0o777, 0o600);
    let (_, out, _) = household.cli(&["inbox", "list", "--json"]);
    let listed: Value = serde_json::from_str(&out).expect("JSON");
    let messages = listed["items"].as_array().expect("items");
    assert_eq!(messages.len(), 3, "commands are no messages: {out}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_with_a_message_and_pictures_are_shown_to_the_model() {
    let model = model(json!([
        {"when": "what is on it", "steps": [{"say": "A pixel."}]},
        {"when": "and the letter", "steps": [{"say": "It is a letter."}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let _daemon = household.start().await;
    std::fs::write(household.path().join("a pixel.png"), PIXEL).expect("a picture");
    let letter = household.path().join("letter.txt");
    std::fs::write(&letter, "Dear Ada").expect("a letter");
    let mut chat = Terminal::chat(&household, &["health", "--attach", "a pixel.png"]);
    chat.sees("a pixel.png (image/png, 67 B) goes with your next message.").await;
    chat.answers("> ", "what is on it?").await;
    chat.sees("health: A pixel.").await;
    let pictures = |body: &Value| body.to_string().matches("iVBORw0KGgo").count();
    let asked = model.requests();
    let shown = asked.iter().find(|r| r.body["messages"].to_string().contains("what is on it")).expect("the request");
    assert_eq!(pictures(&shown.body), 1, "{}", shown.body["messages"]);
    // A path alone is a file that is dragged in; `/new` is another conversation.
    chat.answers("> ", "/new").await;
    chat.answers("> ", &format!("'{}'", letter.display())).await;
    chat.answers("[Y/n] ", "").await;
    chat.sees("letter.txt (text/plain, 8 B) goes with your next message.").await;
    chat.answers("> ", "and the letter?").await;
    chat.sees("health: It is a letter.").await;
    chat.answers("> ", "/quit").await;
    assert_eq!(chat.end(), 0, "{}", chat.shown());
    let (_, out, _) = household.cli(&["inbox", "list", "--json"]);
    let listed: Value = serde_json::from_str(&out).expect("JSON");
    let messages = listed["items"].as_array().expect("items");
    assert_eq!(messages.len(), 2, "{out}");
    assert_ne!(messages[0]["thread"], messages[1]["thread"], "`/new` begins another conversation: {out}");
    let (code, _, err) = household.cli(&["chat", "--attach", "nowhere.png"]);
    assert!(code == 2 && err.contains("nowhere.png can't be attached"), "{err}");
    let asked = model.requests();
    let last = asked.iter().rev().find(|r| r.body["messages"].to_string().contains("and the letter")).expect("it");
    let told = last.body["messages"].to_string();
    assert!(told.contains("letter.txt") && told.contains("blob:sha256:"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_on_is_shown_and_a_failure_once_with_its_remedy() {
    // A later message has the earlier ones before it.
    let model = model(json!([
        {"when": "think about it", "steps": [{"hang": true}]},
        {"when": "break it", "steps": [{"fail": {"status": 400}}]},
        {"when": "is it a letter", "steps": [{"say": "It is."}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let _daemon = household.start().await;
    std::fs::write(household.path().join("letter.txt"), "Dear Ada").expect("a letter");
    let mut chat = Terminal::chat(&household, &["health"]);
    chat.answers("> ", "/attach nowhere.txt").await;
    chat.sees("nowhere.txt can't be attached").await;
    chat.answers("> ", "/attach letter.txt").await;
    chat.sees("letter.txt (text/plain, 8 B) goes with your next message.").await;
    chat.answers("> ", "is it a letter?").await;
    chat.sees("health: It is.").await;
    let asked = model.requests();
    let told = asked.iter().find(|r| r.body["messages"].to_string().contains("is it a letter")).expect("the request");
    assert!(told.body["messages"].to_string().contains("letter.txt"), "{}", told.body["messages"]);
    chat.answers("> ", "break it").await;
    let mut failed = chat.sees("Once that is mended: butlerd inbox retry ").await;
    failed += &chat.sees("> ").await;
    assert_eq!(failed.matches("I could not do this").count(), 1, "{failed}");
    assert_eq!(failed.matches("Once that is mended").count(), 1, "{failed}");
    assert!(!failed.contains("The message failed"), "{failed}");
    // Whoever does not want to wait has the line back, and the household works on.
    chat.types("think about it");
    chat.sees("health is thinking").await;
    model.wait_for(|all| all.iter().any(|r| r.answer == "hang")).await;
    chat.interrupts();
    chat.sees("The household works on it all the same; its answer is shown here.").await;
    chat.answers("> ", "/quit").await;
    chat.sees("The household works on 1 message all the same.").await;
    assert_eq!(chat.end(), 1, "a message failed: {}", chat.shown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_shown_whole_and_decided_in_the_chat() {
    let model = model(json!([
        {"when": "A call of `[a-z_]+` that you had made", "steps": [{"say": "I know."}]},
        {"when": "leak ([a-z0-9-]+)", "steps": [
            {"call": {"tool": "leak", "arguments": {"text": "{{match.1}}"}}}, {"say": "It waits for you."}]},
    ]))
    .await;
    let household = crate::approvals::household(&model);
    let _daemon = household.start().await;
    let mut chat = Terminal::chat(&household, &["health"]);
    for text in ["first-one", "second-one"] {
        chat.answers("> ", &format!("leak {text}")).await;
        chat.sees("It waits for you.").await;
    }
    chat.answers("> ", "/approve").await;
    let first = chat.sees("Approve it (1 of 2)?").await;
    chat.types("y");
    chat.sees("is let through").await;
    let second = chat.sees("Approve it (2 of 2)?").await;
    chat.types("n");
    chat.sees("is turned down").await;
    assert!(first.contains("-one") && second.contains("-one"), "each is shown whole: {first}{second}");
    let client = household.owner().await;
    eventually("the one call", || async {
        let rows = client.query("SELECT text FROM health.leaks", &[]).await.map_err(|e| e.to_string())?;
        if rows.len() == 1 { Ok(()) } else { Err(format!("{} rows", rows.len())) }
    })
    .await;
    chat.answers("> ", "/approve").await;
    chat.sees("Nothing waits for your decision.").await;
    // The beginning of an id is enough, as lists print it: here, and for the command.
    chat.answers("> ", "leak third-one").await;
    chat.sees("It waits for you.").await;
    let cli = |args: &[&str]| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(args));
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    };
    let listed = cli(&["approvals", "list"]);
    let row = listed.lines().find(|line| line.contains("`leak`")).unwrap_or_else(|| panic!("{listed}"));
    let short = row.split_whitespace().next().expect("an id");
    assert!((13..36).contains(&short.len()), "{listed}");
    chat.answers("> ", &format!("/approve {short}")).await;
    let third = chat.sees("Approve it?").await;
    assert!(third.contains("-one"), "{third}");
    chat.types("");
    chat.sees("It waits.").await;
    let approved = cli(&["approvals", "approve", short]);
    assert!(approved.contains("is let through"), "{approved}");
    chat.answers("> ", "/quit").await;
    assert_eq!(chat.end(), 0, "{}", chat.shown());
}
