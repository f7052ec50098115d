//! What a database holds, table by table, as short texts that can be compared. It knows nothing of how backups are
//! made.

use std::collections::BTreeMap;
use std::path::Path;

use access::credentials::MasterKey;
use store::cluster::{Cluster, ClusterOptions, OWNER};
use supervisor::owner_login;
use tokio_postgres::{Client, GenericClient, NoTls};

/// Of each table how many rows it has and a hash of them in order; of each sequence where it stands; of each object
/// that guards rows its definition.
pub type Prints = BTreeMap<String, String>;

const TABLES: &str = "
    SELECT format('%I.%I', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^(pg_|information_schema)'
      -- Which daemons are there is nothing to keep.
      AND (n.nspname, c.relname) <> ('shared', 'nodes') ORDER BY 1";

/// Everything else that makes a table what it is.
const RULES: &str = "
    SELECT 'constraint ' || conrelid::regclass || ' ' || conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace::regnamespace::text !~ '^(pg_|information_schema)' AND conrelid <> 0
    UNION ALL
    SELECT 'trigger ' || tgrelid::regclass || ' ' || tgname, tgenabled::text || pg_get_triggerdef(oid) FROM pg_trigger
    WHERE NOT tgisinternal
    UNION ALL
    SELECT 'policy ' || polrelid::regclass || ' ' || polname, pg_get_expr(polqual, polrelid) FROM pg_policy
    UNION ALL
    SELECT 'index ' || indexrelid::regclass, pg_get_indexdef(indexrelid) FROM pg_index
    WHERE indrelid IN (SELECT c.oid FROM pg_class c WHERE c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)')
    UNION ALL
    SELECT 'rights ' || c.oid::regclass, replace(
        (SELECT coalesce(string_agg(a::text, ',' ORDER BY a::text), '')
         FROM unnest(coalesce(c.relacl, acldefault((CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END)::\"char\", c.relowner))) a),
        pg_get_userbyid(c.relowner), 'the owner')
    FROM pg_class c WHERE c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)' AND c.relkind IN ('r', 'S', 'v')
    UNION ALL
    SELECT 'column ' || a.attrelid::regclass || ' ' || a.attname,
           concat_ws(' ', format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated::text, a.attidentity::text,
                     pg_get_expr(d.adbin, d.adrelid))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v')
      AND c.relnamespace::regnamespace::text !~ '^(pg_|information_schema)'
    UNION ALL
    SELECT 'function ' || p.oid::regprocedure, md5(pg_get_functiondef(p.oid) || replace(coalesce(p.proacl::text, ''), pg_get_userbyid(p.proowner), 'the owner')) FROM pg_proc p
    WHERE p.pronamespace::regnamespace::text !~ '^(pg_|information_schema)' AND p.prokind = 'f'
    UNION ALL
    SELECT 'role ' || rolname, rolcanlogin::text || rolsuper::text || coalesce(rolpassword::text, '') FROM pg_roles
    WHERE rolname ~ '^butler_'";

/// What the database shows to this client at this moment.
pub async fn prints(client: &impl GenericClient) -> Prints {
    client.batch_execute("SET timezone = 'UTC'; SET search_path = ''").await.expect("settings");
    let mut found = Prints::new();
    for row in client.query(TABLES, &[]).await.expect("the tables") {
        let table: String = row.get(0);
        let sql = format!(
            "SELECT count(*), md5(coalesce(string_agg(t::text, E'\\n' ORDER BY t::text COLLATE pg_catalog.\"C\"), ''))
             FROM {table} t"
        );
        let row = client.query_one(&sql, &[]).await.expect("the rows");
        found.insert(table, format!("{} rows {}", row.get::<_, i64>(0), row.get::<_, String>(1)));
    }
    for row in client.query(RULES, &[]).await.expect("the rules") {
        found.insert(row.get(0), row.get(1));
    }
    found
}

/// Where the sequences stand. They are of no snapshot, so they can be compared only where nobody writes.
pub async fn sequences(client: &Client) -> Prints {
    let sql = "SELECT schemaname || '.' || sequencename, coalesce(last_value::text, '-') FROM pg_sequences";
    let rows = client.query(sql, &[]).await.expect("the sequences");
    rows.iter().map(|r| (r.get(0), r.get(1))).collect()
}

/// Fails with what differs, and only that.
pub fn same(what: &str, left: &Prints, right: &Prints) {
    let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let differs = |key: &&&String| left.get(**key) != right.get(**key);
    let told: Vec<String> =
        keys.iter().filter(differs).map(|k| format!("{k}: {:?} and {:?}", left.get(*k), right.get(*k))).collect();
    assert!(told.is_empty(), "{what}:\n{}", told.join("\n"));
}

/// A private server on a data directory whose daemon doesn't run, and a connection as its owner.
pub async fn server(data: &Path) -> (Cluster, Client) {
    let key = MasterKey::load(None, data).expect("a master key");
    let password = owner_login(&key);
    let options = ClusterOptions::new(data.to_owned(), data.join("cache"), password.clone());
    let cluster = Cluster::start(options).await.expect("the server starts");
    let mut config = cluster.connect_config(OWNER, &password);
    let exists = "SELECT 1 FROM pg_database WHERE datname = 'butlers'";
    if connect(&config).await.query_opt(exists, &[]).await.expect("an answer").is_some() {
        config.dbname("butlers");
    }
    let client = connect(&config).await;
    (cluster, client)
}

/// A connection of these settings.
pub async fn connect(config: &tokio_postgres::Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.expect("the owner may log in");
    tokio::spawn(connection);
    client
}

/// What a stopped household's database holds, sequences too.
pub async fn at_rest(data: &Path) -> Prints {
    let (cluster, client) = server(data).await;
    let mut found = prints(&client).await;
    found.extend(sequences(&client).await);
    drop(client);
    cluster.stop(std::time::Duration::from_secs(20)).await;
    found
}
