//! A month of the household by its own schedules, on a clock that goes from one due time to the next.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::model::ScriptedModel;
use tokio_postgres::Client;

use crate::support::{Daemon, Household, Receiver, SET_UP, eventually, model};

const BUTLERS: [&str; 7] = ["finance", "general", "health", "messenger", "relationship", "switchboard", "travel"];
const BEGINS: &str = "2027-03-01T00:00:00+01:00";
const ENDS: &str = "2027-04-01T00:00:00+02:00";

pub struct Month {
    household: Household,
    daemon: Daemon,
    client: Client,
    receiver: Receiver,
    pub model: ScriptedModel,
}

/// A part of a query for each butler.
pub fn of_each(part: &str) -> String {
    BUTLERS.map(|butler| part.replace("{b}", butler)).join(" UNION ALL ")
}

impl Month {
    /// The evening before.
    async fn begin() -> Self {
        Self::begin_with(|household| household).await
    }

    /// The evening before, in a household with these changes.
    pub async fn begin_with(change: impl FnOnce(Household) -> Household) -> Self {
        let nothing = |when: &str| json!({"when": when, "steps": [{"say": "Nothing to say."}]});
        let learned = json!({"when": "keep a household's memory", "steps": [{"say": "```json\n{}\n```"}]});
        // What is to be learned from holds those words too.
        let model = model(json!([
            learned,
            nothing("Run the eod-tomorrow-prep workflow"),
            nothing("Run the weekly workflow of the relationship-maintenance skill"),
            nothing("Run the weekly-health-summary workflow"),
            nothing("Run the monthly-spending-summary workflow"),
        ]))
        .await;
        let receiver = Receiver::start().await;
        let household = change(Household::moved(&model))
            .with_webhook(&receiver, "")
            .env("BUTLERD_OWNER__NOTICE_CHANNEL", "webhook")
            .env("BUTLERD_OWNER__IDENTITIES__WEBHOOK", "door");
        household.set_clock(SET_UP);
        let daemon = household.start().await;
        let client = household.owner().await;
        Self { household, daemon, client, receiver, model }
    }

    pub async fn tell(&self, butler: &str, tool: &str, arguments: Value) -> Value {
        self.daemon.mcp(butler).ok(tool, arguments).await
    }

    /// Moves the clock from one due time of what the roster declares to the next, up to that moment. What comes every
    /// five minutes runs at each stop, and tells what it passed over.
    pub async fn live(&self, until: &str) {
        let next = format!(
            "SELECT to_char(min(at) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') FROM ({}) n
             WHERE at <= $1::text::timestamptz",
            of_each(
                "SELECT next_run_at AS at FROM {b}.scheduled_tasks
                 WHERE enabled AND source = 'toml' AND name <> 'due-reminders'"
            )
        );
        loop {
            let at: Option<String> = self.client.query_one(&next, &[&until]).await.expect("the next time").get(0);
            self.stop_at(at.as_deref().unwrap_or(until)).await;
            if at.is_none() {
                break;
            }
        }
    }

    /// Lets everything that is due by then happen.
    async fn stop_at(&self, at: &str) {
        self.household.set_clock(at);
        let due = of_each(
            "SELECT DISTINCT '{b}' FROM {b}.scheduled_tasks WHERE enabled AND next_run_at <= $1::text::timestamptz",
        );
        let due = self.client.query(&due, &[&at]).await.expect("whose turn it is");
        join_all(due.iter().map(|row| self.tell(row.get(0), "tick", json!({})))).await;
        let open = format!(
            "SELECT string_agg(what, '; ') FROM ({} UNION ALL
                 SELECT 'letter ' || id FROM shared.outbox WHERE state IN ('pending', 'sending')) o",
            of_each(
                "SELECT '{b} run ' || id AS what FROM {b}.schedule_runs WHERE state IN ('due', 'running')
                 UNION ALL SELECT '{b} session ' || id FROM {b}.sessions WHERE state IN ('queued', 'running')
                 UNION ALL SELECT '{b} episode of ' || id FROM {b}.sessions WHERE remember = 'pending'"
            )
        );
        eventually(&format!("all is done at {at}"), || async {
            let open: Option<String> = self.client.query_one(&open, &[]).await.map_err(|e| e.to_string())?.get(0);
            open.map_or(Ok(()), Err)
        })
        .await;
    }

    /// For each schedule: how many of its times passed, how many runs there were, how many failed, and their sessions.
    pub async fn told(&self) -> BTreeMap<String, [i64; 4]> {
        let sql = of_each(
            "SELECT '{b}/' || t.name, coalesce(sum(r.times), 0)::bigint, count(*) FILTER (WHERE r.state = 'done'),
                    count(*) FILTER (WHERE r.state = 'failed'),
                    (SELECT count(*) FROM {b}.sessions s WHERE s.trigger_source = 'schedule:' || t.name)
             FROM {b}.scheduled_tasks t JOIN {b}.schedule_runs r ON r.task_id = t.id
             WHERE r.fire_at >= $1::text::timestamptz AND r.fire_at < $2::text::timestamptz GROUP BY t.name",
        );
        let rows = self.client.query(&sql, &[&BEGINS, &ENDS]).await.expect("what fired");
        rows.iter().map(|row| (row.get(0), [row.get(1), row.get(2), row.get(3), row.get(4)])).collect()
    }

    /// How many sessions there were.
    pub async fn sessions(&self) -> i64 {
        let sql = format!("SELECT count(*) FROM ({}) s", of_each("SELECT id FROM {b}.sessions"));
        self.client.query_one(&sql, &[]).await.expect("the sessions").get(0)
    }

    /// What all its sessions cost: how many, tokens in, tokens out, and the price.
    async fn cost(&self) -> (i64, i64, i64, String) {
        let sql = format!(
            "SELECT count(*), sum(i)::bigint, sum(o)::bigint, sum(usd)::text FROM ({}) s",
            of_each("SELECT input_tokens AS i, output_tokens AS o, cost_usd AS usd FROM {b}.sessions")
        );
        let row = self.client.query_one(&sql, &[]).await.expect("the cost");
        (row.get(0), row.get(1), row.get(2), row.get::<_, Option<String>>(3).unwrap_or_default())
    }

    /// What was sent: when by the owner's clock, by whom, what; and the same arrived, each once.
    async fn sent(&self) -> Vec<String> {
        let sql =
            "SELECT to_char(due_at AT TIME ZONE 'Europe/Berlin', 'DD HH24:MI ') || origin || ': ' || message, message
                   FROM shared.outbox WHERE kind <> 'notice' ORDER BY due_at, origin, seq";
        let rows = self.client.query(sql, &[]).await.expect("what was sent");
        let mut posted: Vec<String> = rows.iter().map(|row| row.get(1)).collect();
        let mut arrived: Vec<String> = self
            .receiver
            .hooks()
            .iter()
            .filter(|hook| hook.body["kind"] != "notice")
            .map(|hook| hook.message().to_owned())
            .collect();
        posted.sort();
        arrived.sort();
        assert_eq!(arrived, posted);
        rows.iter().map(|row| row.get(0)).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_month_says_nothing_and_asks_no_model_for_what_is_a_query() {
    let month = Month::begin().await;
    month.live(ENDS).await;
    assert_eq!(month.sent().await, Vec::<String>::new());
    let told = month.told().await;
    let all = told.iter().map(|(name, row)| format!("{name} {row:?}")).collect::<Vec<_>>().join("\n");
    // Its times, its runs, those that failed, and the sessions.
    for (name, row) in [
        ("finance/anomaly-triage", [31, 31, 0, 0]),
        ("finance/budget-thresholds", [31, 31, 0, 0]),
        ("finance/monthly-spending-summary", [1, 1, 0, 1]),
        ("finance/subscription-renewals", [31, 31, 0, 0]),
        ("finance/upcoming-bills", [31, 31, 0, 0]),
        ("general/eod-tomorrow-prep", [31, 31, 0, 0]),
        ("health/medication-supply", [31, 31, 0, 0]),
        // The hour that is left out on the 28th is one of its times.
        ("health/missed-doses", [371, 371, 0, 0]),
        ("health/weekly-health-summary", [4, 4, 0, 4]),
        ("relationship/relationship-maintenance", [5, 5, 0, 5]),
        ("relationship/upcoming-dates-check", [31, 31, 0, 0]),
        ("travel/trip-document-expiry", [31, 31, 0, 0]),
        ("travel/upcoming-travel-check", [31, 31, 0, 0]),
    ] {
        assert_eq!(told.get(name), Some(&row), "{name}\n{all}");
    }
    let often = told["relationship/due-reminders"];
    assert_eq!((often[0], often[2], often[3]), (31 * 288 - 12, 0, 0), "an hour of the 28th is left out\n{all}");
    for butler in BUTLERS {
        assert_eq!(told.get(&format!("{butler}/house-tidy")), Some(&[31, 31, 0, 0]), "{all}");
    }
    for butler in ["finance", "general", "health", "relationship", "travel"] {
        for (job, times) in [("decay-sweep", 31), ("episode-cleanup", 31), ("consolidation", 124)] {
            let row = told[&format!("{butler}/memory-{job}")];
            assert_eq!((row[0], row[1], row[2]), (times, times, 0), "{butler} {job}\n{all}");
            assert!(job == "consolidation" || row[3] == 0, "{butler} {job}\n{all}");
        }
    }
    let (sessions, input, output, usd) = month.cost().await;
    // Those of the prompts alone: where nothing was found there is nothing to learn.
    let wanted = 1 + 4 + 5;
    assert_eq!((sessions, input, output), (wanted, wanted * 1100, wanted * 20), "{usd}\n{all}");
    // Each 1,100 tokens in and 20 out, at 3 and 15 dollars a million.
    assert_eq!(usd.trim_end_matches('0'), "0.036", "{all}");
    assert_eq!(month.model.requests().len() as i64, sessions);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_month_with_a_few_things_in_it_tells_each_on_its_days_and_once() {
    let month = Month::begin().await;
    let rent = json!({"payee": "Landlord", "amount": 900, "currency": "EUR", "due_date": "2027-03-10"});
    let rent = month.tell("finance", "track_bill", rent).await;
    let films = json!({"service": "Filmbox", "amount": 12.99, "currency": "EUR", "frequency": "monthly", "next_renewal": "2027-03-20"});
    month.tell("finance", "track_subscription", films).await;
    let anna = month.tell("relationship", "contact_create", json!({"name": "Anna Berger"})).await;
    let birthday = json!({"contact_id": anna["id"], "label": "birthday", "month": 3, "day": 15, "year": 1987});
    month.tell("relationship", "date_add", birthday).await;
    let exam =
        json!({"contact_id": anna["id"], "message": "Ask how the exam went", "due_at": "2027-03-17T18:00:00+01:00"});
    month.tell("relationship", "reminder_create", exam).await;
    month.tell("travel", "add_document", json!({"type": "passport", "expiry_date": "2027-03-31"})).await;
    let flight = json!({"payload": {"kind": "flight", "number": "LH232", "departure_airport_station": "FRA",
        "departure_at": "2027-03-20T10:15+01:00", "arrival_airport_station": "FCO", "arrival_city": "Rome",
        "arrival_at": "2027-03-20T12:05+01:00", "pnr": "X7K9QP"}});
    month.tell("travel", "record_booking", flight).await;
    let pills = json!({"name": "Metformin", "dosage": "500 mg", "frequency": "daily", "schedule": ["08:00"], "stock": 10,
        "remind_missed": false});
    month.tell("health", "medication_add", pills).await;
    let course = json!({"name": "Amoxicillin", "dosage": "1 g", "frequency": "daily", "schedule": ["18:30"],
        "start_date": "2027-03-05", "end_date": "2027-03-07"});
    let course = month.tell("health", "medication_add", course).await;
    month.live("2027-03-06T19:00:00+01:00").await;
    month.tell("health", "medication_log_dose", json!({"medication_id": course["id"]})).await;
    month.live("2027-03-12T12:00:00+01:00").await;
    month.tell("finance", "mark_bill_paid", json!({"bill_id": rent["id"]})).await;
    month.live(ENDS).await;
    let sent = month.sent().await;
    assert_eq!(sent, TOLD, "{}", serde_json::to_string_pretty(&sent).unwrap_or_default());
    let told = month.told().await;
    assert!(told.values().all(|row| row[2] == 0), "{told:?}");
}

/// Day and time, who, and what.
const TOLD: [&str; 24] = [
    "01 08:00 relationship: In 14 days (2027-03-15): Anna Berger, birthday (40)",
    "01 09:00 travel: Passport expires in 30 days, on Wed 31 Mar 2027.",
    "03 08:00 finance: Bills:\nLandlord: 900.00 EUR, due in 7 days, on 2027-03-10",
    "04 09:00 health: Metformin 500 mg: 6 left by the record, too little from Thursday, 2027-03-11 on.",
    "05 22:00 health: Not on record as taken or left out:\nAmoxicillin 1 g, due 18:30",
    "06 09:00 health: Amoxicillin 1 g: the course ends tomorrow.",
    "07 09:00 health: Amoxicillin 1 g: the course ends today.",
    "07 22:00 health: Not on record as taken or left out:\nAmoxicillin 1 g, due 18:30",
    "08 09:00 health: Metformin 500 mg: 2 left by the record, too little from Thursday, 2027-03-11 on.",
    "09 08:00 finance: Bills:\nLandlord: 900.00 EUR, due tomorrow, 2027-03-10",
    "10 08:00 finance: Bills:\nLandlord: 900.00 EUR, due today, 2027-03-10",
    "10 09:00 health: Metformin 500 mg: 0 left by the record, too little from tomorrow on.",
    "11 08:00 finance: Bills:\nLandlord: 900.00 EUR, overdue since yesterday, 2027-03-10",
    "11 09:00 health: Metformin 500 mg: 0 left by the record, too little from today on.",
    "12 08:00 relationship: In 3 days (2027-03-15): Anna Berger, birthday (40)",
    "13 08:00 travel: Trip to Rome (Sat 20 Mar 2027) begins in 7 days. First: Flight LH232, FRA to FCO, Sat 20 Mar 2027, 10:15, X7K9QP. Open points: No way back to FRA is on record. Passport expires on Wed 31 Mar 2027, less than six months after the trip. Some countries refuse that: look up the destination's rule.",
    "13 08:30 finance: Subscriptions that renew by themselves:\nFilmbox: 12.99 EUR monthly, in 7 days, on 2027-03-20",
    "14 08:00 relationship: Tomorrow (2027-03-15): Anna Berger, birthday (40)",
    "15 08:00 relationship: Today (2027-03-15): Anna Berger, birthday (40)",
    "17 18:00 relationship: Reminder: Ask how the exam went (Anna Berger)",
    "19 08:00 travel: Trip to Rome (Sat 20 Mar 2027) begins tomorrow. First: Flight LH232, FRA to FCO, Sat 20 Mar 2027, 10:15, X7K9QP. Open points: No way back to FRA is on record. Passport expires on Wed 31 Mar 2027, less than six months after the trip. Some countries refuse that: look up the destination's rule.\nCheck-in for Flight LH232, FRA to FCO opens 24 hours before it leaves: Fri 19 Mar 2027, 10:15 by the clock of the place (X7K9QP).",
    "19 08:30 finance: Subscriptions that renew by themselves:\nFilmbox: 12.99 EUR monthly, tomorrow, 2027-03-20",
    "20 08:00 travel: Trip to Rome (Sat 20 Mar 2027) begins today. First: Flight LH232, FRA to FCO, Sat 20 Mar 2027, 10:15, X7K9QP. Open points: No way back to FRA is on record. Passport expires on Wed 31 Mar 2027, less than six months after the trip. Some countries refuse that: look up the destination's rule.",
    "24 09:00 travel: Passport expires in 7 days, on Wed 31 Mar 2027.",
];
