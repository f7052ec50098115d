//! What the gateway adds to the first byte of a streamed answer, beside the same call made directly.
//!
//! The gateway is a process of its own; the scripted model and the client are this one. Direct calls and calls through
//! the gateway take turns, so that both see the same machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

use access::{CallGuard, Grant, GrantScope, Holder, Token, TokenBook};
use base::{Clock, RequestContext, SessionId, TenantId, Trust};
use llm_api::Family;
use sessions::budget::{Limits, Meter};
use sessions::gateway::{Gateway, Login, Upstream};
use testkit::model::{Script, ScriptedModel};

use crate::part::Part;
use crate::table::{self, median};
use crate::{Failed, Plan};

/// What the gateway's process tells.
#[derive(Debug, Serialize, Deserialize)]
struct Place {
    base_url: String,
    token: String,
}

/// In the gateway's process: one session's route to the model at `args[0]`, until standard input is closed.
pub async fn run(args: &[String]) -> Result<(), Failed> {
    let endpoint = args.first().ok_or("no address of a model")?.clone();
    let (book, clock, session) = (TokenBook::default(), Clock::default(), SessionId::new());
    let token = Token::generate()?;
    let request = RequestContext::root(&clock, TenantId::owner(), "cli", "bench", "owner", Trust::Owner);
    let grant = Grant {
        holder: Holder::Session {
            session,
            context: request.into(),
            tools_seen: Default::default(),
            tools_shown: Default::default(),
            taint: Default::default(),
            calls: Arc::new(CallGuard::open()),
        },
        tenant: TenantId::owner(),
        butler: None,
        tools: None,
        scopes: [GrantScope::Tools].into(),
        ends: access::ChannelEnds::default(),
        expires_at: None,
    };
    book.insert(token.sha256(), grant);
    let gateway = Gateway::start(book)?;
    let upstream = Upstream { family: Family::Anthropic, endpoint, login: Login::Nobody, granted: Vec::new() };
    let mut link = gateway.open(session, upstream, Meter::new(Limits::default()))?;
    let place = Place { base_url: link.base_url().to_owned(), token: token.expose().to_owned() };
    println!("{}", serde_json::to_string(&place)?);
    let mut end = [0u8; 64];
    let mut input = tokio::io::stdin();
    loop {
        tokio::select! {
            read = input.read(&mut end) => if read? == 0 { break },
            _ = link.next_call() => {}
        }
    }
    gateway.stop().await;
    Ok(())
}

pub async fn measure(plan: &Plan) -> Result<(), Failed> {
    let script = json!({"conversations": [{"when": "say hello", "steps": [{"say": "hello"}]}]});
    let model = ScriptedModel::start(Script::from_value(script)?).await?;
    let mut part = Part::start("gateway", &[model.base_url()], None)?;
    let place: Place = part.receive().await?;
    let client = base::http_client("http://127.0.0.1").build()?;
    let times = plan.triggers * 10;
    table::gateway_head(times);
    for kib in [4, 256, 2048] {
        let body = conversation(kib << 10);
        let (mut direct, mut through) = (Vec::new(), Vec::new());
        for round in 0..=times {
            let a = first_byte(&client, &model.base_url(), "none", &body).await?;
            let b = first_byte(&client, &place.base_url, &place.token, &body).await?;
            if round > 0 {
                direct.push(a.as_secs_f64() * 1e3);
                through.push(b.as_secs_f64() * 1e3);
            }
        }
        table::gateway(kib, median(&direct), median(&through));
    }
    part.finish().await?;
    model.shutdown().await;
    Ok(())
}

/// A request of about this size, most of it earlier talk.
fn conversation(bytes: usize) -> Value {
    let turn = "word ".repeat(400);
    let earlier = (0..bytes / turn.len()).map(|n| {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        json!({"role": role, "content": turn})
    });
    let newest = json!({"role": "user", "content": "say hello"});
    let messages: Vec<Value> = earlier.chain([newest]).collect();
    json!({"model": "m", "stream": true, "max_tokens": 100, "messages": messages})
}

async fn first_byte(client: &reqwest::Client, base: &str, token: &str, body: &Value) -> Result<Duration, Failed> {
    let request = client.post(format!("{base}/v1/messages")).header("x-api-key", token).json(body).build()?;
    let begun = Instant::now();
    let mut answer = client.execute(request).await?.error_for_status()?;
    let first = answer.chunk().await?;
    let taken = begun.elapsed();
    if first.is_none() {
        return Err("an answer without a byte".into());
    }
    while answer.chunk().await?.is_some() {}
    Ok(taken)
}
