//! The dashboard over a household that has lived for years: how soon each page begins to come, first and hundredth page
//! of a list alike; what fifty open pages cost; and what it costs that nobody looks.

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::model::{Script, ScriptedModel};
use tokio_postgres::Client;

use crate::daemon::{Daemon, WITHOUT_PAGES};
use crate::household::{Household, MODEL};
use crate::memory;
use crate::table::{self, Verdict, median, p95};
use crate::{Failed, Plan, boot, machine};

/// Until the first byte of any page, p95.
const FIRST_BYTE_MS: f64 = 100.0;
/// Of fifty pages that stay open.
const OPEN: usize = 50;
const OPEN_MB: f64 = 20.0;
const OPEN_CORE_PERCENT: f64 = 5.0;
/// What the pages may take where nobody looks.
const AT_REST_MB: f64 = 1.0;
/// The page of a list that is as far away as people go.
const FAR: usize = 100;

/// Rows of a household that has lived for years.
const SESSIONS: i64 = 10_000;
const CALLS: i64 = 1_000_000;
const MESSAGES: i64 = 100_000;
const MEMORIES: usize = 100_000;

/// Places that need no row of their own.
const PLACES: [&str; 22] = [
    "/",
    "/sessions",
    "/approvals",
    "/inbox",
    "/conversations",
    "/conversations?q=number",
    "/schedules",
    "/memory?butler=general",
    "/memory?butler=general&q=boiler",
    "/costs",
    "/council",
    "/journal/general",
    "/projects",
    "/people",
    "/deliveries",
    "/connectors",
    "/rules",
    "/notes",
    "/settings",
    "/audit",
    "/undo",
    "/butlers/general",
];

/// Lists that go on page by page.
const LISTS: [&str; 5] = ["/sessions", "/inbox", "/conversations", "/deliveries", "/audit"];

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    println!("\nThe dashboard");
    nobody_looks(plan).await?;
    let household = Household::new(0)?;
    memory::remembering(&household)?;
    let script = json!({"conversations": [{"when": ".", "steps": [{"say": "All is well."}]}]});
    let model = ScriptedModel::start(Script::from_value(script)?).await?;
    let settings = [format!("spawner.endpoints.anthropic={}", model.base_url())];
    let daemon = Daemon::start(&household, &settings).await?;
    let client = connect(&household).await?;
    live_once(&household, &client).await?;
    let scale = if plan.is_quick() { 10 } else { 1 };
    let begun = Instant::now();
    fill(&client, scale).await?;
    table::note(&format!("years of rows were written in {:.0} s", begun.elapsed().as_secs_f64()));
    // The caches and plans of the start would be those of an empty household.
    daemon.stop().await?;
    let daemon = Daemon::start(&household, &settings).await?;
    let browser = Browser::sign_in(&household).await?;
    table::note(&format!(
        "{} sessions, {} calls on record, {} messages, {} memories",
        SESSIONS / scale,
        CALLS / scale,
        MESSAGES / scale,
        MEMORIES as i64 / scale
    ));
    let times = if plan.is_quick() { 20 } else { 100 };
    for place in PLACES {
        first_bytes(&browser, place, place, times).await?;
    }
    for list in LISTS {
        let (far, page) = browser.page_of(list, FAR).await?;
        first_bytes(&browser, &format!("{list}, page {page}"), &far, times).await?;
    }
    let session = browser.first_link("/sessions", "/sessions/").await?;
    first_bytes(&browser, "a session", &session, times).await?;
    let message = browser.first_link("/inbox", "/inbox/").await?;
    first_bytes(&browser, "a message", &message, times).await?;
    stay_open(plan, &daemon, &browser).await?;
    drop(client);
    daemon.stop().await?;
    model.shutdown().await;
    Ok(())
}

/// What the process weighs with the pages and without them, in turns, nobody looking.
async fn nobody_looks(plan: &Plan) -> Result<(), Failed> {
    let household = Household::new(0)?;
    Daemon::start(&household, &[]).await?.stop().await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds.min(3) {
        for (settings, weights) in [(vec![], &mut with), (vec![WITHOUT_PAGES.to_owned()], &mut without)] {
            let daemon = Daemon::start(&household, &settings).await?;
            tokio::time::sleep(plan.settle.min(Duration::from_secs(10))).await;
            weights.push(machine::status_kib(daemon.pid(), "VmRSS")? as f64 / 1024.0);
            daemon.stop().await?;
        }
    }
    let (with, without) = (median(&with), median(&without));
    let verdict = Verdict::at_most(with - without, AT_REST_MB, "MB more");
    table::note(&format!("at rest, nobody looking: {with:.1} MB resident, {without:.1} MB without pages   {verdict}"));
    Ok(())
}

async fn connect(household: &Household) -> Result<Client, Failed> {
    let (client, connection) = boot::owner(household, "butlers")?.connect(tokio_postgres::NoTls).await?;
    base::task::spawn(base::task::Kind::Job, "bench", connection);
    Ok(client)
}

/// One message, its session and its answer, as the daemon itself writes them.
async fn live_once(household: &Household, client: &Client) -> Result<(), Failed> {
    let link = household.butlerd(&["login-link"])?;
    let (at, _) = link["url"].as_str().and_then(|url| url.split_once("/login/")).ok_or("no link to sign in")?;
    let token = std::fs::read_to_string(household.data().join("run/operator.token"))?;
    let said = json!({"text": "How is the house?", "butler": MODEL});
    let chat = base::http_client("http://127.0.0.1").build()?.post(format!("{at}/api/chat"));
    chat.bearer_auth(token.trim()).json(&said).send().await?.error_for_status()?.text().await?;
    client.batch_execute("SET butlerd.tenant = 'owner'; SET butlerd.trust = 'owner'").await?;
    let begun = Instant::now();
    let ended = "SELECT (SELECT count(*) FROM general.sessions WHERE completed_at IS NOT NULL)
                   * (SELECT count(*) FROM switchboard.message_inbox WHERE state = 'done')";
    while client.query_one(ended, &[]).await?.get::<_, i64>(0) == 0 {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("the one conversation has not ended after a minute".into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Copies those rows, with ids and times of their own, over a year.
async fn fill(client: &Client, scale: i64) -> Result<(), Failed> {
    let (sessions, calls, messages) = (SESSIONS / scale, CALLS / scale, MESSAGES / scale);
    let at = "now() - n * interval '1 hour'";
    let changes = format!(
        "'id', ids.id, 'request_id', gen_random_uuid(), 'trace_id', md5(n::text), 'route_id', NULL, 'remember', 'stored',
         'prompt', 'Question number ' || n, 'queued_at', {at}, 'started_at', {at}, 'completed_at', {at} + interval '3 s'"
    );
    copies(client, "general.sessions", "completed_at IS NOT NULL", sessions, &changes).await?;
    let sql = format!(
        "INSERT INTO general.session_events
         SELECT (jsonb_populate_record(NULL::general.session_events, to_jsonb(e) || jsonb_build_object('session_id', s.id))).*
         FROM general.session_events e, general.sessions s WHERE s.prompt LIKE 'Question%';
         INSERT INTO general.tool_calls (session_id, request_id, caller, tool, arguments, outcome, effect, called_at, duration_us)
         SELECT s.id, s.request_id, 'session ' || s.id, 'state_get', '{{\"key\": \"a\"}}', 'ok', 'none',
                s.queued_at + n * interval '10 ms', 900
         FROM general.sessions s, generate_series(1, {calls} / {sessions}) n
         WHERE s.prompt LIKE 'Question%' ORDER BY s.queued_at, n"
    );
    client.batch_execute(&sql).await?;
    let at = "now() - n * interval '5 minutes'";
    let changes = format!(
        "'request_id', ids.id, 'seq', -n, 'dedupe_key', ids.id, 'dedupe_by', 'event', 'external_event_id', ids.id,
         'lane', 'bench ' || n % 1000, 'thread', 'bench ' || n % 1000, 'body', 'This is message number ' || n,
         'observed_at', {at}, 'received_at', {at}, 'settled_at', {at}"
    );
    copies(client, "switchboard.message_inbox", "state = 'done'", messages, &changes).await?;
    let changes =
        "'id', ids.id, 'seq', -n, 'request_id', gen_random_uuid(), 'idempotency_key', ids.id, 'reply_seq', NULL,
         'lane', 'bench ' || n % 1000, 'conversation', 'bench ' || n % 1000, 'thread', 'bench ' || n % 1000";
    copies(client, "shared.outbox", "state = 'sent'", messages / 2, changes).await?;
    memory::fill_facts(client, MEMORIES / usize::try_from(scale)?).await?;
    client.batch_execute("ANALYZE").await?;
    client.batch_execute("SELECT shared.conversation_order()").await?;
    client.batch_execute("ANALYZE shared.conversation, shared.conversation_readers").await?;
    Ok(())
}

/// Puts rows into a table, each as `one` of it is, with other values for these columns. A few in a transaction: triggers
/// count in rows of their own, and a row that one transaction changes ten thousand times is slow to find.
async fn copies(client: &Client, table: &str, one: &str, many: i64, changes: &str) -> Result<(), Failed> {
    const BATCH: i64 = 200;
    let columns = "SELECT string_agg(attname, ', ') FROM pg_attribute
        WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''";
    let columns: String = client.query_one(columns, &[&table]).await?.get(0);
    let sql = format!(
        "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM (
             SELECT (jsonb_populate_record(NULL::{table}, to_jsonb(one) || jsonb_build_object({changes}))).*
             FROM (SELECT * FROM {table} WHERE {one} LIMIT 1) one,
                  (SELECT n, gen_random_uuid() AS id FROM generate_series($1::bigint, $2::bigint) n) ids) copies"
    );
    let insert = client.prepare(&sql).await?;
    for from in (1..=many).step_by(usize::try_from(BATCH)?) {
        let made = client.execute(&insert, &[&from, &many.min(from + BATCH - 1)]).await;
        if made.map_err(|e| format!("{table}: {}", supervisor::with_causes(&e)))? == 0 {
            return Err(format!("there is no row of {table} to copy").into());
        }
    }
    Ok(())
}

/// A browser that has signed in, as far as pages without scripts go.
struct Browser {
    client: reqwest::Client,
    at: String,
    cookie: String,
}

impl Browser {
    async fn sign_in(household: &Household) -> Result<Self, Failed> {
        let link = household.butlerd(&["login-link"])?;
        let url = link["url"].as_str().ok_or_else(|| format!("no link: {link}"))?;
        let (at, _) = url.split_once("/login/").ok_or_else(|| format!("no link: {url}"))?;
        let client = base::http_client("http://127.0.0.1").redirect(reqwest::redirect::Policy::none()).build()?;
        let answer = client.post(url).send().await?;
        let cookie = answer.headers().get("set-cookie").and_then(|c| c.to_str().ok()).unwrap_or_default();
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        if cookie.is_empty() {
            return Err(format!("the link signed nobody in: {}", answer.status()).into());
        }
        Ok(Self { at: at.to_owned(), cookie, client })
    }

    async fn get(&self, path: &str) -> Result<reqwest::Response, Failed> {
        let answer = self.client.get(format!("{}{path}", self.at)).header("cookie", &self.cookie).send().await?;
        match answer.status().as_u16() {
            200 => Ok(answer),
            status => Err(format!("{path}: {status}: {}", answer.text().await?).into()),
        }
    }

    /// The path of the n-th page of a list, or of its last one, and which that is.
    async fn page_of(&self, list: &str, n: usize) -> Result<(String, usize), Failed> {
        let mut at = list.to_owned();
        for page in 1..n {
            let html = self.get(&at).await?.text().await?;
            match links(&html).find(|to| to.starts_with(&format!("{list}?")) && to.contains("before=")) {
                Some(next) => at = next,
                None => return Ok((at, page)),
            }
        }
        Ok((at, n))
    }

    /// Where the first link of a page leads that begins so.
    async fn first_link(&self, page: &str, prefix: &str) -> Result<String, Failed> {
        let html = self.get(page).await?.text().await?;
        let found = links(&html).find(|to| to.starts_with(prefix) && to.len() > prefix.len() + 20);
        found.ok_or_else(|| format!("{page} links to no {prefix}").into())
    }
}

/// Where a page's links lead.
fn links(html: &str) -> impl Iterator<Item = String> {
    html.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default().replace("&amp;", "&"))
}

async fn first_bytes(browser: &Browser, what: &str, path: &str, times: usize) -> Result<(), Failed> {
    let mut waited = Vec::new();
    browser.get(path).await?.bytes().await?;
    for _ in 0..times {
        let begun = Instant::now();
        let answer = browser.get(path).await?;
        waited.push(begun.elapsed().as_secs_f64() * 1e3);
        answer.bytes().await?;
    }
    let verdict = Verdict::at_most(p95(&waited), FIRST_BYTE_MS, "ms, p95");
    table::note(&format!("{what:<32} p50 {:>7.1} ms  p95 {:>7.1} ms   {verdict}", median(&waited), p95(&waited)));
    Ok(())
}

/// Fifty pages that stay open while nothing happens.
async fn stay_open(plan: &Plan, daemon: &Daemon, browser: &Browser) -> Result<(), Failed> {
    let weight = || machine::status_kib(daemon.pid(), "VmRSS").map(|kib| kib as f64 / 1024.0);
    let settle = plan.settle.min(Duration::from_secs(30));
    tokio::time::sleep(settle).await;
    let (before, alone) = (weight()?, machine::cpu(daemon.pid()));
    tokio::time::sleep(settle).await;
    let alone = machine::cpu(daemon.pid()) - alone;
    let mut streams = Vec::new();
    for _ in 0..OPEN {
        streams.push(browser.get("/live/house").await?);
    }
    let begun = machine::cpu(daemon.pid());
    tokio::time::sleep(settle).await;
    let percent = 100.0 * (machine::cpu(daemon.pid()) - begun - alone).max(0.0) / settle.as_secs_f64();
    let more = weight()? - before;
    table::note(&format!(
        "{OPEN} open pages: {more:.1} MB more   {};  {percent:.2} % of a core when idle   {}",
        Verdict::at_most(more, OPEN_MB, "MB"),
        Verdict::at_most(percent, OPEN_CORE_PERCENT, "%")
    ));
    let ended = streams.iter_mut().map(|stream| async {
        let next = tokio::time::timeout(Duration::from_millis(5), async {
            while stream.chunk().await?.is_some() {}
            Ok::<_, reqwest::Error>(())
        });
        next.await.is_ok()
    });
    let ended = futures_util::future::join_all(ended).await.into_iter().filter(|ended| *ended).count();
    if ended > 0 { Err(format!("{ended} of {OPEN} streams had ended").into()) } else { Ok(()) }
}
