//! Lists of the API that are not kept as they are shown: each is walked to its end, and no row is lost or comes twice.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::api_v1::{ask, read};
use crate::support::pages::Page;
use crate::support::{Daemon, Household, eventually};

/// All pages of a list, from a cursor on or from its beginning, each with its rows.
async fn walk(daemon: &Daemon, path: &str, from: Option<&str>) -> Vec<Value> {
    let (mut pages, mut next) = (Vec::new(), from.map(str::to_owned));
    loop {
        let cursor = next.map(|next| format!("&cursor={next}")).unwrap_or_default();
        let page = read(daemon, &format!("{path}{cursor}")).await;
        next = page["next"].as_str().map(str::to_owned);
        pages.push(page);
        assert!(pages.len() < 200, "{path} has no end");
        if next.is_none() {
            return pages;
        }
    }
}

/// The rows of pages, by one of their fields.
fn column(pages: &[Value], name: &str) -> Vec<Value> {
    pages.iter().flat_map(|page| page["data"].as_array().expect("rows")).map(|row| row[name].clone()).collect()
}

async fn foreign(daemon: &Daemon, path: &str) {
    let (status, _, body) = ask(daemon, &daemon.token(), (Method::GET, path), None).await;
    assert_eq!((status, &body["code"]), (422, &json!("invalid_cursor")), "{path}: {body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_checkpoints_go_back_to_the_first() {
    let household = Household::new();
    let daemon = household.start().await;
    let db = household.owner().await;
    let sql = "INSERT INTO general.journal_checkpoints (id, start_id, end_id, count, summary, tenant_id)
               SELECT n, n * 10 - 9, n * 10, 10, 'Much was said of matter ' || n || '.', whose
               FROM generate_series(1, 130) n, (VALUES ('owner'), ('neighbour')) t (whose)";
    db.execute(sql, &[]).await.expect("checkpoints");
    let path = "/butlers/general/journal/checkpoints";
    let all: Vec<Value> = (1..=130).rev().map(Value::from).collect();
    for limit in [7, 65, 100] {
        let pages = walk(&daemon, &format!("{path}?limit={limit}"), None).await;
        assert_eq!((pages.len(), column(&pages, "id")), (130_usize.div_ceil(limit), all.clone()), "{limit}");
    }
    let first = read(&daemon, &format!("{path}?limit=100")).await;
    let next = first["next"].as_str().expect("a cursor");
    // What is made meanwhile shifts nothing.
    let sql = "INSERT INTO general.journal_checkpoints (id, start_id, end_id, count, summary, tenant_id)
               VALUES (131, 1301, 1310, 10, 'More was said.', 'owner')";
    db.execute(sql, &[]).await.expect("a checkpoint");
    let rest = walk(&daemon, &format!("{path}?limit=100"), Some(next)).await;
    assert_eq!(column(&rest, "id"), all[100..]);
    foreign(&daemon, &format!("/undo?cursor={next}")).await;
    // The dashboard goes back by pages of its own.
    let page = Page::of(&daemon).await;
    let (mut at, mut shown) = ("/journal/general".to_owned(), Vec::new());
    for older in ["82", "32"] {
        let html = page.get(&at).await;
        at = format!("/journal/general/checkpoints?before={older}");
        assert!(html.contains(&at), "{at}: {html}");
        shown.push(html);
    }
    shown.push(page.get(&at).await);
    assert!(!shown[2].contains("before="), "{}", shown[2]);
    for n in 1..=131 {
        let words = if n == 131 { "More was said.".to_owned() } else { format!("said of matter {n}.") };
        let list = |html: &str| html.split_once("Checkpoints").map(|(_, list)| list.matches(&words).count());
        assert_eq!(shown.iter().filter_map(|html| list(html)).sum::<usize>(), 1, "{n}");
    }
}

/// Calls as they would be on record: of each second three transactions, in two butlers in turns. Every sixth call is one
/// that another tool takes back, every fifth transaction is a job's and has no call, and each changed one to three rows. A
/// job of another butler changed many.
const UNDOABLE: &str = "
    CREATE TEMPORARY TABLE done AS
        SELECT n, CASE WHEN n % 7 < 4 THEN 'health' ELSE 'general' END AS butler, (5000000 + n)::text::xid8 AS txid,
               date_trunc('second', now()) - interval '1 day' + make_interval(secs => n / 3) AS tx_at,
               n % 5 <> 0 AS called, n % 6 = 0 AS by_tool
        FROM generate_series(1, 160) n;
    INSERT INTO shared.row_changes (txid, tx_at, schema, table_name, key, after, tenant_id)
        SELECT txid, tx_at, butler, 'things', jsonb_build_object('id', n * 10 + part), '{}', 'owner'
        FROM done, generate_series(0, n % 3) part WHERE NOT (called AND by_tool);
    INSERT INTO shared.row_changes (txid, tx_at, schema, table_name, key, after, tenant_id)
        SELECT '6000000'::xid8, now() - interval '12 hours', 'health', 'things', '{}'::jsonb, '{}'::jsonb, 'neighbour'
        UNION ALL
        SELECT '6000001'::xid8, now() - interval '11 hours', 'finance', 'things', jsonb_build_object('id', n), '{}'::jsonb, 'owner'
        FROM generate_series(1, 5000) n;
";

fn calls_of(butler: &str) -> String {
    format!(
        "INSERT INTO {butler}.tool_calls (request_id, caller, tool, arguments, outcome, effect, called_at, duration_us, txid, tx_at, tenant_id)
             SELECT gen_random_uuid(), 'bench', 'thing_' || n, '{{}}', 'ok', 'once', tx_at, 5, txid, tx_at, 'owner'
             FROM done WHERE butler = '{butler}' AND called;
         INSERT INTO {butler}.call_undos (txid, tx_at, tool, arguments, state, tenant_id)
             SELECT txid, tx_at, 'back', '{{}}', CASE WHEN n % 4 = 0 THEN 'undone' ELSE 'ready' END, 'owner'
             FROM done WHERE butler = '{butler}' AND called AND by_tool;"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_what_can_be_taken_back_have_each_call_once() {
    let household = Household::new();
    let daemon = household.start().await;
    let db = household.owner().await;
    let sql = format!("{UNDOABLE}{}{}", calls_of("health"), calls_of("general"));
    db.batch_execute(&sql).await.expect("calls");
    let sql = "SELECT 'thing_' || n FROM done WHERE called AND NOT (by_tool AND n % 4 = 0) AND butler LIKE $1
               ORDER BY n DESC";
    for (filter, butler) in [("", "%"), ("&butler=general", "general")] {
        let all: Vec<Value> =
            db.query(sql, &[&butler]).await.expect("calls").iter().map(|row| json!(row.get::<_, String>(0))).collect();
        assert!(all.len() > 40, "{}", all.len());
        for limit in [1, 7, 16, 100] {
            let pages = walk(&daemon, &format!("/undo?limit={limit}{filter}"), None).await;
            assert_eq!(column(&pages, "tool"), all, "{limit}{filter}");
            assert!(pages.len() >= all.len().div_ceil(limit), "{limit}{filter}: {} pages", pages.len());
            let rows = column(&pages, "rows");
            let by = column(&pages, "by");
            assert!(
                rows.iter().zip(&by).all(|(rows, by)| by.is_null() == (rows.as_i64() > Some(0))),
                "{rows:?} {by:?}"
            );
        }
    }
    let first = read(&daemon, "/undo?limit=20").await;
    let next = first["next"].as_str().expect("a cursor");
    daemon.mcp("health").ok("measurement_log", json!({"kind": "weight", "value": {"kg": 82}})).await;
    let rest = walk(&daemon, "/undo?limit=20", Some(next)).await;
    let tools: Vec<Value> = [column(std::slice::from_ref(&first), "tool"), column(&rest, "tool")].concat();
    let distinct: BTreeSet<String> = tools.iter().map(Value::to_string).collect();
    let whole = walk(&daemon, "/undo?limit=50", None).await;
    assert_eq!((tools.len(), distinct.len()), (column(&whole, "tool").len() - 1, tools.len()));
    assert_eq!(whole[0]["data"][0]["tool"], "measurement_log", "{}", whole[0]);
    for path in [format!("/undo?butler=health&cursor={next}"), format!("/audit?cursor={next}")] {
        foreign(&daemon, &path).await;
    }
    // What others changed is not read on the way to the next transaction, nor all that one of them changed.
    db.batch_execute("VACUUM ANALYZE shared.row_changes").await.expect("statistics");
    let plan: Vec<String> = db
        .query(
            "EXPLAIN SELECT tx_at, txid FROM shared.row_changes WHERE schema = 'health' AND tenant_id = 'owner'
             AND (tx_at, txid) < (now(), '9'::xid8) ORDER BY tx_at DESC, txid DESC LIMIT 1",
            &[],
        )
        .await
        .expect("a plan")
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(plan.concat().contains("row_changes_of_butler") && !plan.concat().contains("Sort"), "{plan:?}");
    // The dashboard goes back by the same pages.
    let page = Page::of(&daemon).await;
    let (mut at, mut shown) = ("/undo".to_owned(), 0);
    loop {
        let html = page.get(&at).await;
        shown += html.matches("called <code>").count();
        let Some((_, older)) = html.split_once("href=\"/undo?before=") else { break };
        at = format!("/undo?before={}", older.split('"').next().expect("a cursor"));
    }
    assert_eq!(shown, tools.len() + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_a_search_show_each_memory_once() {
    let household = Household::new();
    let daemon = household.start().await;
    let mcp = daemon.mcp("health");
    let remember = async |n: u32| {
        let content = format!("The lantern number {n} hangs in room {} beside hook {}", n * 7 % 31, n * 13);
        let fact = json!({"subject": format!("lantern {n}"), "predicate": format!("hangs_{n}"), "content": content});
        let stored = mcp.ok("memory_store_fact", fact).await;
        assert_eq!(stored["status"], "stored", "{stored}");
    };
    for n in 1..=60 {
        remember(n).await;
    }
    let path = "/butlers/health/memory?text=Where%20does%20the%20lantern%20hang&kind=fact";
    let asked = json!({"query": "Where does the lantern hang", "types": ["fact"], "limit": 100});
    let all = eventually("an index that has all", || async {
        let found = mcp.ok("memory_search", asked.clone()).await;
        let all = column(&[json!({"data": found["results"]})], "id");
        if found["answered_by"] == "index" && all.len() >= 60 { Ok(all) } else { Err(found.to_string()) }
    })
    .await;
    let known: BTreeSet<String> = all.iter().map(Value::to_string).collect();
    for limit in [7, 25] {
        let pages = walk(&daemon, &format!("{path}&limit={limit}"), None).await;
        let shown = column(&pages, "id");
        let distinct: BTreeSet<String> = shown.iter().map(Value::to_string).collect();
        assert_eq!((pages.len(), shown.len(), &distinct), (all.len().div_ceil(limit), all.len(), &known), "{limit}");
        assert!(pages.iter().all(|page| page["truncated"] == false), "{limit}");
        let scores: Vec<f64> = column(&pages, "score").iter().map(|score| score.as_f64().expect("a score")).collect();
        assert!(scores.is_sorted_by(|a, b| *a >= *b - 0.01), "{scores:?}");
        assert!(column(&pages, "parts").iter().all(Value::is_object));
    }
    // Memories come and go between two pages: ranks move, and still none comes twice.
    let first = read(&daemon, &format!("{path}&limit=20")).await;
    let next = first["next"].as_str().expect("a cursor");
    let forgotten = all.last().expect("a memory");
    mcp.ok("memory_forget", json!({"memory_type": "fact", "memory_id": forgotten})).await;
    for n in 61..=120 {
        remember(n).await;
    }
    eventually("an index that has the new ones, too", || async {
        let found = mcp.ok("memory_search", asked.clone()).await;
        let many = found["results"].as_array().map_or(0, Vec::len);
        if found["answered_by"] == "index" && many == 100 { Ok(()) } else { Err(format!("{many}: {found}")) }
    })
    .await;
    let rest = walk(&daemon, &format!("{path}&limit=20"), Some(next)).await;
    let (shown, later) = (column(std::slice::from_ref(&first), "id"), column(&rest, "id"));
    let distinct: BTreeSet<String> = shown.iter().chain(&later).map(Value::to_string).collect();
    // More would match than a search shows.
    assert_eq!((distinct.len(), shown.len() + later.len(), rest.len()), (100, 100, 4));
    assert!(!later.contains(forgotten), "{later:?}");
    assert_eq!(rest.last().expect("a page")["truncated"], true);
    assert!(rest[..3].iter().all(|page| page["truncated"] == false));
    foreign(&daemon, &format!("/butlers/health/memory?text=lantern&cursor={next}")).await;
    foreign(&daemon, &format!("/butlers/general/memory?text=x&cursor={next}")).await;
}
