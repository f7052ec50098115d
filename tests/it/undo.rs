//! `butlerd undo`: what a call of a roster's tool changed is put back as it was, or what stands in its way is said.

use serde_json::{Value, json};

use crate::support::{Daemon, Household, model};

const SHELF: &str = "[butler]\nname = \"shelf\"\nport = 40177\ndescription = \"Keeps boxes and what is in them.\"\n\
                     [butler.runtime]\nmodel = \"claude-sonnet-4-5\"\n[runtime]\ntype = \"native\"\n[modules.shelf]\n";

const TABLES: &str = "
CREATE TABLE boxes (
    name text NOT NULL, size int NOT NULL DEFAULT 1, tags text[] NOT NULL DEFAULT '{}', price numeric(10,2),
    label text GENERATED ALWAYS AS ('box ' || name) STORED, stamped int NOT NULL DEFAULT 0,
    number bigint GENERATED ALWAYS AS IDENTITY, made timestamptz NOT NULL DEFAULT shared.clock());
SELECT shared.tenant_table('boxes');
ALTER TABLE boxes ADD PRIMARY KEY (tenant_id, name);
CREATE TABLE things (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), in_box text NOT NULL, what text NOT NULL);
SELECT shared.tenant_table('things');
ALTER TABLE things ADD FOREIGN KEY (tenant_id, in_box) REFERENCES boxes (tenant_id, name);
-- A table without a key.
CREATE TABLE remarks (text text NOT NULL);
SELECT shared.tenant_table('remarks');
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF shared.undoing() THEN RETURN NEW; END IF;
    NEW.stamped := OLD.stamped + 1;
    RETURN NEW;
END $$;
CREATE TRIGGER stamp BEFORE UPDATE ON boxes FOR EACH ROW EXECUTE FUNCTION stamp();
CREATE FUNCTION empty_all() RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
    DELETE FROM things; GET DIAGNOSTICS n = ROW_COUNT;
    UPDATE boxes SET size = 0, tags = tags || ARRAY['emptied'];
    INSERT INTO remarks VALUES ('emptied');
    RETURN n;
END $$;
";

fn tool(args: &str, sql: &str) -> String {
    format!(
        "/*---\ndescription: Does something with boxes.\nargs: {args}\nreturns: row\nmeta: {{effect: once}}\n---*/\n{sql}\n"
    )
}

fn household() -> Household {
    Household::new()
        .butler("shelf", SHELF)
        .write("shelf/migrations/001_boxes.sql", TABLES)
        .write(
            "shelf/tools/box_make.sql",
            &tool(
                "{name: {type: string, required: true}, price: {type: number}}",
                "INSERT INTO boxes (name, price) VALUES (:name, :price::numeric) RETURNING name, size",
            ),
        )
        .write(
            "shelf/tools/box_size.sql",
            &tool(
                "{name: {type: string, required: true}, size: {type: integer, required: true}}",
                "UPDATE boxes SET size = :size::int WHERE name = :name RETURNING name, size",
            ),
        )
        .write(
            "shelf/tools/thing_put.sql",
            &tool(
                "{name: {type: string, required: true}, what: {type: string, required: true}}",
                "INSERT INTO things (in_box, what) VALUES (:name, :what) RETURNING what",
            ),
        )
        .write("shelf/tools/empty.sql", &tool("{}", "SELECT empty_all() AS things"))
}

struct Shelf {
    household: Household,
    daemon: Daemon,
}

impl Shelf {
    fn call(&self, tool: &str, args: &Value) {
        let (code, out, err) = self.household.cli(&["tool", "call", "shelf", tool, &args.to_string()]);
        assert_eq!(code, 0, "{tool}: {out}{err}");
    }

    /// The newest call that can be taken back.
    fn newest(&self) -> String {
        let (code, out, err) = self.household.cli(&["undo", "--json"]);
        assert_eq!(code, 0, "{out}{err}");
        let calls: Value = serde_json::from_str(&out).expect("a list");
        calls["items"][0]["call"].as_str().unwrap_or_else(|| panic!("no call: {out}")).to_owned()
    }

    fn undo(&self, which: &str) -> (i32, String) {
        let (code, out, err) = self.household.cli(&["undo", which]);
        (code, out + &err)
    }

    /// All rows, in a text.
    fn rows(&self) -> String {
        let sql = "SELECT (SELECT jsonb_agg(to_jsonb(b) ORDER BY b.name) FROM boxes b)::text
                          || coalesce((SELECT jsonb_agg(to_jsonb(t) ORDER BY t.what) FROM things t)::text, '-')
                          || coalesce((SELECT jsonb_agg(to_jsonb(r)) FROM remarks r)::text, '-') AS all";
        let (code, out, err) = self.household.cli_with_input(&["db", "psql", "--butler", "shelf"], sql);
        assert_eq!(code, 0, "{out}{err}");
        out
    }
}

#[test]
fn a_call_is_taken_back_or_says_what_stands_on_it() {
    let household = household();
    let daemon = Daemon::spawn(&household).wait_ready();
    let mut shelf = Shelf { household, daemon };
    shelf.call("box_make", &json!({"name": "a", "price": 19.9}));
    let made = shelf.newest();
    assert!(made.starts_with("shelf/"), "{made}");
    let before = shelf.rows();
    shelf.call("box_size", &json!({"name": "a", "size": 5}));
    let first = shelf.newest();
    let sized = shelf.rows();
    shelf.call("box_size", &json!({"name": "a", "size": 6}));
    let second = shelf.newest();

    // Something newer stands on the first: it is named, and nothing changes.
    let (code, said) = shelf.undo(&first);
    assert!(code == 1 && said.contains(&format!("changed again by {second} (box_size)")), "{said}");
    let (code, said) = shelf.undo(&second);
    assert!(code == 0 && said.contains("1 row as before"), "{said}");
    assert_eq!(shelf.rows(), sized);
    let (code, said) = shelf.undo(&first);
    assert_eq!(code, 0, "{said}");
    assert_eq!(shelf.rows(), before, "stamps, generated columns and numbers too");
    // A second time finds that the rows are not what the call left.
    let (code, said) = shelf.undo(&first);
    assert!(code == 1 && said.contains("(undo)"), "{said}");

    // What refers to the row stands in the way.
    shelf.call("thing_put", &json!({"name": "a", "what": "lamp"}));
    let put = shelf.newest();
    let (code, said) = shelf.undo(&made);
    assert!(code == 1 && said.contains("newer rows of things refer to what it made"), "{said}");

    // A function that deletes, updates and adds is one call; taking it back can be taken back.
    let full = shelf.rows();
    shelf.call("empty", &json!({}));
    let empty = shelf.rows();
    let emptied = shelf.newest();
    assert_ne!(full, empty);
    let (code, said) = shelf.undo(&emptied);
    assert!(code == 0 && said.contains("3 rows as before"), "{said}");
    assert_eq!(shelf.rows(), full);
    let again = shelf.newest();
    assert!(said.contains(&format!("butlerd undo {again}")), "{said}");
    assert_eq!(shelf.undo(&again).0, 0);
    assert_eq!(shelf.rows(), empty);
    assert_eq!(shelf.undo(&shelf.newest()).0, 0);

    // A restart in between forgets nothing.
    assert_eq!(shelf.daemon.stop_blocking(), 0);
    shelf.daemon = Daemon::spawn(&shelf.household).wait_ready();
    assert_eq!(shelf.undo(&put).0, 0);
    assert_eq!(shelf.undo(&made).0, 0);
    assert!(!shelf.rows().contains("box a"), "no box is left: {}", shelf.rows());

    // What there is nothing kept of, and what is not there.
    let (code, said) = shelf.undo("shelf/999999");
    assert!(code == 1 && said.contains("There is no call shelf/999999"), "{said}");
    let (code, said) = shelf.undo("nonsense");
    assert!(code == 2 && said.contains("neither a call nor a session"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_taken_back_as_a_whole() {
    let model = model(json!([
        {"when": "tidy", "steps": [
            {"call": {"tool": "box_make", "arguments": {"name": "a"}}},
            {"call": {"tool": "thing_put", "arguments": {"name": "a", "what": "lamp"}}},
            {"call": {"tool": "state_set", "arguments": {"key": "x", "value": 1}}},
            {"say": "Tidied."}]},
    ]))
    .await;
    let household = Household::with_model(&model);
    let shelf = household
        .butler("shelf", SHELF)
        .write("shelf/migrations/001_boxes.sql", TABLES)
        .write(
            "shelf/tools/box_make.sql",
            &tool("{name: {type: string, required: true}}", "INSERT INTO boxes (name) VALUES (:name) RETURNING name"),
        )
        .write(
            "shelf/tools/thing_put.sql",
            &tool(
                "{name: {type: string, required: true}, what: {type: string, required: true}}",
                "INSERT INTO things (in_box, what) VALUES (:name, :what) RETURNING what",
            ),
        );
    let _daemon = Daemon::spawn(&shelf).wait_ready();
    let ran = |args: &[&str]| tokio::task::block_in_place(|| shelf.cli(args));
    let (code, out, err) = ran(&["trigger", "shelf", "tidy up", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let end: Value = serde_json::from_str(&out).expect("a result");
    let session = end["session_id"].as_str().or_else(|| end["id"].as_str()).expect("an id").to_owned();
    let (code, out, err) = ran(&["undo", &session]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("(thing_put): 1 row as before") && out.contains("(box_make): 1 row as before"), "{out}");
    assert!(out.contains("no way back is known: state_set"), "{out}");
    let db = shelf.role("shelf").await;
    let count = "SELECT (SELECT count(*) FROM boxes) + (SELECT count(*) FROM things)";
    let left: i64 = db.query_one(count, &[]).await.expect("a count").get(0);
    assert_eq!(left, 0);
    // A butler's own role sees nothing of what is kept.
    let why = db.query("SELECT 1 FROM shared.row_changes", &[]).await.expect_err("it may not");
    assert!(why.as_db_error().is_some_and(|e| e.message().contains("permission denied")), "{why}");
}
