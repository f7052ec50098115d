//! `kill -9` at every step from a question to its recording: one answer, nobody asked twice, each episode told once.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::council::{chairman, member, with_council};
use crate::support::graphiti::Graphiti;
use crate::support::tally::died;
use crate::support::{Household, eventually, http};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_step_there_is_one_answer_and_each_episode_is_told_once() {
    let points = [
        "council.asked",
        "council.step",
        "council.step:3",
        "council.step:5",
        "council.ended",
        "council.sending",
        "council.sending:3",
        "council.sent",
        "council.sent:2",
        "episode.claimed",
        "episode.tried",
        "episode.settled",
    ];
    for point in points {
        let Some(graphiti) = Graphiti::plain().await else { return };
        let (one, two) = (member("Rent.", "1. Response A").await, member("Buy.", "1. Response A").await);
        let own = chairman("Rent for now.", "?").await;
        let graph = format!("\n[modules.council.graphiti]\nurl = \"{}\"\n", graphiti.url);
        let household = with_council(&own, &[("one", "model-a", &one), ("two", "model-b", &two)], &graph);
        let mut daemon = Household::again(&household, "BUTLERD_CRASH_POINT", point).start().await;
        let body = json!({"text": "Rent or buy?", "butler": "council", "thread": "t", "id": "q-1"});
        let asked = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token()).json(&body);
        // The stream breaks off with the daemon.
        let _streaming = tokio::spawn(async move { asked.send().await?.text().await });
        died(&mut daemon, point).await;
        drop(daemon);
        let daemon = household.start().await;
        let db = household.role("council").await;
        db.batch_execute("SET butlerd.tenant = 'owner'").await.unwrap();
        eventually(&format!("{point}: the answer"), || async {
            let rows = db.query("SELECT answer FROM council_questions", &[]).await.map_err(|e| e.to_string())?;
            let answers: Vec<Option<String>> = rows.iter().map(|row| row.get(0)).collect();
            match answers.as_slice() {
                [Some(answer)] if answer == "Rent for now." => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        let again = http().post(format!("http://{}/api/chat", daemon.admin())).bearer_auth(daemon.token()).json(&body);
        let told = again.send().await.unwrap().text().await.unwrap();
        let replies = told.matches("\"event\":\"reply\"").count();
        assert_eq!(replies, 1, "{point}: {told}");
        let episodes = graphiti.has("llm_council", 4).await;
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for episode in &episodes {
            *times.entry(episode["source_description"].to_string()).or_default() += 1;
        }
        assert_eq!((episodes.len(), times.len()), (4, 4), "{point}: {times:?}");
        // What was said before the kill is not asked for again.
        let steps = db
            .query("SELECT stage, member, round, count(*) AS n FROM council_steps GROUP BY 1, 2, 3", &[])
            .await
            .unwrap();
        assert!(steps.iter().all(|row| row.get::<_, i64>("n") == 1), "{point}");
        eventually(&format!("{point}: nothing waits"), || async {
            let row = db.query_one("SELECT count(*) FROM council_episodes WHERE state <> 'sent'", &[]).await;
            match row.map_err(|e| e.to_string())?.get::<_, i64>(0) {
                0 => Ok(()),
                n => Err(n.to_string()),
            }
        })
        .await;
        assert_eq!(graphiti.episodes("llm_council").await.len(), 4, "{point}");
    }
}
