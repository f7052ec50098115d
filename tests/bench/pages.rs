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
/// Of a page with all that it loads, as a browser gets it that has been nowhere yet.
const FIRST_LOAD_KB: f64 = 120.0;
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

/// Between two looks of an open page at what nobody tells of (`LOOK` in src/dashboard/live.rs).
const LOOK: Duration = Duration::from_secs(30);

/// Places that need no row of their own, and what each shows of the rows that were filled in, where it shows any.
const PLACES: [(&str, &str); 25] = [
    ("/", QUESTION),
    ("/sessions", QUESTION),
    ("/approvals", ""),
    ("/inbox", MESSAGE),
    ("/conversations", ANSWER),
    ("/conversations?q=number", ANSWER),
    ("/schedules", ""),
    ("/memory?butler=general", ""),
    ("/costs", ""),
    ("/council", ""),
    ("/journal/general", ""),
    ("/projects", ""),
    ("/people", ""),
    ("/deliveries", ANSWER),
    ("/connectors", ""),
    ("/rules", ""),
    ("/notes", ""),
    ("/settings", ""),
    // Its first page has the calls that the pages above were made of.
    ("/audit", ""),
    ("/audit?tool=state_get", CALL),
    ("/undo", ""),
    ("/butlers/general", QUESTION),
    ("/butlers/general/tools/state_get", "state_get"),
    ("/secrets", ""),
    ("/find?q=number", ""),
];

/// Lists that go on page by page, and the same of them.
const LISTS: [(&str, &str); 5] = [
    ("/sessions", QUESTION),
    ("/inbox", MESSAGE),
    // Far back in the log no conversation ends: each goes on until now.
    ("/conversations", ""),
    ("/deliveries", ANSWER),
    ("/audit", CALL),
];

const QUESTION: &str = "Question number ";
const MESSAGE: &str = "This is message number ";
const ANSWER: &str = "This is answer number ";
const CALL: &str = "<code>state_get</code>";

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
    let words = words_of_a_memory(&client).await?;
    table::note(&format!("years of rows were written in {:.0} s", begun.elapsed().as_secs_f64()));
    // The caches and plans of the start would be those of an empty household.
    drop(client);
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
    let mut looks =
        Looks { browser: &browser, times: if plan.is_quick() { 20 } else { 100 }, largest: Default::default() };
    for (place, shows) in PLACES {
        looks.first_bytes(place, place, shows).await?;
    }
    let fact = format!("/memory/{MODEL}/fact/");
    let search = format!("/memory?butler={MODEL}&q={}", words.replace(' ', "+"));
    looks.first_bytes("/memory, a search", &search, &fact).await?;
    for (list, shows) in LISTS {
        let (far, page) = browser.page_of(list, FAR).await?;
        looks.first_bytes(&format!("{list}, page {page}"), &far, shows).await?;
    }
    let session = browser.link("/sessions", QUESTION).await?;
    let id = session.rsplit('/').next().unwrap_or_default();
    for (what, path, shows) in [
        ("a session", session.clone(), QUESTION),
        ("what a session was told", format!("/memory/told/{id}"), ""),
        ("a trace", format!("/trace/{id}"), QUESTION),
        ("a message", browser.link("/inbox", MESSAGE).await?, MESSAGE),
        ("a delivery", browser.link("/deliveries", ANSWER).await?, ANSWER),
        ("a conversation", browser.leads("/conversations", "/conversations/").await?, ""),
        ("a memory", browser.leads(&search, &fact).await?, ""),
        ("a schedule", browser.leads("/schedules", "/schedules/").await?, ""),
    ] {
        looks.first_bytes(what, &path, shows).await?;
    }
    looks.told();
    drop(browser);
    daemon.stop().await?;
    let daemon = Daemon::start(&household, &settings).await?;
    stay_open(plan, &daemon, &Browser::sign_in(&household).await?).await?;
    daemon.stop().await?;
    model.shutdown().await;
    Ok(())
}

/// What the process weighs with the pages and without them, in turns, nobody looking. The API is there in both.
async fn nobody_looks(plan: &Plan) -> Result<(), Failed> {
    let household = Household::new(0)?;
    Daemon::start(&household, &[]).await?.stop().await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds.min(3) {
        for (settings, weights) in [(vec![], &mut with), (vec![WITHOUT_PAGES.to_owned()], &mut without)] {
            let daemon = Daemon::start(&household, &settings).await?;
            tokio::time::sleep(plan.settle.min(Duration::from_secs(10))).await;
            weights.push(machine::status_kib(daemon.pid(), "RssAnon")? as f64 / 1024.0);
            daemon.stop().await?;
        }
    }
    let told = |weights: &[f64]| {
        let (low, high) = weights.iter().fold((f64::MAX, f64::MIN), |(low, high), w| (low.min(*w), high.max(*w)));
        format!("{:.2} MB ({low:.2} to {high:.2})", median(weights))
    };
    let verdict = Verdict::at_most("pages.at_rest", median(&with) - median(&without), AT_REST_MB, "MB more");
    table::note(&format!(
        "at rest, nobody looking, of its own memory: {}; without pages {}   {verdict}",
        told(&with),
        told(&without)
    ));
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
    // A million calls are sorted by their time; and what a crash takes of the fill would be filled in again.
    client.batch_execute("SET work_mem = '256MB'; SET synchronous_commit = off").await?;
    let (sessions, calls, messages) = (SESSIONS / scale, CALLS / scale, MESSAGES / scale);
    let at = "now() - n * interval '1 hour'";
    let changes = format!(
        "'id', ids.id, 'request_id', gen_random_uuid(), 'trace_id', md5(n::text), 'route_id', NULL, 'remember', 'stored',
         'prompt', '{QUESTION}' || n, 'queued_at', {at}, 'started_at', {at}, 'completed_at', {at} + interval '3 s'"
    );
    copies(client, "general.sessions", "completed_at IS NOT NULL", sessions, &changes).await?;
    let begun = Instant::now();
    let sql = format!(
        "INSERT INTO general.session_events
         SELECT made.* FROM general.session_events e, general.sessions s,
             jsonb_populate_record(NULL::general.session_events, to_jsonb(e) || jsonb_build_object('session_id', s.id)) made
         WHERE s.prompt LIKE 'Question%';
         INSERT INTO general.tool_calls (session_id, request_id, caller, tool, arguments, outcome, effect, called_at, duration_us)
         SELECT s.id, s.request_id, 'session ' || s.id, 'state_get', '{{\"key\": \"a\"}}', 'ok', 'none',
                s.queued_at + n * interval '10 ms', 900
         FROM general.sessions s, generate_series(1, {calls} / {sessions}) n
         WHERE s.prompt LIKE 'Question%' ORDER BY s.queued_at, n"
    );
    client.batch_execute(&sql).await?;
    wrote("general.session_events, general.tool_calls", begun);
    let at = "now() - n * interval '5 minutes'";
    let changes = format!(
        "'request_id', ids.id, 'seq', -n, 'dedupe_key', ids.id, 'dedupe_by', 'event', 'external_event_id', ids.id,
         'lane', 'bench ' || n % 1000, 'thread', 'bench ' || n % 1000, 'body', '{MESSAGE}' || n,
         'observed_at', {at}, 'received_at', {at}, 'settled_at', {at}"
    );
    copies(client, "switchboard.message_inbox", "state = 'done'", messages, &changes).await?;
    let changes = format!(
        "'id', ids.id, 'seq', -n, 'request_id', gen_random_uuid(), 'idempotency_key', ids.id, 'reply_seq', NULL,
         'message', '{ANSWER}' || n, 'created_at', {at}, 'settled_at', {at},
         'lane', 'bench ' || n % 1000, 'conversation', 'bench ' || n % 1000, 'thread', 'bench ' || n % 1000"
    );
    copies(client, "shared.outbox", "state = 'sent'", messages / 2, &changes).await?;
    let begun = Instant::now();
    memory::fill_facts(client, MEMORIES / usize::try_from(scale)?).await?;
    wrote("general.memory_facts", begun);
    let begun = Instant::now();
    client.batch_execute("ANALYZE").await?;
    client.batch_execute("SELECT shared.conversation_order()").await?;
    client.batch_execute("ANALYZE shared.conversation, shared.conversation_readers").await?;
    // What years of autovacuum have done: else the audit's index has summed up nothing of these rows yet.
    client.batch_execute("VACUUM (ANALYZE) general.tool_calls").await?;
    wrote("the order of the log, and statistics", begun);
    Ok(())
}

fn wrote(what: &str, begun: Instant) {
    table::note(&format!("written in {:>5.1} s: {what}", begun.elapsed().as_secs_f64()));
}

/// What to search for: words that stand in one memory side by side, each as usual as it is.
async fn words_of_a_memory(client: &Client) -> Result<String, Failed> {
    let sql = "SELECT split_part(content, ' ', 1) || ' ' || split_part(content, ' ', 2) FROM general.memory_facts
        WHERE kind = 'many' ORDER BY content LIMIT 1";
    Ok(client.query_one(sql, &[]).await?.get(0))
}

/// Puts rows into a table, each as `one` of it is, with other values for these columns. A row is made by a function in FROM:
/// `(function(..)).*` would call it once for each of the thirty columns.
async fn copies(client: &Client, table: &str, one: &str, many: i64, changes: &str) -> Result<(), Failed> {
    const BATCH: i64 = 5000;
    let begun = Instant::now();
    let columns = "SELECT string_agg(attname, ', '), string_agg('made.' || attname, ', ') FROM pg_attribute
        WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''";
    let row = client.query_one(columns, &[&table]).await?;
    let (columns, made): (String, String) = (row.get(0), row.get(1));
    let sql = format!(
        "INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {made}
         FROM (SELECT to_jsonb(kept) AS it FROM {table} kept WHERE {one} LIMIT 1) one,
              (SELECT n, gen_random_uuid() AS id FROM generate_series($1::bigint, $2::bigint) n) ids,
              jsonb_populate_record(NULL::{table}, one.it || jsonb_build_object({changes})) made"
    );
    let insert = client.prepare(&sql).await?;
    for from in (1..=many).step_by(usize::try_from(BATCH)?) {
        let made = client.execute(&insert, &[&from, &many.min(from + BATCH - 1)]).await;
        if made.map_err(|e| format!("{table}: {}", supervisor::with_causes(&e)))? == 0 {
            return Err(format!("there is no row of {table} to copy").into());
        }
    }
    wrote(table, begun);
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

    /// The path of the n-th page of a list, or of its last one, and which that is. A list of one page is none to measure.
    async fn page_of(&self, list: &str, n: usize) -> Result<(String, usize), Failed> {
        let mut at = list.to_owned();
        for page in 1..n {
            let html = self.get(&at).await?.text().await?;
            match links(&html).find(|to| to.starts_with(&format!("{list}?")) && to.contains("before=")) {
                Some(next) => at = next,
                None if page == 1 => return Err(format!("{list} has no second page").into()),
                None => return Ok((at, page)),
            }
        }
        Ok((at, n))
    }

    /// Where the first link of a page leads whose text begins so.
    async fn link(&self, page: &str, text: &str) -> Result<String, Failed> {
        let html = self.get(page).await?.text().await?;
        let before = html.split(&format!("\">{text}")).next().filter(|before| before.len() < html.len());
        let found = before.and_then(|before| links(before).last());
        found.ok_or_else(|| format!("{page} has no link {text:?}").into())
    }

    /// Where the first link of a page leads that goes to such a place.
    async fn leads(&self, page: &str, to: &str) -> Result<String, Failed> {
        let html = self.get(page).await?.text().await?;
        let found = links(&html).find(|link| link.len() > to.len() && link.starts_with(to));
        found.ok_or_else(|| format!("{page} has no link to {to}…").into())
    }

    /// The bytes that come of something, for a browser that takes them packed.
    async fn weight(&self, path: &str) -> Result<usize, Failed> {
        let asked = self.client.get(format!("{}{path}", self.at)).header("cookie", &self.cookie);
        let answer = asked.header("accept-encoding", "gzip").send().await?.error_for_status()?;
        Ok(answer.bytes().await?.len())
    }

    /// Opens the home page and its stream, which begins where the page was made.
    async fn open(&self) -> Result<reqwest::Response, Failed> {
        let html = self.get("/").await?.text().await?;
        let stream = html.split("data-live=\"").nth(1).and_then(|rest| rest.split('"').next());
        self.get(stream.filter(|at| at.contains("since=")).ok_or("the home page has no stream")?).await
    }
}

/// Where a page's links lead.
fn links(html: &str) -> impl Iterator<Item = String> {
    html.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default().replace("&amp;", "&"))
}

/// Looks at pages, each so many times.
struct Looks<'a> {
    browser: &'a Browser,
    times: usize,
    /// The page that weighs most with all that it loads, and how many bytes that are.
    largest: (String, usize),
}

impl Looks<'_> {
    /// How long it takes until a page begins to come, which must show something.
    async fn first_bytes(&mut self, what: &str, path: &str, shows: &str) -> Result<(), Failed> {
        let Self { browser, times, .. } = *self;
        let mut waited = Vec::new();
        let html = browser.get(path).await?.text().await?;
        if !html.contains(shows) || !html.contains("<main") {
            return Err(format!("{path} does not show {shows:?} in a page").into());
        }
        for _ in 0..times {
            let begun = Instant::now();
            let answer = browser.get(path).await?;
            waited.push(begun.elapsed().as_secs_f64() * 1e3);
            answer.bytes().await?;
        }
        let mut weight = browser.weight(path).await?;
        let loads = ["href=\"", "src=\""].into_iter().flat_map(|name| html.split(name).skip(1));
        for asset in loads.filter_map(|rest| rest.split('"').next()).filter(|to| to.starts_with("/assets/")) {
            weight += browser.weight(asset).await?;
        }
        if weight > self.largest.1 {
            self.largest = (what.to_owned(), weight);
        }
        let (p50, p95) = (median(&waited), p95(&waited));
        let verdict = Verdict::at_most(&format!("pages.{}", what.replace(' ', "_")), p95, FIRST_BYTE_MS, "ms, p95");
        table::note(&format!("{what:<34} p50 {p50:>7.1} ms  p95 {p95:>7.1} ms   {verdict}"));
        Ok(())
    }

    fn told(&self) {
        let kb = self.largest.1 as f64 / 1024.0;
        let verdict = Verdict::at_most("pages.first_load", kb, FIRST_LOAD_KB, "KB");
        table::note(&format!(
            "the largest first load, with all that a page loads: {kb:.1} KB ({})   {verdict}",
            self.largest.0
        ));
    }
}

/// Fifty pages that stay open while nothing happens: each asks for itself again whenever its stream says so, and at every
/// [`LOOK`] it does.
async fn stay_open(plan: &Plan, daemon: &Daemon, browser: &Browser) -> Result<(), Failed> {
    let weight = || machine::status_kib(daemon.pid(), "VmRSS").map(|kib| kib as f64 / 1024.0);
    let looks = if plan.is_quick() { 1 } else { 2 };
    let period = LOOK * looks + Duration::from_secs(5);
    browser.get("/").await?.bytes().await?;
    tokio::time::sleep(plan.settle.min(Duration::from_secs(30))).await;
    let (before, alone) = (weight()?, machine::cpu(daemon.pid()));
    tokio::time::sleep(period).await;
    let alone = machine::cpu(daemon.pid()) - alone;
    let mut streams = Vec::new();
    for _ in 0..OPEN {
        streams.push(browser.open().await?);
    }
    let begun = machine::cpu(daemon.pid());
    let until = tokio::time::Instant::now() + period;
    let watched = streams.into_iter().map(|stream| watch(browser, stream, until));
    let mut asked = Vec::new();
    for pages in futures_util::future::join_all(watched).await {
        asked.push(pages?);
    }
    if asked.iter().any(|pages| *pages < looks) {
        return Err(format!("an open page did not ask for itself at each look: {asked:?}").into());
    }
    let percent = 100.0 * (machine::cpu(daemon.pid()) - begun - alone).max(0.0) / period.as_secs_f64();
    let (more, asked) = (weight()? - before, asked.iter().sum::<u32>());
    table::note(&format!(
        "{OPEN} open pages: {more:.1} MB more   {};  {percent:.2} % of a core when idle, for {asked} pages in {} s   {}",
        Verdict::at_most("pages.open", more, OPEN_MB, "MB"),
        period.as_secs(),
        Verdict::at_most("pages.open_core", percent, OPEN_CORE_PERCENT, "%")
    ));
    Ok(())
}

/// What a page does that stays open. Returns how often it asked for itself.
async fn watch(browser: &Browser, mut stream: reqwest::Response, until: tokio::time::Instant) -> Result<u32, Failed> {
    let (mut asked, mut heard) = (0, String::new());
    while let Ok(more) = tokio::time::timeout_at(until, stream.chunk()).await {
        heard.push_str(&String::from_utf8_lossy(&more?.ok_or("the stream of an open page has ended")?));
        while let Some((event, rest)) = heard.split_once("\n\n") {
            let changed = event.lines().any(|line| line == "event: changed");
            heard = rest.to_owned();
            if changed {
                browser.get("/").await?.bytes().await?;
                asked += 1;
            }
        }
    }
    Ok(asked)
}
