//! `just bench-route FILE`: how well a real model routes labelled messages, and what that costs.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::process::{Child, Command};

use crate::Failed;
use crate::household::Household;
use crate::routing_score::{Door, read, score, silence};

/// Keys with which the switchboard's model can be asked.
const KEYS: [&str; 2] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"];

/// Scores the messages of a file.
pub async fn run(args: &[String]) -> Result<(), Failed> {
    let file = args.iter().find(|arg| !arg.starts_with("--")).ok_or("name a file of labelled messages")?;
    let samples = read(&std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?)?;
    if !KEYS.iter().any(|key| std::env::var_os(key).is_some_and(|value| !value.is_empty())) {
        println!("Nothing was run: set {} so that the switchboard has a model to ask.", KEYS.join(" or "));
        return Ok(());
    }
    let household = Household::new(0)?;
    silence(&household.roster())?;
    let (mut daemon, door) = start(&household).await?;
    let outcomes = door.classify_all(&samples).await?;
    print!("{}", score(&samples, &outcomes));
    match door.cost().await? {
        Some(dollars) => println!("cost: {dollars} US dollars"),
        None => println!("cost: unknown"),
    }
    if let Some(pid) = daemon.id().and_then(|pid| i32::try_from(pid).ok()) {
        // SAFETY: a signal to a child of ours that was not waited for yet.
        unsafe { libc::kill(pid, libc::SIGTERM) };
    }
    daemon.wait().await?;
    Ok(())
}

/// The household's daemon, and the way to it once all butlers are up.
async fn start(household: &Household) -> Result<(Child, Door), Failed> {
    let log = std::fs::File::create(household.log())?;
    let mut child = Command::new(env!("CARGO_BIN_EXE_butlerd"))
        .args(["serve", "--ports", "auto", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(household.data())
        .arg("--roster")
        .arg(household.roster())
        // The other butlers shall have no model.
        .env_remove("OPENAI_API_KEY")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .kill_on_drop(true)
        .spawn()?;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(120) {
        let text = std::fs::read_to_string(household.data().join("run/daemon.json")).unwrap_or_default();
        let info: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(admin) = info["admin"].as_str() {
            let token = std::fs::read_to_string(household.data().join("run/operator.token"))?.trim().to_owned();
            return Ok((
                child,
                Door { http: base::http_client("http://127.0.0.1").build()?, admin: admin.to_owned(), token },
            ));
        }
        if let Some(status) = child.try_wait()? {
            let log = std::fs::read_to_string(household.log())?;
            return Err(format!("the daemon ended with {status}: {log}").into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("the daemon is not ready after two minutes".into())
}
