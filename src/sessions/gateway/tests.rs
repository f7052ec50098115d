use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::types::Patience;
use super::*;
use crate::adapters::Outcome;
use crate::budget::{Limits, Meter};
use access::{Grant, Holder, Token, TokenBook};
use base::{Clock, Money, RequestContext, Secret, SessionId, TenantId, Trust, http_client, task};
use llm_api::{ErrorClass, Failure, Family, Usage};
use testkit::model::{Script, ScriptedModel};

const KEY: &str = "sk-the-real-key";

/// A gateway with one session, as a child sees it.
struct Scene {
    gateway: Gateway,
    link: Link,
    meter: Meter,
    token: String,
}

impl Scene {
    fn new(family: Family, endpoint: &str, limits: Limits, patience: Patience) -> Self {
        let (book, session) = (TokenBook::default(), SessionId::new());
        let token = Token::generate().unwrap();
        let context = RequestContext::root(&Clock::default(), TenantId::owner(), "cli", "local", "owner", Trust::Owner);
        let calls = Arc::new(access::CallGuard::new(100, |_| {}));
        let grant = Grant {
            holder: Holder::Session {
                session,
                context: Arc::new(context),
                tools_seen: Default::default(),
                tools_shown: Default::default(),
                calls,
                taint: Default::default(),
            },
            tenant: TenantId::owner(),
            butler: None,
            tools: None,
            scopes: Default::default(),
            ends: access::ChannelEnds::default(),
            expires_at: None,
        };
        book.insert(token.sha256(), grant);
        let gateway = Gateway::with_patience(book, patience).unwrap();
        let login = Login::Bearer(Arc::new(Secret::new(KEY.to_owned())));
        let upstream = Upstream { family, endpoint: endpoint.to_owned(), login, granted: Vec::new() };
        let meter = Meter::new(limits);
        let link = gateway.open(session, upstream, meter.clone()).unwrap();
        Self { gateway, link, meter, token: token.expose().to_owned() }
    }

    fn ask(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        let url = format!("http://127.0.0.1:{}{path}", self.gateway.port());
        http_client(&url).build().unwrap().post(url).bearer_auth(&self.token).json(body)
    }

    /// Status and body of a call of the Messages API.
    async fn say(&self, prompt: &str) -> (u16, String) {
        let body = json!({"model": "asked", "max_tokens": 4000, "messages": [{"role": "user", "content": prompt}]});
        let answer = self.ask("/v1/messages", &body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap_or_else(|_| "cut".to_owned()))
    }
}

/// For what never answers. Where an answer comes, a busy machine may take longer.
fn quick() -> Patience {
    Patience { head: Duration::from_millis(50), ..Patience::default() }
}

/// A server that answers every request with these bytes and then closes, or stays silent.
async fn raw(answer: &'static str, stays: bool) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let one = async move {
                let mut buffer = [0; 65536];
                // One small request fits into one read, or its rest is not needed.
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(answer.as_bytes()).await;
                if stays {
                    let _ = stream.read(&mut buffer).await;
                }
            };
            task::spawn(task::Kind::Request, "test-upstream", one);
        }
    };
    task::spawn(task::Kind::Actor, "test-upstream", serve);
    format!("http://{addr}")
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

#[tokio::test]
async fn a_limit_of_tokens_holds_before_the_next_call() {
    let script = json!({"conversations": [{"when": "go", "steps": [{"say": "hi"}]}]});
    let model = ScriptedModel::start(Script::from_value(script).unwrap()).await.unwrap();
    let limits = Limits { turns: None, tokens: Some(1120), usd: None };
    let mut scene = Scene::new(Family::Anthropic, &model.base_url(), limits, Patience::default());
    assert_eq!(scene.say("go").await.0, 200);
    let (status, body) = scene.say("go").await;
    assert!(status == 402 && body.contains("billing_error"), "{status} {body}");
    assert_eq!(scene.say("go").await.0, 402);
    assert_eq!(model.requests().len(), 1);
    let calls = scene.link.rest();
    assert_eq!(calls.len(), 2, "the call and its refusal, once: {calls:?}");
    assert_eq!(calls[0].usage.total(), 1120);
    assert_eq!((calls[0].status, calls[0].model.as_deref()), (Some(200), Some("asked")));
    assert_eq!(calls[1].failure.as_ref().map(|f| f.class), Some(ErrorClass::Budget));
    // Whatever the program says of itself.
    for error in [None, Some(Failure::new(ErrorClass::Crashed, "x"))] {
        let mut outcome = Outcome { ok: error.is_none(), error, ..Outcome::failed(Failure::new(ErrorClass::Auth, "")) };
        scene.link.correct(&mut outcome);
        assert!(!outcome.ok && outcome.error.unwrap().class == ErrorClass::Budget);
        assert_eq!((outcome.usage.total(), outcome.turns), (1120, Some(1)));
    }
}

#[tokio::test]
async fn a_program_ends_at_once_in_each_api() {
    let limits = Limits { turns: Some(0), tokens: None, usd: None };
    let none = "http://127.0.0.1:9";
    for (path, status) in [("/v1/responses", 400), ("/v1/chat/completions", 402)] {
        let scene = Scene::new(Family::OpenAi, none, limits, Patience::default());
        let answer = scene.ask(path, &json!({})).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers()["x-should-retry"].as_bytes()), (status, &b"false"[..]));
        assert_eq!(scene.link.refused().unwrap().class, ErrorClass::Turns);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_cut_here_too_and_counted() {
    const START: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n\
        5e\r\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":40}}}          \n\n\r\n";
    for (stays, class) in [(false, ErrorClass::ModelUnreachable), (true, ErrorClass::TimedOut)] {
        let upstream = raw(START, stays).await;
        let limits = Limits { tokens: Some(4000), ..Limits::default() };
        let pause = if stays { Duration::from_millis(50) } else { Patience::default().pause };
        let patience = Patience { pause, ..Patience::default() };
        let mut scene = Scene::new(Family::Anthropic, &upstream, limits, patience);
        assert_eq!(scene.say("go").await, (200, "cut".to_owned()), "{class:?}");
        let call = scene.link.next_call().await;
        assert_eq!(call.failure.as_ref().map(|f| f.class), Some(class), "{call:?}");
        let spent = scene.meter.spent();
        assert_eq!((spent.turns, spent.usage), (1, Usage { input: Some(40), ..Usage::default() }));
        assert_eq!(scene.say("go").await.0, 402, "its limit counts what it may have come to");
    }
}

#[tokio::test]
async fn an_upstream_that_fails_costs_no_turn_and_says_why() {
    const QUOTES: &str = "HTTP/1.1 401 Unauthorized\r\nx-echo: Bearer sk-the-real-key\r\nset-cookie: a=b\r\n\
        connection: close\r\n\r\n{\"error\":{\"message\":\"wrong key sk-the-real-key\"}}";
    const BUSY: &str = "HTTP/1.1 529 x\r\nconnection: close\r\n\r\nbusy";
    let away = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n";
    let cases = [
        (raw(QUOTES, false).await, 401, ErrorClass::Auth, "answered 401: wrong key [hidden]", true),
        (raw(away, false).await, 502, ErrorClass::InvalidRequest, "redirect", true),
        (raw("", true).await, 504, ErrorClass::TimedOut, "did not answer within", false),
        (raw("", false).await, 502, ErrorClass::ModelUnreachable, "no answer from the model's endpoint", false),
        (raw(BUSY, false).await, 529, ErrorClass::Overloaded, "busy", true),
        // Nobody listens there.
        ("http://127.0.0.1:1".to_owned(), 502, ErrorClass::ModelUnreachable, "no answer", true),
    ];
    for (upstream, status, class, words, is_free) in cases {
        let patience = if class == ErrorClass::TimedOut { quick() } else { Patience::default() };
        let mut scene = Scene::new(Family::Anthropic, &upstream, Limits::default(), patience);
        let (got, body) = scene.say("go").await;
        assert_eq!(got, status, "{body}");
        assert!(!body.contains(KEY) && !body.is_empty(), "{body}");
        let failure = scene.link.next_call().await.failure.unwrap();
        assert!(failure.class == class && failure.message.contains(words), "{failure:?}");
        let spent = scene.meter.spent();
        // A model that was asked and did not answer may have worked all the same: that costs something unknown.
        let turns = u32::from(class == ErrorClass::TimedOut);
        assert_eq!((spent.turns, spent.cost_usd), (turns, is_free.then_some(Money::ZERO)), "{words}");
        // A program that knows only that its call failed is told why; one that failed of something else is not.
        let of = |class| Outcome::failed(Failure::new(class, "its own words"));
        let (mut crashed, mut lonely) = (of(ErrorClass::Crashed), of(ErrorClass::McpUnreachable));
        scene.link.correct(&mut crashed);
        scene.link.correct(&mut lonely);
        assert_eq!(crashed.error.unwrap().class, class);
        assert_eq!(lonely.error.unwrap().message, "its own words");
    }
}

#[tokio::test]
async fn what_only_concerns_the_upstream_stays_here() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: a=b\r\nrequest-id: r-1\r\n\
        content-length: 78\r\n\r\n{\"type\":\"message\",\"model\":\"m\",\"usage\":{\"input_tokens\":4,\"output_tokens\":2}}   ";
    let upstream = raw(ANSWER, true).await;
    let mut scene = Scene::new(Family::Anthropic, &upstream, Limits::default(), Patience::default());
    let answer = scene.ask("/v1/messages", &json!({})).send().await.unwrap();
    assert!(!answer.headers().contains_key("set-cookie"));
    assert_eq!((&answer.headers()["request-id"], answer.content_length()), (&"r-1".parse().unwrap(), Some(78)));
    answer.bytes().await.unwrap();
    // Its last byte was announced: the call is settled before the child can make the next.
    let calls = scene.link.rest();
    assert_eq!((calls[0].usage.total(), calls[0].request_id.as_deref()), (6, Some("r-1")));
}

#[tokio::test]
async fn a_session_has_only_so_many_calls_at_once() {
    let upstream = raw(HEAD, true).await;
    let scene = Scene::new(Family::Anthropic, &upstream, Limits::default(), Patience::default());
    let mut open = Vec::new();
    for _ in 0..16 {
        let answer = scene.ask("/v1/messages", &json!({})).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        open.push(answer);
    }
    assert_eq!(scene.say("go").await.0, 429);
    // The end of the session ends them all.
    drop(scene.link);
    for answer in open {
        answer.bytes().await.unwrap_err();
    }
}
