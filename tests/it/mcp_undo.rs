//! Calls of others' servers that are taken back by another tool of the server, and what is said where they can't be.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::mcp_servers::{HEAD, cli, has, say};
use crate::support::tally::died;
use crate::support::{Daemon, Household, Mcp, eventually, model};

/// What the server shows besides what it always has.
const MORE: &str = r#"["make", "unmake"]"#;

/// A household whose butler has `make` of the server that misbehaves, undone by `unmake`, and the file that tells it how.
struct Shelf {
    household: Household,
    control: PathBuf,
}

impl Shelf {
    fn of(household: Household) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let (program, dir) = (household.fake_server(), household.path().join("control"));
        std::fs::create_dir(&dir).expect("the directory");
        // The server may be a user of its own.
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).expect("its mode");
        let control = dir.join("control.json");
        let toml = format!(
            "{HEAD}\n[mcp.servers.fake]\ncommand = [{program:?}, \"--mcp-server\", {control:?}]\nwrite = [{dir:?}]\n\
             tools = [\"make\", \"die\"]\ntimeout = \"10s\"\nidle = \"1s\"\n\n[mcp.servers.fake.undo.make]\ntool = \"unmake\"\n\
             arguments = {{ id = \"$result/id\", name = \"$arguments/name\" }}\n"
        );
        let shelf = Self { household: household.butler("visitor", &toml), control };
        shelf.say(json!({}));
        shelf
    }

    /// Tells the server how it is from now on.
    fn say(&self, mut what: Value) {
        what["more"] = serde_json::from_str(MORE).expect("a list");
        say(&self.control, &what);
    }

    /// What stands in the server's file.
    fn made(&self) -> String {
        std::fs::read_to_string(self.control.with_file_name("made")).unwrap_or_default()
    }

    /// Has something made, and gives the name of the call.
    async fn make(&self, mcp: &Mcp, name: &str) -> String {
        eventually("it is made", || async {
            let answer = mcp.call("fake_make", json!({ "name": name })).await.text();
            if answer["result"] == "made it" { Ok(()) } else { Err(answer.to_string()) }
        })
        .await;
        let owner = self.household.owner().await;
        // A try that the server did not live to answer may be on record behind the one that it answered.
        let sql = "SELECT 'visitor/' || max(id) FROM visitor.tool_calls
                   WHERE tool = 'fake_make' AND arguments ->> 'name' = $1 AND outcome = 'ok'";
        owner.query_one(sql, &[&name]).await.expect("the call").get(0)
    }

    /// The calls that can be taken back.
    fn listed(&self) -> Value {
        let (code, out, err) = tokio::task::block_in_place(|| self.household.cli(&["undo", "--json"]));
        assert_eq!(code, 0, "{out}{err}");
        serde_json::from_str::<Value>(&out).expect("a list")["items"].clone()
    }

    fn undo(&self, which: &str) -> (i32, String) {
        cli(&self.household, &["undo", which])
    }

    async fn start(&self) -> (Daemon, Mcp) {
        let daemon = self.household.start().await;
        let mcp = daemon.mcp("visitor");
        has(&mcp, "fake_make", true).await;
        (daemon, mcp)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_taken_back_by_another_tool_of_its_server() {
    let model = model(json!([{"when": "take it away", "steps": [
        {"call": {"tool": "fake_make", "arguments": {"name": "of a session"}}},
        {"call": {"tool": "fake_unmake", "arguments": {"id": 1}}}, {"say": "{{last_result}}"}]}]))
    .await;
    let shelf = Shelf::of(Household::few_with_model(&model));
    let (_daemon, mcp) = shelf.start().await;
    let made = shelf.make(&mcp, "box").await;
    assert!(shelf.made().contains("box"), "{}", shelf.made());
    let listed = shelf.listed();
    assert!(listed[0]["call"] == made.as_str() && listed[0]["by"] == "fake_unmake", "{listed}");
    let (code, said) = shelf.undo(&made);
    assert!(code == 0 && said.contains("taken back by fake_unmake") && !said.contains("again"), "{code}: {said}");
    assert_eq!(shelf.made(), "{}");
    let (code, said) = shelf.undo(&made);
    assert!(code == 1 && said.contains("`fake_unmake` took it back at"), "{code}: {said}");
    assert_eq!(shelf.listed(), json!([]));

    // Both calls are on record, and that the first was taken back.
    let owner = shelf.household.owner().await;
    let sql = "SELECT string_agg(tool || coalesce(':' || (arguments ->> 'calls'), ''), ' ' ORDER BY id) FROM visitor.tool_calls
               WHERE effect <> 'none' AND session_id IS NULL";
    let calls: String = owner.query_one(sql, &[]).await.expect("the calls").get(0);
    assert_eq!(calls, format!("fake_make fake_unmake undo:[\"{made}\"]"));
    let (_, said) = shelf.undo("visitor/999999");
    assert!(said.contains("There is no call visitor/999999"), "{said}");

    // A session can't call what takes back, and its owner can take back what it did.
    let done = mcp.ok("trigger", json!({"prompt": "Make it, and take it away"})).await;
    assert!(done["output"].as_str().is_some_and(|said| !said.contains("took it away")), "{done}");
    assert!(shelf.made().contains("of a session"), "{}", shelf.made());
    let session = shelf.listed()[0]["session_id"].as_str().expect("a session").to_owned();
    let (code, said) = shelf.undo(&session);
    assert!(code == 0 && said.contains("taken back by fake_unmake"), "{code}: {said}");
    assert_eq!(shelf.made(), "{}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_call_can_t_be_taken_back_now_it_is_said_why() {
    let shelf = Shelf::of(Household::few());
    let (_daemon, mcp) = shelf.start().await;
    // The result does not say what the undo needs.
    shelf.say(json!({"bare": true}));
    let bare = shelf.make(&mcp, "without a number").await;
    let (code, said) = shelf.undo(&bare);
    assert!(
        code == 1 && said.contains("no way back is known for this call: no such value in the result at /id"),
        "{said}"
    );
    // The call has a tool that takes nothing back.
    mcp.call("fake_die", json!({})).await;
    let owner = shelf.household.owner().await;
    let sql = "SELECT 'visitor/' || max(id) FROM visitor.tool_calls WHERE tool = 'fake_die'";
    let died: String = owner.query_one(sql, &[]).await.expect("the call").get(0);
    let (code, said) = shelf.undo(&died);
    assert!(code == 1 && said.contains("No way back is known for the call"), "{said}");

    // A server that is down leaves it possible.
    shelf.say(json!({}));
    let made = shelf.make(&mcp, "box").await;
    shelf.say(json!({"start": "exit"}));
    let idle = async || {
        let (_, listed) = cli(&shelf.household, &["mcp-servers", "list"]);
        if listed.contains("idle") { Ok(()) } else { Err(listed) }
    };
    eventually("its program ends", idle).await;
    let (code, said) = shelf.undo(&made);
    assert!(
        code == 1 && said.contains("can't be used just now") && said.contains("To try again: butlerd undo"),
        "{said}"
    );
    assert!(shelf.listed()[0]["why"].as_str().is_some_and(|why| why.contains("there is no cheese today")));

    // One that ends before it answers leaves it unknown, and a person may try again.
    shelf.say(json!({"unmake": "die"}));
    eventually("the server is asked", || async {
        let (code, said) = shelf.undo(&made);
        if code == 1 && said.contains("is unknown") { Ok(()) } else { Err(said) }
    })
    .await;
    assert!(shelf.listed()[0]["begun_at"].is_string(), "{}", shelf.listed());
    let (_, listed) = cli(&shelf.household, &["undo"]);
    assert!(listed.contains("BEGUN") && listed.contains("fake_unmake"), "{listed}");
    shelf.say(json!({}));
    eventually("it is taken back", || async {
        let (code, said) = shelf.undo(&made);
        if code == 0 { Ok(()) } else { Err(said) }
    })
    .await;
    assert!(!shelf.made().contains("box"), "{}", shelf.made());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_daemon_began_to_take_back_can_be_seen_and_tried_again() {
    let shelf = Shelf::of(Household::few());
    let (daemon, mcp) = shelf.start().await;
    let mut made = vec![shelf.make(&mcp, "one").await, shelf.make(&mcp, "two").await];
    drop(daemon);
    for (point, gone) in [("undo.claimed", false), ("undo.tried", true)] {
        let mut daemon = Household::again(&shelf.household, "BUTLERD_CRASH_POINT", point).start().await;
        let made = made.remove(0);
        has(&daemon.mcp("visitor"), "fake_make", true).await;
        let (code, said) = shelf.undo(&made);
        assert!(code != 0, "{point}: {said}");
        died(&mut daemon, point).await;
        drop(daemon);
        let (_daemon, _) = shelf.start().await;
        let (code, said) = shelf.undo(&made);
        assert!(code == 1 && said.contains("somebody is taking it back just now"), "{point}: {said}");
        let listed = shelf.listed();
        let row = listed.as_array().and_then(|all| all.iter().find(|c| c["call"] == made.as_str())).expect("the call");
        assert!(row["begun_at"].is_string(), "{point}: {row}");
        let owner = shelf.household.owner().await;
        let later = "UPDATE visitor.call_undos SET at = at - interval '3 minutes' WHERE state = 'undoing'";
        owner.execute(later, &[]).await.expect("time goes by");
        let (code, said) = shelf.undo(&made);
        match gone {
            false => assert!(code == 0 && !shelf.made().contains("one"), "{point}: {said}"),
            // The server knows that it was done.
            true => {
                assert!(code == 1 && said.contains("there is no 2") && !shelf.made().contains("two"), "{point}: {said}")
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_that_the_server_does_not_fit_is_told_by_status() {
    let shelf = Shelf::of(Household::few());
    let toml = std::fs::read_to_string(shelf.household.roster().join("visitor/butler.toml")).expect("the file");
    let wrong = toml.replace("$arguments/name", "$arguments/title");
    let household = shelf.household.write("visitor/butler.toml", &wrong);
    let daemon = household.start().await;
    let mcp = daemon.mcp("visitor");
    has(&mcp, "fake_make", true).await;
    let state = mcp.ok("module.states", json!({})).await["mcp.fake"].clone();
    let note = state["note"].as_str().unwrap_or_default();
    assert!(note.contains("has no way to take `make` back: it has no argument `title`"), "{state}");
}
