//! A butler that remembers, and what is looked at in its rows.

use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

use super::Household;
use super::tally::TALLY;

/// A household whose butler `tally` remembers, and does nothing about it by itself for a year. `more` is added to its
/// `butler.toml`.
pub fn remembering(household: Household, more: &str) -> Household {
    let household = household.with_tally(1);
    let path = household.roster().join("tally/butler.toml");
    let toml = std::fs::read_to_string(path).expect("the file");
    let never = |job: &str| format!("\n[modules.memory.{job}]\ncron = \"0 0 29 2 *\"\n");
    let crons = ["consolidation", "decay", "cleanup"].map(never).concat();
    household.write("tally/butler.toml", &format!("{toml}\n[modules.memory]\nenabled = true\n{crons}{more}"))
}

/// Runs one of tally's schedules and returns what is told of it.
pub fn run(household: &Household, schedule: &str) -> Value {
    let (_, out, err) = household.cli(&["schedule", "run", schedule, "--butler", TALLY, "--json"]);
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"))
}

pub fn said(ran: &Value) -> &str {
    ran["result"].as_str().or(ran["error"].as_str()).unwrap_or_else(|| panic!("nothing is said: {ran}"))
}

/// Puts a memory into tally's tables, as its tenant's, believed so far.
pub async fn put(client: &Client, kind: &str, tenant: &str, trust: &str, more: Value) -> Uuid {
    put_at(client, TALLY, (kind, tenant, trust), more).await
}

/// The same at a butler whose schema has its name.
pub async fn put_at(client: &Client, butler: &str, (kind, tenant, trust): (&str, &str, &str), more: Value) -> Uuid {
    let id = Uuid::now_v7();
    let mut given = json!({"id": id, "content_hash": id, "topic_hash": id, "subject": "s", "predicate": "p", "content": "c",
                           "source_butler": butler, "butler": butler});
    given.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let sql = "SELECT set_config('butlerd.tenant', $1, false), set_config('butlerd.trust', $2, false)";
    client.query(sql, &[&tenant, &trust]).await.expect("settings");
    client.query(&format!("SELECT {butler}.memory_put($1, $2)"), &[&kind, &given]).await.expect("it is put");
    id
}

/// In which tables these words stand.
pub async fn dump(db: &Client, words: &str) -> Vec<String> {
    let tables =
        "SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^(pg_|information_schema)' ORDER BY 1";
    let mut found = Vec::new();
    for row in db.query(tables, &[]).await.expect("the tables") {
        let table: String = row.get(0);
        let sql = format!("SELECT left(t::text, 2000) FROM {table} t WHERE strpos(t::text, $1) > 0 LIMIT 1");
        if let Some(row) = db.query_opt(&sql, &[&words]).await.expect("the rows") {
            found.push(format!("{table}: {}", row.get::<_, String>(0)));
        }
    }
    found
}
