//! A butler of a household's database that no daemon knows: its tools, door, labels and tables are the house's own.

use std::path::Path;
use std::sync::Arc;

use access::credentials::MasterKey;
use access::{CallGuard, Caller, ChannelEnds, Grant, GrantScope, Holder, Taint, ToolsSeen};
use approvals::{Actions, ApprovalGate, OthersMay, Settings};
use base::{Audience, ButlerName, Clock, Principal, RequestContext, Secret, SessionId, TenantId, Trust};
use serde_json::{Value, json};
use store::cluster::{OWNER, socket_config};
use store::migrate::Chain;
use store::{Database, DatabaseOptions, Store};
use supervisor::owner_login;
use telemetry::Metrics;
use tokio_util::sync::CancellationToken;
use tools::sql::{Use, load_dir, prepare};
use tools::{
    Auditor, Definition, Effect, EgressTarget, Meta, Tool, ToolSet, ToolSetBuilder, core_tools, handler, note_tools,
};
use uuid::Uuid;

use super::reference;
use crate::support::Household;

/// The roster's own tools: each shows labelled rows alone, or nothing.
const TOOLS: [(&str, &str, &str, &str); 5] = [
    (
        "row_get",
        "program, name",
        "rows\nmeta: {reads_private: false}",
        "SELECT text FROM board WHERE program = :program::int AND name = :name::int",
    ),
    (
        "row_list",
        "program",
        "rows\nmeta: {reads_private: false}",
        "SELECT name, text FROM board WHERE program = :program::int",
    ),
    (
        "row_put",
        "program, name, text",
        "none\nmeta: {reads_private: false, effect: idempotent}",
        "INSERT INTO board (program, name, text) VALUES (:program::int, :name::int, :text::text)
         ON CONFLICT (program, name) DO UPDATE SET text = excluded.text",
    ),
    (
        "row_drop",
        "program, name",
        "none\nmeta: {reads_private: false, effect: idempotent}",
        "DELETE FROM board WHERE program = :program::int AND name = :name::int",
    ),
    (
        "shout",
        "program",
        "none\nmeta: {reads_private: false, sends_out: true, effect: once}",
        "INSERT INTO shouts (program) VALUES (:program::int)",
    ),
];

const TABLES: &str = "CREATE TABLE board (program integer NOT NULL, name integer NOT NULL, text text NOT NULL,
                                          PRIMARY KEY (program, name));
                      SELECT shared.tenant_table('board');
                      CREATE TABLE shouts (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), program integer NOT NULL);
                      SELECT shared.tenant_table('shouts');";

/// Writes the butler's files.
fn write(dir: &Path) {
    std::fs::create_dir_all(dir.join("tools")).expect("a directory");
    std::fs::create_dir_all(dir.join("migrations")).expect("a directory");
    for (name, args, returns, sql) in TOOLS {
        let args: String = args
            .split(", ")
            .map(|arg| {
                let kind = if arg == "text" { "string" } else { "integer" };
                format!("  {arg}: {{type: {kind}, required: true, description: its {arg}}}\n")
            })
            .collect();
        let text = format!("/*---\ndescription: Does {name}.\nargs:\n{args}returns: {returns}\n---*/\n{sql};\n");
        std::fs::write(dir.join(format!("tools/{name}.sql")), text).expect("a tool");
    }
    std::fs::write(dir.join("migrations/001_board.sql"), TABLES).expect("a migration");
}

/// A tool that tells those whom its arguments name: `to`, which is nobody for the owner alone.
fn tell() -> Tool {
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["to", "text"], "properties": {
        "to": {"type": "array", "items": {"type": "string"}}, "text": {"type": "string"}}});
    let meta = Meta { sends_out: true, ..Meta::write(Effect::Once) }.labelled();
    let definition = Definition::new("tell", "Tells them.", schema, meta).expect("a schema");
    let said = handler(|_| async { Ok(json!({"status": "ok"})) });
    Tool::new(&Arc::new(definition), said).with_egress_target(Arc::new(|call| {
        let those: Vec<Principal> = call.args["to"].as_array().into_iter().flatten().map(principal).collect();
        let outward = !those.is_empty();
        Box::pin(async move {
            Ok(Some(EgressTarget { outward, to: "them".to_owned(), those: Some(those), recipient: None }))
        })
    }))
}

fn principal(name: &Value) -> Principal {
    match name.as_str().unwrap_or_default() {
        "family" => Principal::group("telegram", "bot:home", "family"),
        person => Principal::person("telegram", person),
    }
}

/// The butler, once for each of the settings.
pub struct House {
    pub clock: Clock,
    store: Store,
    sets: Vec<ToolSet>,
}

impl House {
    pub async fn of(household: &Household, settings: &[reference::Settings]) -> Self {
        let (db, clock) = open(household).await;
        let dir = household.path().join("lattice");
        write(&dir);
        let name = ButlerName::new("lattice").expect("a name");
        let store = db.provision(&name, "lattice").await.expect("a store");
        let core = Chain::shipped("core").expect("the chain");
        let own = Chain::from_dir(name.as_str(), &dir.join("migrations")).expect("the roster's chain");
        db.migrate(&name, "lattice", &[&core]).await.expect("the tables");
        db.migrate(&name, "lattice", &[&own]).await.expect("the roster's tables");
        let metrics = Arc::new(Metrics::default());
        let mut sets = Vec::new();
        for given in settings {
            let mut builder = ToolSetBuilder::default();
            let loaded = load_dir(&dir.join("tools"), Use::Tool).expect("the tools");
            let mut lease = store.tenant(&TenantId::owner()).await.expect("a lease");
            let roster = prepare(&mut lease, loaded).await.expect("the tools are right");
            drop(lease);
            for tool in core_tools().into_iter().chain(note_tools()).chain(roster).chain([tell()]) {
                builder.add(tool, None).expect("a new name");
            }
            let change = |may: bool| ["row_put", "row_drop"].map(str::to_owned).into_iter().filter(|_| may).collect();
            let others = OthersMay {
                strangers: change(given.strangers_change),
                known: change(given.known_change),
                known_may_learn: given.known_learn,
            };
            let actions = Actions::new(&db, &clock);
            let settings = Settings::read(None).expect("the defaults");
            let gate =
                ApprovalGate::new(&name, &store, actions, (settings, others), butler::SESSION_PIECES, Arc::new(|| ()));
            let auditor = Auditor::start(store.clone(), sessions::sql::STATEMENTS);
            sets.push(builder.build(name.clone(), store.clone(), auditor, metrics.of("lattice"), Arc::new(gate)));
        }
        Self { clock, store, sets }
    }

    /// One call of a session, made as the butler's server makes it.
    pub async fn call(&self, set: usize, session: &Arc<Grant>, tool: &str, args: &Value) -> Value {
        self.made(set, Caller::of(session.clone(), &self.clock, "mcp"), tool, args).await
    }

    /// One call of a session that had to wait, once the owner has approved it.
    pub async fn approved(&self, set: usize, session: &Arc<Grant>, tool: &str, args: &Value) -> Value {
        let caller = Caller::of(session.clone(), &self.clock, "mcp");
        self.made(set, Caller::approved(Uuid::now_v7(), caller.session(), caller.context), tool, args).await
    }

    async fn made(&self, set: usize, caller: Caller, tool: &str, args: &Value) -> Value {
        let args = args.as_object().cloned().expect("arguments");
        self.sets[set].call(tool, args, caller, CancellationToken::new()).await.expect("such a tool").json
    }

    /// A session of somebody who writes now.
    pub fn session(&self, who: &str) -> Arc<Grant> {
        let trust = match who {
            "owner" => Trust::Owner,
            "house" => Trust::System,
            "bob" => Trust::Known,
            _ => Trust::Stranger,
        };
        let sender = if who == "family" { "somebody" } else { who };
        let mut context = RequestContext::root(&self.clock, TenantId::owner(), "telegram", "bot:home", sender, trust);
        if who == "family" {
            context.group = true;
            context.source_thread_identity = Some("family".to_owned());
        }
        if !matches!(who, "owner" | "house") {
            context.audience = Audience::people([context.heard_by()]);
        }
        grant(context)
    }

    /// A session that another one causes.
    pub fn caused(&self, by: &Arc<Grant>) -> Arc<Grant> {
        let Holder::Session { session, .. } = &by.holder else { panic!("a session") };
        let caller = Caller::of(by.clone(), &self.clock, "mcp");
        grant(caller.context.caused_by(*session, &self.clock))
    }

    /// The rows of all programs.
    pub async fn rows(&self) -> i64 {
        let mut lease = self.store.tenant(&TenantId::owner()).await.expect("a lease");
        lease.read("SELECT count(*) FROM board", &[]).await.expect("a count")[0].get(0)
    }
}

fn grant(context: RequestContext) -> Arc<Grant> {
    let taint = Arc::new(Taint::of(&context.label()));
    Arc::new(Grant {
        holder: Holder::Session {
            session: SessionId::new(),
            context: Arc::new(context),
            calls: Arc::new(CallGuard::open()),
            tools_seen: ToolsSeen::default(),
            tools_shown: Default::default(),
            taint,
        },
        tenant: TenantId::owner(),
        butler: None,
        tools: None,
        scopes: [GrantScope::Tools].into(),
        ends: ChannelEnds::default(),
        expires_at: None,
    })
}

/// The database of a household whose daemon runs.
async fn open(household: &Household) -> (Arc<Database>, Clock) {
    let key = MasterKey::load(None, &household.data()).expect("the key");
    let pid = std::fs::read_to_string(household.data().join("postgres/postmaster.pid")).expect("a server");
    let socket = pid.lines().nth(4).expect("its socket").to_owned();
    let password: Secret<String> = owner_login(&key);
    let mut owner = socket_config(Path::new(&socket), OWNER, &password);
    owner.dbname("butlers");
    let clock = Clock::default();
    let options = DatabaseOptions {
        owner,
        pool_size: 8,
        time_zone: jiff::tz::TimeZone::get("Europe/Berlin").expect("a zone"),
        master_key: key.bytes().clone(),
        clock: clock.clone(),
    };
    (Arc::new(Database::open(options).await.expect("the database")), clock)
}
