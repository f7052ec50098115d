//! What is printed.

use std::fmt;
use std::time::Duration;

use crate::figures;
use crate::project::Times;

/// The median; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// The lowest and the highest; zeros of nothing.
pub fn spread(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().reduce(f64::min).unwrap_or(0.0);
    (low, values.iter().copied().reduce(f64::max).unwrap_or(0.0))
}

/// What 19 of 20 stay below; 0 of nothing.
pub fn p95(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() * 19).div_ceil(20).saturating_sub(1)).copied().unwrap_or(0.0)
}

/// A target and whether it was met.
pub struct Verdict {
    met: bool,
    target: String,
}

impl Verdict {
    /// Of the figure of this name, which is kept.
    pub fn at_most(name: &str, value: f64, most: f64, unit: &str) -> Self {
        Self::of(name, value, (format!("at most {most}"), value <= most), unit)
    }
    /// As above.
    pub fn at_least(name: &str, value: f64, least: f64, unit: &str) -> Self {
        Self::of(name, value, (format!("at least {least}"), value >= least), unit)
    }
    fn of(name: &str, value: f64, (target, met): (String, bool), unit: &str) -> Self {
        figures::keep(name, value, unit, Some((target.clone(), met)));
        Self { met, target: format!("{target} {unit}") }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", if self.met { "ok" } else { "MISSED" }, self.target)
    }
}

pub fn note(text: &str) {
    println!("  {text}");
}

pub fn boot_head() {
    println!("\nBoot to ready on a migrated database, and the household at rest");
}

pub fn thousand_head() {
    println!("\nA thousand butlers on a migrated database");
}

pub fn boot(butlers: usize, (wall, (low, high)): (f64, (f64, f64)), cpu: f64, postgres: f64, verdict: Verdict) {
    println!(
        "  {butlers:>3} butlers: {wall:.3} s wall ({low:.3} to {high:.3}), {cpu:.3} s CPU of the daemon; PostgreSQL's own start apart: \
         {postgres:.3} s   {verdict}"
    );
}

/// Resident, own and the database server's memory are MB.
pub fn idle(
    butlers: usize,
    after: Duration,
    (rss, rest): (f64, Verdict),
    (own, of_its_own): (f64, Option<Verdict>),
    server: f64,
    (connections, few): (i64, Verdict),
) {
    let of_its_own = of_its_own.map(|v| format!("   {v}")).unwrap_or_default();
    println!("  {butlers:>3} butlers, {} s after: {rss:.1} MB resident   {rest}", after.as_secs());
    println!("  {butlers:>3} butlers, {} s after: {own:.1} MB of its own{of_its_own}", after.as_secs());
    println!(
        "  {butlers:>3} butlers, {} s after: {server:.1} MB of its database server's, shared pages once",
        after.as_secs()
    );
    println!("  {butlers:>3} butlers, {} s after: {connections} database connections   {few}", after.as_secs());
}

/// A line of the table of calls.
pub struct Calls<'a> {
    pub tool: &'a str,
    pub connections: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub per_second: f64,
    pub daemon_us: f64,
    pub server_us: f64,
    /// Of the floors in the same rounds, and the SDK's p99 in milliseconds.
    pub hyper: f64,
    pub sdk: f64,
    pub sdk_p99_ms: f64,
    pub sql: f64,
    pub together: f64,
    pub ratio: f64,
    /// The lowest and the highest round's.
    pub ratios: (f64, f64),
    pub verdicts: Vec<Verdict>,
}

pub fn calls_head() {
    println!("\ntools/call with a session's token, audit and tenant on, beside the floors of the same run");
    println!(
        "  floor h: bare hyper; a: bare SDK server, no-op tool; b: bare pooled SELECT, or committed upsert of two rows (calls/s)"
    );
    println!(
        "  {:<18} {:>5} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10} {:>9} {:>9} {:>9} {:>12} {:>6}",
        "tool",
        "conns",
        "p50 ms",
        "p99 ms",
        "a's p99",
        "calls/s",
        "daemon µs",
        "server µs",
        "h",
        "a",
        "b",
        "1/(1/a+1/b)",
        "ratio"
    );
}

pub fn calls(c: &Calls<'_>) {
    let verdicts: Vec<String> = c.verdicts.iter().map(|v| format!("   {v}")).collect();
    println!(
        "  {:<18} {:>5} {:>9.3} {:>9.3} {:>9.3} {:>9.0} {:>10.1} {:>10.1} {:>9.0} {:>9.0} {:>9.0} {:>12.0} {:>5.0}% ({:.0} to {:.0}){}",
        c.tool,
        c.connections,
        c.p50_ms,
        c.p99_ms,
        c.sdk_p99_ms,
        c.per_second,
        c.daemon_us,
        c.server_us,
        c.hyper,
        c.sdk,
        c.sql,
        c.together,
        c.ratio * 100.0,
        c.ratios.0 * 100.0,
        c.ratios.1 * 100.0,
        verdicts.concat()
    );
}

pub fn accepts_head() {
    println!("\nPOST /api/ingest, each message committed before its answer, beside a bare committed INSERT of its row");
    println!("  {:>5} {:>9} {:>9} {:>10} {:>10} {:>6}", "conns", "p50 ms", "p99 ms", "accepts/s", "INSERTs/s", "ratio");
}

pub fn accepts(conns: usize, p50: f64, p99: f64, per_second: f64, floor: f64, ratio: f64, verdict: Option<Verdict>) {
    let verdict = verdict.map(|v| format!("   {v}")).unwrap_or_default();
    let ratio = ratio * 100.0;
    println!("  {conns:>5} {p50:>9.3} {p99:>9.3} {per_second:>10.0} {floor:>10.0} {ratio:>5.0}%{verdict}");
}

pub fn claimed(messages: usize, from_answer: f64, from_request: f64, verdict: Verdict) {
    println!(
        "  claimed by a worker, p50 of {messages}: {from_answer:.2} ms after the answer was here, {from_request:.2} ms \
         after the message was sent   {verdict}"
    );
}

pub fn trigger(times: usize, first_request: f64, model: f64, end: f64, verdict: Verdict) {
    println!("\nTrigger of a native session, p50 of {times}");
    println!("  to the child's first MCP request: {first_request:.1} ms   {verdict}");
    println!(
        "  to its first request to the model (after its MCP handshake): {model:.1} ms; to the closed row: {end:.1} ms"
    );
}

pub fn strangers(times: usize, calls: usize, owner: f64, stranger: f64, verdict: Verdict) {
    println!("\nA session of {calls} calls, from its trigger to its closed row, p50 of {times}");
    println!("  the owner's: {owner:.1} ms; a stranger's: {stranger:.1} ms   {verdict}");
}

pub fn drain(messages: usize, floor: f64, drained: f64, verdict: Verdict) {
    println!("\n{messages} waiting messages of two sessions each, whose model answers at once");
    println!("  children alone: {floor:.1} messages/s; drained: {drained:.1} messages/s   {verdict}");
}

pub fn alone(times: usize, message: f64, pair: f64, verdict: Verdict) {
    println!(
        "  one alone, p50 of {times}: {message:.1} ms from its sending to its end; its two children alone {pair:.1} ms   {verdict}"
    );
}

pub fn channels_head(messages: usize) {
    println!(
        "\nTelegram: messages of the owner's answered by a child of the native agent, {messages} one after the other"
    );
    println!("  beside a bare bot on the same stand-in, from its poll's return to its reaction or its echo, in ms");
    println!("  {:<39} {:>8} {:>8}   {:<8} {:>8} {:>8} {:>7}", "", "p50", "p95", "bare bot", "p50", "p95", "ratio");
}

pub fn channels(what: &str, ours: &[f64], bare: (&str, &[f64]), verdict: Option<Verdict>) {
    let (p50, floor) = (median(ours), median(bare.1));
    let verdict = verdict.map(|v| format!("   {v}")).unwrap_or_default();
    println!(
        "  {what:<39} {p50:>8.2} {:>8.2}   {:<8} {floor:>8.2} {:>8.2} {:>6.1}x{verdict}",
        p95(ours),
        bare.0,
        p95(bare.1),
        p50 / floor
    );
}

pub fn project_head(prompts: usize, memories: usize) {
    println!(
        "\nProject memory: processes from their start to their end, {prompts} of each in turns, {memories} memories"
    );
    println!("  {:<28} {:>8} {:>8} {:>11} {:>8}", "", "p50 ms", "p95 ms", "p50/echo", "p50/true");
}

pub fn project(what: &str, ours: &[f64], floor: &Times, verdict: Option<Verdict>) {
    let p50 = median(ours);
    let verdict = verdict.map(|v| format!("   {v}")).unwrap_or_default();
    println!(
        "  {what:<28} {p50:>8.2} {:>8.2} {:>10.1}x {:>7.1}x{verdict}",
        p95(ours),
        p50 / median(&floor.echo),
        p50 / median(&floor.nothing)
    );
}

pub fn journal_head(times: usize, messages: i64) {
    println!("\nJournal: the start of a session, {messages} messages in the log, {times} of each in turns");
    println!("  {:<32} {:>8} {:>8} {:>12}", "", "p50 ms", "p95 ms", "p50/floor");
}

pub fn journal(what: &str, ours: &[f64], floor: f64, verdict: Option<Verdict>) {
    let p50 = median(ours);
    let verdict = verdict.map(|v| format!("   {v}")).unwrap_or_default();
    println!("  {what:<32} {p50:>8.2} {:>8.2} {:>11.1}x{verdict}", p95(ours), p50 / floor);
}

pub fn calendar_head(events: usize, calendars: usize) {
    println!("\nCalendar: a year of {events} events in {calendars} calendars of a CalDAV server in memory");
    println!("  {:<32} {:>8} {:>8}", "", "p50 ms", "p95 ms");
}

pub fn calendar(what: &str, ours: &[f64], verdict: Option<Verdict>) {
    let verdict = verdict.map(|v| format!("   {v}")).unwrap_or_default();
    println!("  {what:<32} {:>8.2} {:>8.2}{verdict}", median(ours), p95(ours));
}

pub fn overhead_head() {
    println!("\nbutlerd's own share of a session, p50: the child tells when it began and when it gave its final event");
}

pub fn overhead(at_once: usize, times: usize, begin: (f64, Verdict), settle: (f64, Verdict)) {
    println!(
        "  {at_once} at once, {times} sessions: trigger to the child's first instruction {:.1} ms   {}",
        begin.0, begin.1
    );
    println!("  {at_once} at once, {times} sessions: final event to the settled row {:.1} ms   {}", settle.0, settle.1);
}

pub fn gateway_head(times: usize) {
    println!("\nThe gateway: first byte of a streamed answer, p50 of {times}, direct and through it in turns");
}

pub fn gateway(kib: usize, direct: f64, through: f64) {
    let added = through - direct;
    println!(
        "  request of {kib:>4} KiB: direct {direct:.2} ms, through {through:.2} ms, added {added:.2} ms, {:.2} times   {}",
        through / direct,
        Verdict::at_most(&format!("gateway.{kib}_kib"), added, 2.0, "ms added")
    );
}
