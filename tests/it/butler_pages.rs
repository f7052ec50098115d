//! A butler's own pages: who may look, at whose rows, what can't be a page, and that those of the shipped butlers show
//! something.

use serde_json::{Value, json};

use crate::support::{Daemon, Household, http, model};

const GARDEN: &str = "[butler]\nname = \"garden\"\nport = 40180\ndescription = \"Plants and beds\"\n\n\
    [runtime]\ntype = \"native\"\n\n[modules.garden]\n";
const ROWS: &str = "CREATE TABLE plants (name text NOT NULL, bed text NOT NULL, kg numeric NOT NULL DEFAULT 1);\n\
    SELECT shared.tenant_table('plants');\n\
    CREATE FUNCTION sow() RETURNS integer LANGUAGE plpgsql SET search_path FROM CURRENT AS $$ BEGIN\n\
    INSERT INTO plants (name, bed) VALUES ('weed', 'x'); RETURN 1; END $$;\n\
    CREATE FUNCTION sly() RETURNS integer LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$ BEGIN\n\
    PERFORM sow(); RETURN 1; END $$;\n";
const ADD: &str = "/*---\ndescription: Note a plant.\nargs:\n  name: {type: string, required: true}\n  \
    bed: {type: string, required: true}\nreturns: row\nmeta: {effect: once}\n---*/\n\
    INSERT INTO plants (name, bed) VALUES (:name, :bed) RETURNING name\n";

/// A page of the garden.
fn page(path: &str, more: &str, sql: &str) -> String {
    format!("/*---\ndescription: d\nmethod: get\npath: {path}\n{more}---*/\n{sql}\n")
}

fn garden() -> Household {
    let plants = page(
        "plants",
        "args:\n  bed: {type: string, maxLength: 40, default: ''}\n  least: {type: number, default: 0}\n  \
         limit: {type: integer, default: 100, minimum: 1}\nreturns: rows\n\
         card: {kind: table, title: Plants, columns: [name, bed]}\n",
        "SELECT name, bed, kg FROM plants WHERE (:bed::text = '' OR bed = :bed::text) AND kg >= :least::numeric\n\
         ORDER BY name LIMIT :limit::int -- all of them",
    );
    let count = page(
        "plants/count",
        "returns: value\ncard: {kind: number, title: Plants, value: plants, unit: plants}\n",
        "SELECT count(*) AS plants FROM plants;",
    );
    let many = page("many", "returns: rows\n", "SELECT n FROM generate_series(1, 2500) n ORDER BY n");
    let share = page("share", "args:\n  by: {type: integer, default: 1}\nreturns: row\n", "SELECT 1 / :by::int AS n");
    // Nothing but its run shows that it writes, and it needs a parameter, so that nobody tries it.
    let sly = page(
        "sly",
        "args:\n  go: {type: boolean, required: true}\nreturns: row\n",
        "SELECT sly() AS n WHERE :go::boolean",
    );
    Household::few()
        .butler("garden", GARDEN)
        .write("garden/migrations/001_plants.sql", ROWS)
        .write("garden/tools/plant_add.sql", ADD)
        .write("garden/api/a_plants.sql", &plants)
        .write("garden/api/b_count.sql", &count)
        .write("garden/api/c_many.sql", &many)
        .write("garden/api/d_share.sql", &share)
        .write("garden/api/e_sly.sql", &sly)
}

fn token(household: &Household, more: &[&str]) -> String {
    let args: Vec<&str> = ["token", "new", "--json"].iter().chain(more).copied().collect();
    let (code, out, err) = tokio::task::block_in_place(|| household.cli(&args));
    assert_eq!(code, 0, "{out}{err}");
    let made: Value = serde_json::from_str(&out).expect("JSON");
    made["token"].as_str().expect("a token").to_owned()
}

/// GET of a path below `/api/butlers/`, with these parameters and this token.
async fn look(daemon: &Daemon, token: &str, path: &str, params: &[(&str, &str)]) -> (u16, Value) {
    let mut url = reqwest::Url::parse(&format!("http://{}/api/butlers/{path}", daemon.admin())).expect("an address");
    if !params.is_empty() {
        url.query_pairs_mut().extend_pairs(params);
    }
    let answer = http().get(url).bearer_auth(token).send().await.expect("an answer");
    (answer.status().as_u16(), answer.json().await.expect("JSON"))
}

fn names(shown: &Value) -> Vec<&str> {
    let rows = shown["data"].as_array().unwrap_or_else(|| panic!("{shown}"));
    rows.iter().filter_map(|row| row["name"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_shown_to_those_who_may_look() {
    let household = garden();
    let daemon = household.start().await;
    let mcp = daemon.mcp("garden");
    for (name, bed) in [("sage", "herbs"), ("thyme", "herbs"), ("kale", "north")] {
        mcp.ok("plant_add", json!({"name": name, "bed": bed})).await;
    }
    let owner = daemon.token();
    let (status, list) = look(&daemon, &owner, "garden/", &[]).await;
    let paths: Vec<&str> = list["data"].as_array().expect("pages").iter().filter_map(|p| p["path"].as_str()).collect();
    assert_eq!((status, paths), (200, vec!["plants", "plants/count", "many", "share", "sly"]), "{list}");
    let first = &list["data"][0];
    assert_eq!(first["card"], json!({"kind": "table", "title": "Plants", "columns": ["name", "bed"]}), "{first}");
    assert_eq!(first["columns"], json!(["name", "bed", "kg"]), "{first}");
    assert_eq!(first["parameters"]["properties"]["limit"]["default"], 100, "{first}");
    assert_eq!(list["data"][2]["card"], Value::Null, "{list}");

    let reader = token(&household, &["--scope", "read", "--butler", "garden"]);
    let (status, shown) = look(&daemon, &reader, "garden/plants", &[]).await;
    assert_eq!((status, names(&shown)), (200, vec!["kale", "sage", "thyme"]), "{shown}");
    assert_eq!(shown["meta"], json!({"columns": ["name", "bed", "kg"], "truncated": false}), "{shown}");
    let (_, shown) = look(&daemon, &reader, "garden/plants", &[("bed", "herbs"), ("limit", "1"), ("least", "")]).await;
    assert_eq!(names(&shown), ["sage"], "{shown}");
    let (_, shown) = look(&daemon, &reader, "garden/plants/count", &[]).await;
    assert_eq!(shown["data"], json!([{"plants": 3}]), "{shown}");
    let (_, shown) = look(&daemon, &reader, "garden/many", &[]).await;
    assert_eq!((shown["data"].as_array().map(Vec::len), &shown["meta"]["truncated"]), (Some(1000), &json!(true)));

    // What stands in a parameter is data.
    for text in ["x'; DROP TABLE plants; --", "' OR '1' = '1", "\u{0}$1) UNION SELECT"] {
        let (status, shown) = look(&daemon, &reader, "garden/plants", &[("bed", text)]).await;
        assert_eq!((status, names(&shown)), (200, Vec::new()), "{text}: {shown}");
    }
    for (path, params, code) in [
        ("garden/plants", &[("beds", "herbs")][..], (400, "invalid_arguments")),
        ("garden/plants", &[("limit", "1; DROP TABLE plants")], (400, "invalid_arguments")),
        ("garden/plants", &[("limit", "0")], (400, "invalid_arguments")),
        ("garden/plants", &[("limit", "1"), ("limit", "2")], (400, "invalid_arguments")),
        ("garden/plants", &[("least", "much")], (400, "invalid_arguments")),
        ("garden/plants/count", &[("bed", "herbs")], (400, "invalid_arguments")),
        ("garden/share", &[("by", "0")], (400, "invalid_value")),
        ("garden/sly", &[("go", "true")], (400, "read_only")),
        ("garden/sly", &[], (400, "invalid_arguments")),
        ("garden/plant", &[], (404, "not_found")),
        ("garden/plants/", &[], (404, "not_found")),
        ("gardens/plants", &[], (404, "unknown_butler")),
    ] {
        let (status, answer) = look(&daemon, &owner, path, params).await;
        assert_eq!((status, answer["code"].as_str()), (code.0, Some(code.1)), "{path} {params:?}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|text| text.len() > 10), "{answer}");
    }
    let (_, shown) = look(&daemon, &owner, "garden/plants", &[]).await;
    assert_eq!(names(&shown).len(), 3, "nothing was changed by looking: {shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_else_sees_it_and_looking_leaves_no_trace() {
    let household = garden();
    let daemon = household.start().await;
    daemon.mcp("garden").ok("plant_add", json!({"name": "sage", "bed": "herbs"})).await;
    let url = format!("http://{}/api/butlers/garden/plants", daemon.admin());
    assert_eq!(http().get(&url).send().await.expect("an answer").status(), 401);
    assert_eq!(http().get(&url).bearer_auth("nonsense").send().await.expect("an answer").status(), 401);
    let refused = [
        token(&household, &["--scope", "read", "--butler", "messenger"]),
        token(&household, &["--scope", "tools", "--butler", "garden"]),
        token(&household, &["--scope", "ingest"]),
    ];
    for other in refused {
        for path in ["garden/plants", "garden/", "garden/none"] {
            let (status, answer) = look(&daemon, &other, path, &[]).await;
            assert_eq!((status, answer["code"].as_str()), (403, Some("forbidden")), "{path}: {answer}");
        }
    }
    let foreign = http().get(&url).bearer_auth(daemon.token()).header("origin", "https://example.org");
    assert_eq!(foreign.send().await.expect("an answer").status(), 403);
    let post = http().post(&url).bearer_auth(daemon.token()).body("{}").send().await.expect("an answer");
    assert_eq!((post.status().as_u16(), post.headers()["allow"].to_str().ok()), (405, Some("GET")));

    // Another tenant's token shows that tenant's rows alone.
    let other = token(&household, &["--tenant", "other", "--scope", "read,tools"]);
    let (status, shown) = look(&daemon, &other, "garden/plants", &[]).await;
    assert_eq!((status, names(&shown)), (200, Vec::new()), "{shown}");
    let (_, shown) = look(&daemon, &other, "garden/plants/count", &[]).await;
    assert_eq!(shown["data"], json!([{"plants": 0}]), "{shown}");
    let mcp = daemon.mcp("garden").with_token(Some(&other));
    mcp.ok("plant_add", json!({"name": "nettle", "bed": "herbs"})).await;
    assert_eq!(names(&look(&daemon, &other, "garden/plants", &[]).await.1), ["nettle"]);

    // The owner's eyes see what others caused, too: it is for sessions that labels are kept.
    let db = household.owner().await;
    db.batch_execute(
        "SELECT set_config('butlerd.tenant', 'owner', false);
         INSERT INTO garden.plants (name, bed, trust) VALUES ('weed', 'x', 'stranger')",
    )
    .await
    .expect("a stranger's row");
    let (_, shown) = look(&daemon, &daemon.token(), "garden/plants", &[]).await;
    assert_eq!(names(&shown), ["sage", "weed"], "{shown}");
    // Calls of tools are written within 50 ms, and this one after those that looking would have caused.
    daemon.mcp("garden").ok("state_get", json!({"key": "k"})).await;
    crate::support::eventually("the calls on record", || async {
        let rows = db.query("SELECT tool FROM garden.tool_calls ORDER BY called_at", &[]).await.expect("the calls");
        let tools: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let wanted = ["plant_add", "plant_add", "state_get"];
        if tools == wanted { Ok(()) } else { Err(format!("{tools:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_takes_up_pages_and_keeps_them_from_mistakes() {
    let household = garden();
    let daemon = household.start().await;
    let owner = daemon.token();
    assert_eq!(look(&daemon, &owner, "garden/beds", &[]).await.0, 404);
    let reload = |household: &Household| {
        let (_, out, err) = tokio::task::block_in_place(|| household.cli(&["reload", "--json"]));
        let done: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        let list = done["butlers"].as_array().unwrap_or_else(|| panic!("{done}"));
        list.iter().find(|b| b["name"] == "garden").cloned().unwrap_or_else(|| panic!("{done}"))
    };
    let beds = page("beds", "returns: rows\n", "SELECT DISTINCT bed FROM plants ORDER BY bed");
    let household = household.write("garden/api/f_beds.sql", &beds);
    let done = reload(&household);
    assert_eq!((done["change"].as_str(), done["state"].as_str()), (Some("changed"), Some("up")), "{done}");
    assert_eq!(
        look(&daemon, &owner, "garden/beds", &[]).await,
        (
            200,
            json!({
        "data": [], "meta": {"columns": ["bed"], "truncated": false}})
        )
    );
    // What only a database can tell: there is no such column.
    let household = household.write("garden/api/f_beds.sql", &beds.replace("DISTINCT bed", "DISTINCT bad"));
    let done = reload(&household);
    let told = done["error"].as_str().unwrap_or_default();
    assert_eq!(done["change"], "kept", "{done}");
    assert!(told.contains("garden/api/f_beds.sql:7") && told.contains("bad"), "{done}");
    assert_eq!(look(&daemon, &owner, "garden/beds", &[]).await.0, 200, "the former one is shown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_refuses_what_writes_and_what_can_not_be_drawn() {
    let rows = "returns: rows\n";
    let card = |card: &str| format!("returns: rows\ncard: {{title: T, {card}}}\n");
    let told = |household: &Household| {
        let (code, out, err) = tokio::task::block_in_place(|| household.cli(&["check", "--json"]));
        let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        let list = said["mistakes"].as_array().cloned().unwrap_or_default();
        let line = |m: &Value| {
            let file = m["file"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
            format!("{file}:{} {}", m["line"], m["problem"].as_str().unwrap_or_default())
        };
        (code, list.iter().map(line).collect::<Vec<String>>())
    };
    let find = |found: &[String], begin: &str, words: &str| {
        let there = found.iter().any(|one| one.starts_with(begin) && one.contains(words));
        assert!(there, "no {begin} … {words} in {found:#?}");
    };
    // What its text shows, even without a database.
    let household = garden()
        .write(
            "garden/api/insert.sql",
            &page("i", rows, "INSERT INTO plants (name, bed) VALUES ('a', 'b') RETURNING name"),
        )
        .write(
            "garden/api/update.sql",
            &page("u", rows, "WITH u AS (\n  UPDATE plants SET bed = 'a' RETURNING name\n) SELECT name FROM u"),
        )
        .write("garden/api/drop.sql", &page("d", rows, "DROP TABLE plants"))
        .write("garden/api/lock.sql", &page("l", rows, "SELECT name FROM plants FOR UPDATE"))
        .write("garden/api/verb.sql", &page("v", rows, "SELECT 1 AS n").replace("get", "post"))
        .write("garden/api/twice.sql", &page("plants", rows, "SELECT 1 AS n"))
        .write(
            "garden/api/asks.sql",
            &page(
                "a",
                &format!("args:\n  bed: {{type: string}}\n{}", card("kind: table, columns: name")),
                "SELECT :bed::text AS name",
            ),
        )
        .write("garden/api/notes.txt", "none");
    let (code, found) = told(&household);
    assert_eq!(code, 2, "{found:#?}");
    for (begin, words) in [
        ("drop.sql:7", "DROP can't be a tool"),
        ("verb.sql:3", "method: found post; a page only reads"),
        ("asks.sql:6", "args.bed: a card is shown before anybody is asked, so it needs a default"),
        ("notes.txt:1", "found what nobody reads"),
    ] {
        find(&found, begin, words);
    }
    for file in ["drop", "verb", "asks"] {
        std::fs::remove_file(household.roster().join(format!("garden/api/{file}.sql"))).expect("it goes");
    }
    let (_, found) = told(&household);
    for (begin, words) in [
        ("insert.sql:7", "a page only reads; changes go through tools"),
        ("update.sql:7", "a page only reads; changes go through tools"),
        ("lock.sql:7", "a page only reads; changes go through tools"),
        ("twice.sql:4", "path: plants is the path of a_plants.sql already"),
    ] {
        find(&found, begin, words);
    }
    // What the database tells.
    let household = garden()
        .write("garden/api/sows.sql", &page("s", rows, "SELECT sow() AS n"))
        .write("garden/api/column.sql", &page("c", rows, "SELECT name,\n  bad FROM plants"))
        .write("garden/api/card.sql", &page("k", &card("kind: table, columns: [name, bad]"), "SELECT name FROM plants"))
        .write("garden/api/line.sql", &page("g", &card("kind: line, x: name, y: kg"), "SELECT name, kg FROM plants"))
        .write("garden/api/same.sql", &page("n", rows, "SELECT name, bed AS name FROM plants"))
        .write("garden/api/plan.sql", &page("p", rows, "EXPLAIN SELECT 1"))
        .write("garden/api/tokens.sql", &page("t", rows, "SELECT id FROM shared.tokens"));
    let (code, found) = told(&household);
    assert_eq!(code, 2, "{found:#?}");
    for (begin, words) in [
        ("sows.sql:7", "a page only reads, and sow() may write"),
        ("column.sql:8", "\"bad\" does not exist"),
        ("card.sql:6", "card.columns: there is no column bad; the statement has name"),
        ("line.sql:6", "card.x: the column name is of the type text, and here days, moments or numbers are drawn"),
        ("same.sql:7", "two columns are called name"),
        ("plan.sql:7", "a page is one SELECT"),
        ("tokens.sql:7", "the butler's role may not run it"),
    ] {
        find(&found, begin, words);
    }
    // What only running it tells: the server lets nothing be written.
    let household = garden().write("garden/api/sly.sql", &page("s", rows, "SELECT sly() AS n"));
    let (code, found) = told(&household);
    assert_eq!(code, 2, "{found:#?}");
    find(&found, "sly.sql:7", "pages only read");
}

/// A day so many days from now, as the owner's calendar has it within a day.
fn day(ahead: i64) -> jiff::civil::Date {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    now.checked_add(jiff::Span::new().days(ahead)).expect("a day")
}

/// Puts something of everything into the trades' tables.
async fn fill(household: &Household, daemon: &Daemon) {
    let now = jiff::Timestamp::now().to_string();
    let health = daemon.mcp("health");
    health.ok("measurement_log", json!({"kind": "weight", "value": {"kg": 81.4}})).await;
    health.ok("measurement_log", json!({"kind": "blood_pressure", "value": {"systolic": 128, "diastolic": 82}})).await;
    let pill = json!({"name": "Ramipril", "dosage": "5 mg", "frequency": "daily", "schedule": ["09:30"], "stock": 60});
    health.ok("medication_add", pill).await;
    health.ok("symptom_log", json!({"name": "headache", "severity": 6})).await;
    health.ok("condition_add", json!({"name": "Hay fever", "status": "managed"})).await;
    health.ok("meal_log", json!({"type": "lunch", "description": "Lentil soup"})).await;
    health.ok("research_save", json!({"title": "Magnesium", "content": "A review of five trials."})).await;
    // It was taken up some days ago.
    let db = household.owner().await;
    db.batch_execute(
        "SELECT set_config('butlerd.tenant', 'owner', false);
         UPDATE health.medication_plans SET from_at = from_at - interval '5 days', start_date = start_date - 5",
    )
    .await
    .expect("an older plan");

    let finance = daemon.mcp("finance");
    let bank = json!({"institution": "Sparkasse", "type": "checking", "currency": "EUR"});
    finance.ok("track_account", bank).await;
    let shop =
        json!({"posted_at": now, "merchant": "Rewe", "amount": 23.4, "currency": "EUR", "category": "groceries"});
    finance.ok("record_transaction", shop).await;
    let bill =
        json!({"payee": "Landlord", "amount": 900, "currency": "EUR", "due_date": day(5), "frequency": "monthly"});
    finance.ok("track_bill", bill).await;
    let films = json!({"service": "Films", "amount": 14, "currency": "EUR", "frequency": "monthly",
                       "next_renewal": day(9)});
    finance.ok("track_subscription", films).await;
    let budget = json!({"category": "groceries", "amount": 100, "period": "monthly", "currency": "EUR"});
    finance.ok("budget_set", budget).await;

    let people = daemon.mcp("relationship");
    let anna = people.ok("contact_create", json!({"name": "Anna Berger"})).await["id"].clone();
    let call = json!({"contact_id": anna, "type": "call", "occurred_at": format!("{}T10:00:00Z", day(-40))});
    people.ok("interaction_log", call).await;
    people.ok("stay_in_touch_set", json!({"contact_id": anna, "frequency_days": 14})).await;
    let birthday = json!({"contact_id": anna, "label": "birthday", "month": day(9).month(), "day": day(9).day()});
    people.ok("date_add", birthday).await;
    let due = format!("{}T10:00:00Z", day(3));
    people.ok("reminder_create", json!({"contact_id": anna, "message": "Ask her", "due_at": due})).await;
    people.ok("task_create", json!({"contact_id": anna, "title": "Send the photos"})).await;
    people.ok("gift_add", json!({"contact_id": anna, "description": "Chess book"})).await;
    let lent =
        json!({"contact_id": anna, "direction": "lent", "amount": 20, "currency": "EUR", "description": "Cinema"});
    people.ok("loan_create", lent).await;
    people.ok("group_create", json!({"name": "Chess club"})).await;

    let travel = daemon.mcp("travel");
    let rome = json!({"name": "Rome", "destination": "Rome", "start_date": day(12), "end_date": day(18)});
    travel.ok("trip_create", rome).await;
    let hotel = json!({"kind": "hotel", "name": "Hotel Aurelia", "city": "Rome", "check_in": day(12),
                       "check_out": day(16)});
    travel.ok("record_booking", json!({"payload": hotel})).await;
    travel.ok("add_document", json!({"type": "passport", "expiry_date": day(300)})).await;

    let general = daemon.mcp("general");
    general.ok("collection_create", json!({"name": "Home"})).await;
    let item = json!({"collection_name": "Home", "data": {"title": "Paint the door", "due": day(4)}});
    general.ok("item_create", item).await;
    general.ok("set_context", json!({"signal_type": "ill", "value": "a cold"})).await;
    general.ok("notify", json!({"intent": "send", "channel": "chat", "message": "Paint the door."})).await;

    let mut message = crate::support::tally::envelope("1", "owner", "How is the house?", "interactive");
    message["control"]["pinned_target"] = json!("general");
    crate::support::tally::insist(&household.data(), &message).await;
    household.at_rest("filled").await;
    household.all_delivered("filled").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pages_of_the_shipped_butlers_show_what_there_is() {
    let model = model(json!([{"when": "", "steps": [{"say": "All is well."}]}])).await;
    let household = Household::whole_with_model(&model);
    let daemon = household.start().await;
    let owner = daemon.token();
    let mut pages: Vec<(String, Value)> = Vec::new();
    for butler in ["health", "finance", "relationship", "travel", "general", "messenger", "switchboard"] {
        let (_, list) = look(&daemon, &owner, &format!("{butler}/"), &[]).await;
        let of: Vec<Value> = list["data"].as_array().unwrap_or_else(|| panic!("{list}")).clone();
        let cards = of.iter().filter(|page| page["card"].is_object()).count();
        assert!(cards >= 2, "{butler} has {cards} cards");
        pages.extend(of.into_iter().map(|page| (butler.to_owned(), page)));
    }
    let shown = async |when: &str| {
        let mut found = Vec::new();
        for (butler, page) in &pages {
            let path = format!("{butler}/{}", page["path"].as_str().expect("a path"));
            let needed = page["parameters"]["required"].as_array().expect("a list");
            if needed.is_empty() {
                let (status, answer) = look(&daemon, &owner, &path, &[]).await;
                assert_eq!(status, 200, "{path}, {when}: {answer}");
                found.push((path, answer["data"].as_array().expect("rows").clone()));
            }
        }
        found
    };
    shown("empty").await;
    fill(&household, &daemon).await;
    let full = shown("filled").await;
    let rows = |path: &str| &full.iter().find(|(at, _)| at == path).unwrap_or_else(|| panic!("no {path}")).1;
    for (path, rows) in &full {
        assert!(!rows.is_empty(), "{path} shows nothing");
    }
    assert_eq!(rows("health/weight")[0]["weight"], 81.4);
    assert_eq!(rows("health/latest")[0]["reading"], "128/82");
    assert_eq!(rows("finance/spending")[0]["category"], "groceries");
    assert_eq!(rows("finance/month")[0]["spent"], 23.4);
    assert_eq!(rows("relationship/overdue")[0]["name"], "Anna Berger");
    assert!(rows("travel/next-trip")[0]["about"].as_str().is_some_and(|about| about.starts_with("Rome, ")));
    assert_eq!(rows("travel/next-trip/timeline")[0]["what"], "Check-in: Hotel Aurelia");
    assert_eq!(rows("general/due")[0]["what"], "Home: Paint the door");
    assert_eq!(rows("switchboard/butlers")[0]["butler"], "general");
    let messages = &rows("switchboard/days")[0];
    assert_eq!((&messages["done"], &messages["open"], &messages["dead"]), (&json!(1), &json!(0), &json!(0)));
    assert_eq!(rows("messenger/days")[0]["wrong"], 0);
    assert!(rows("messenger/channels").iter().any(|row| row["channel"] == "chat" && row["sent"] != 0));
    let trip = rows("travel/trips")[0]["id"].as_str().expect("an id").to_owned();
    let (_, bookings) = look(&daemon, &owner, "travel/bookings", &[("trip_id", &trip)]).await;
    assert_eq!(bookings["data"][0]["what"], "Hotel Aurelia", "{bookings}");
    assert_eq!(look(&daemon, &owner, "travel/bookings", &[]).await.0, 400);
}
