//! What the owner waits for on Telegram: messages one after the other, each answered by a real child, seen from outside
//! at a stand-in of the Bot API and in the database. Beside it, in turns, a bare bot that only echoes.
//!
//! Both begin when the answer to a poll that has the message is written. The household's message is accepted when its
//! row can be seen: the row's own `received_at` is taken before the row is written. A trigger tells the bench of the
//! row by a notification, which the server gives away after the commit, so its way is counted as well. A session's end
//! is the `completed_at` of its row, which is taken before that row is closed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use testkit::model::{Script, ScriptedModel};
use tokio_postgres::{AsyncMessage, Client};

use crate::bot_api::{ADA, BotApi, Called};
use crate::daemon::Daemon;
use crate::household::{Household, MODEL};
use crate::part::Part;
use crate::table::{self, Verdict, median};
use crate::{Failed, Plan, boot};

/// From the poll's return to the message's row, p50.
const ACCEPTED_MS: f64 = 50.0;
/// From the poll's return to the reaction, p50.
const REACTION_MS: f64 = 300.0;
/// From the session's end to the answer, p50.
const ANSWER_MS: f64 = 20.0;
/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of each message, milliseconds.
#[derive(Default)]
struct Times {
    accepted: Vec<f64>,
    reaction: Vec<f64>,
    from_end: Vec<f64>,
    answer: Vec<f64>,
}

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    // A chat bears 60 messages a minute.
    let messages = if plan.is_quick() { 10 } else { 30 };
    let (api, bare) = (BotApi::start().await, BotApi::start().await);
    let script = json!({"conversations": [{"when": "(?s).*good morning", "steps": [{"say": "Good morning to you."}]}]});
    let model = ScriptedModel::start(Script::from_value(script)?).await?;
    let household = Household::with_telegram(&api)?;
    let settings =
        [format!("spawner.endpoints.anthropic={}", model.base_url()), format!("owner.identities.telegram={ADA}")];
    let daemon = Daemon::start(&household, &settings).await?;
    household.butlerd(&["rules", "add", "channel", "telegram", "route_to", MODEL])?;
    let rows = Rows::watch(&household).await?;
    let bot = Part::start("floor-echo", &[bare.url()], None)?;
    let (mut ours, mut floor) = (Times::default(), Times::default());
    // The first one reads the programs into memory.
    for round in 0..=messages {
        let (mut first, mut first_bare) = (Times::default(), Times::default());
        let (times, bare_times) = if round > 0 { (&mut ours, &mut floor) } else { (&mut first, &mut first_bare) };
        household_once(&api, &rows, times).await?;
        bare_once(&bare, bare_times).await?;
    }
    table::channels_head(messages);
    let at_most = |name: &str, times: &[f64], most| Some(Verdict::at_most(name, median(times), most, "ms, p50"));
    let (reacts, says) = (("reaction", &floor.reaction[..]), ("echo", &floor.answer[..]));
    table::channels(
        "poll's return to the committed row",
        &ours.accepted,
        reacts,
        at_most("telegram.accepted", &ours.accepted, ACCEPTED_MS),
    );
    table::channels(
        "poll's return to the reaction",
        &ours.reaction,
        reacts,
        at_most("telegram.reaction", &ours.reaction, REACTION_MS),
    );
    table::channels(
        "session's end to the answer",
        &ours.from_end,
        says,
        at_most("telegram.answer", &ours.from_end, ANSWER_MS),
    );
    table::channels("poll's return to the answer, in all", &ours.answer, says, None);
    bot.finish().await?;
    daemon.stop().await?;
    model.shutdown().await;
    Ok(())
}

/// One message to the household, up to its end.
async fn household_once(api: &BotApi, rows: &Rows, times: &mut Times) -> Result<(), Failed> {
    let said = api.calls("sendMessage").len();
    let message = api.writes(ADA, "good morning");
    let answer = within("the household does not answer", || api.calls("sendMessage").get(said).cloned()).await?;
    let over = || (api.reactions(message).last()? == "👍").then_some(());
    within("the household does not come to the message's end", over).await?;
    let polled = api.handed_out(message).ok_or("nobody polled")?;
    let event = format!("{ADA}:{message}");
    let accepted = within("the message has no row", || rows.accepted(&event)).await?;
    times.accepted.push(ms(polled, accepted)?);
    times.reaction.push(ms(polled, reaction(api, message)?.at)?);
    times.from_end.push(ms(rows.ended(&event).await?, answer.at)?);
    times.answer.push(ms(polled, answer.at)?);
    Ok(())
}

/// One message to the bare bot.
async fn bare_once(api: &BotApi, times: &mut Times) -> Result<(), Failed> {
    let said = api.calls("sendMessage").len();
    let message = api.writes(ADA, "good morning");
    let answer = within("the bare bot does not answer", || api.calls("sendMessage").get(said).cloned()).await?;
    let polled = api.handed_out(message).ok_or("nobody polled")?;
    times.reaction.push(ms(polled, reaction(api, message)?.at)?);
    times.answer.push(ms(polled, answer.at)?);
    Ok(())
}

/// The first one on a message.
fn reaction(api: &BotApi, message: i64) -> Result<Called, Failed> {
    let mut set = api.calls("setMessageReaction").into_iter();
    Ok(set.find(|call| call.arguments["message_id"] == message).ok_or("nobody reacted")?)
}

fn ms(from: SystemTime, to: SystemTime) -> Result<f64, Failed> {
    Ok(to.duration_since(from).map_err(|e| format!("what follows came {:?} before", e.duration()))?.as_secs_f64() * 1e3)
}

/// Waits for it. The moments that are measured are noted where they happen, not here.
async fn within<T>(else_why: &str, look: impl Fn() -> Option<T>) -> Result<T, Failed> {
    let wait = async {
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.map_err(|_| else_why.into())
}

/// The household's rows.
struct Rows {
    client: Client,
    accepted: Arc<Mutex<HashMap<String, SystemTime>>>,
}

const WATCH: &str = "CREATE FUNCTION public.bench_accepted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        PERFORM pg_catalog.pg_notify('bench_accepted', NEW.external_event_id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER bench_accepted AFTER INSERT ON switchboard.message_inbox FOR EACH ROW
    EXECUTE FUNCTION public.bench_accepted();
    LISTEN bench_accepted";

impl Rows {
    /// Has the server tell when a message's row is there.
    async fn watch(household: &Household) -> Result<Self, Failed> {
        let (client, mut connection) = boot::owner(household, "butlers")?.connect(tokio_postgres::NoTls).await?;
        let accepted: Arc<Mutex<HashMap<String, SystemTime>>> = Arc::default();
        let seen = accepted.clone();
        base::task::spawn(base::task::Kind::Job, "bench", async move {
            while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(told) = message {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.insert(told.payload().to_owned(), SystemTime::now());
                }
            }
        });
        client.batch_execute(WATCH).await?;
        Ok(Self { client, accepted })
    }

    /// When the row of this message was there.
    fn accepted(&self, event: &str) -> Option<SystemTime> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).get(event).copied()
    }

    /// When the one session that worked on this message was over.
    async fn ended(&self, event: &str) -> Result<SystemTime, Failed> {
        let sql = format!(
            "SELECT extract(epoch FROM s.completed_at)::float8 FROM {MODEL}.sessions s
             JOIN switchboard.message_inbox m USING (request_id) WHERE m.external_event_id = $1"
        );
        let at: f64 = self.client.query_one(&sql, &[&event]).await?.get(0);
        Ok(UNIX_EPOCH + Duration::from_secs_f64(at))
    }
}
