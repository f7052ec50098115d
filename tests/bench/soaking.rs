//! A thousand sessions of the child that misbehaves: `BENCH_ONLY=soak`.

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::household::{FAKE, Household};
use crate::soak::{SETTINGS, Seen, Target, soak};
use crate::table::{self, Verdict};
use crate::{Failed, Plan};

const AT_ONCE: usize = 8;

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let household = Household::with_fake()?;
    let program = household.fake_program();
    let mut settings = vec![format!("spawner.clis.claude={}", program.display())];
    settings.extend(SETTINGS.map(|(key, value)| format!("{key}={value}")));
    let daemon = Daemon::start(&household, &settings).await?;
    let pid = i32::try_from(daemon.pid())?;
    let url = format!("http://127.0.0.1:{}/mcp", daemon.ready.ports[FAKE]);
    let token = std::fs::read_to_string(household.data().join("run/operator.token"))?.trim().to_owned();
    // The library wants to know its TLS provider for plain HTTP as well; an error means that it does.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = base::http_client("http://127.0.0.1").build()?;
    let call = |tool: &'static str, arguments: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                          "params": {"name": tool, "arguments": arguments}});
        let request = client.post(&url).bearer_auth(&token).header("accept", "application/json, text/event-stream");
        let request = request.header("mcp-protocol-version", "2025-06-18").json(&body);
        async move {
            let answer = async { request.send().await?.json::<Value>().await }.await;
            match answer {
                Ok(body) => {
                    let text = body["result"]["content"][0]["text"].as_str();
                    text.and_then(|t| serde_json::from_str(t).ok()).unwrap_or(body)
                }
                Err(e) => json!({"no answer": e.to_string()}),
            }
        }
    };
    let target = Target { pid, program, work: household.data().join("work") };
    show(plan.soaked, &soak(target, plan.soaked, AT_ONCE, call).await);
    daemon.stop().await
}

fn show(sessions: usize, seen: &Seen) {
    let none = |name: &str, n: usize| Verdict::at_most(&format!("soak.{name}"), n as f64, 0.0, name);
    println!(
        "\nThe child that misbehaves, {} sessions, {AT_ONCE} at once, in {:.0} s",
        sessions,
        seen.took.as_secs_f64()
    );
    table::note(&format!(
        "sessions whose state or class is wrong: {}   {}",
        seen.wrong.len(),
        none("wrong", seen.wrong.len())
    ));
    table::note(&format!(
        "processes alive 5 s after their session: {}   {}",
        seen.left.len(),
        none("processes", seen.left.len())
    ));
    let samples = seen.samples;
    table::note(&format!(
        "zombies of the daemon whose session was over, in {samples} samples: {}   {}; orphans that init buried late: {}",
        seen.zombies.len(),
        none("zombies", seen.zombies.len()),
        seen.unburied_orphans.len()
    ));
    table::note(&format!("workspaces left: {}   {}", seen.workspaces, none("workspaces", seen.workspaces)));
    let [before, most, after] = seen.descriptors;
    let verdict = Verdict::at_most("soak.descriptors", after as f64, before as f64, "descriptors");
    table::note(&format!("descriptors of the daemon: {before} before, at most {most}, {after} after   {verdict}"));
    let [before, most, after] = seen.resident.map(|kib| kib as f64 / 1024.0);
    let verdict = Verdict::at_most("soak.resident", after, before * 1.1, "MB");
    table::note(&format!("resident memory: {before:.1} MB before, at most {most:.1}, {after:.1} after   {verdict}"));
    for line in seen.wrong.iter().chain(&seen.left).chain(&seen.zombies).take(20) {
        table::note(line);
    }
}
