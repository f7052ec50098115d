//! One trace from a trigger over its session's child to each tool call, at a collector of OpenTelemetry.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Household, eventually, model};

/// A collector on loopback that keeps what it is sent.
#[derive(Clone, Default)]
struct Collector {
    bodies: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    async fn start() -> (Self, String) {
        let (this, listener) = (Self::default(), TcpListener::bind("127.0.0.1:0").await.expect("a port"));
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = this.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = shared.clone();
                let service = service_fn(move |request| shared.clone().take(request));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        (this, url)
    }

    async fn take(self, request: hyper::Request<Incoming>) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
        assert_eq!(request.uri().path(), "/v1/traces");
        let body = request.into_body().collect().await.expect("a body").to_bytes();
        self.bodies.lock().expect("no panic").push(serde_json::from_slice(&body).expect("JSON"));
        Ok(hyper::Response::new(Full::new(Bytes::from_static(b"{}"))))
    }

    fn text(&self) -> String {
        self.bodies.lock().expect("no panic").iter().map(Value::to_string).collect()
    }

    /// The spans of a trace.
    fn spans(&self, trace: &str) -> Vec<Value> {
        let bodies = self.bodies.lock().expect("no panic");
        let all = bodies.iter().filter_map(|b| b["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array()).flatten();
        all.filter(|span| span["traceId"] == trace).cloned().collect()
    }
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a str {
    let all = span["attributes"].as_array().expect("attributes");
    let found = all.iter().find(|a| a["key"] == name).unwrap_or_else(|| panic!("no {name} in {span}"));
    found["value"]["stringValue"].as_str().expect("a text")
}

/// The only span of this name.
fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    let mut found = spans.iter().filter(|span| span["name"] == name);
    let one = found.next().unwrap_or_else(|| panic!("no span {name} in {spans:#?}"));
    assert!(found.next().is_none(), "two spans {name} in {spans:#?}");
    one
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trigger_its_session_and_every_tool_call_are_one_trace() {
    let (collector, url) = Collector::start().await;
    let model = model(json!([{"when": "remember", "steps": [
        {"call": {"tool": "state_set", "arguments": {"key": "colour", "value": "teal"}}},
        {"call": {"tool": "state_set", "arguments": {"key": "module:x", "value": 1}}},
        {"say": "done"},
    ]}]))
    .await;
    let household = Household::with_model(&model).env("BUTLERD_TELEMETRY__OTLP", &url);
    let mut daemon = household.start().await;
    // A client with a trace of its own; what it says over HTTP gives way to what it says in the call.
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "trigger", "arguments": {"prompt": "remember this"},
        "_meta": {"traceparent": format!("00-{trace}-{span}-01")}}});
    let general = daemon.mcp("general");
    let header = ("traceparent", "00-11111111111111111111111111111111-2222222222222222-01");
    assert_eq!(general.post(call, &[header]).await.result()["output"], "done");
    // One that began here.
    let (code, out, err) = household.cli(&["trigger", "general", "remember it again", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    eventually("spans in the metrics", || async {
        let (_, metrics) = daemon.get("/metrics").await;
        let line = metrics.lines().find(|l| l.starts_with("butlerd_spans_exported_total ")).unwrap_or_default();
        if line.ends_with(" 0") || line.is_empty() { Err(line.to_owned()) } else { Ok(()) }
    })
    .await;
    let sessions = general.ok("sessions_list", json!({})).await;
    let (theirs, ours) = (&sessions[1], &sessions[0]);
    assert_eq!(theirs["trace_id"], trace, "the row tells the trace: {theirs}");
    let ours = ours["trace_id"].as_str().expect("a trace").to_owned();
    let token = daemon.token();
    // What is left goes out before the end.
    assert_eq!(daemon.stop_blocking(), 0);

    let spans = collector.spans(trace);
    let parent = |name: &str| named(&spans, name)["parentSpanId"].as_str().expect("a parent").to_owned();
    let id = |name: &str| named(&spans, name)["spanId"].as_str().expect("an id").to_owned();
    assert_eq!(parent("tool trigger"), span, "what the client said");
    assert_eq!(parent("trigger general"), id("tool trigger"));
    for name in ["queue", "session", "settle"] {
        assert_eq!(parent(name), id("trigger general"), "{name}");
    }
    for name in ["compose", "spawn", "run"] {
        assert_eq!(parent(name), id("session"), "{name}");
    }
    let calls: Vec<&Value> = spans.iter().filter(|s| s["name"] == "tool state_set").collect();
    assert_eq!(calls.len(), 2, "{spans:#?}");
    for call in &calls {
        assert_eq!(call["parentSpanId"], id("session"), "as the child was told");
        assert_eq!(attribute(call, "butlerd.session_id"), theirs["id"].as_str().expect("an id"));
    }
    assert_eq!(attribute(calls[0], "butlerd.outcome"), "ok");
    assert_eq!(attribute(calls[0], "gen_ai.tool.call.arguments"), r#"{"key":"colour","value":"teal"}"#);
    assert!(attribute(calls[0], "gen_ai.tool.call.result").contains("\"ok\""));
    assert_eq!((attribute(calls[1], "butlerd.outcome"), &calls[1]["status"]["code"]), ("refused", &json!(2)));
    assert_eq!(attribute(named(&spans, "session"), "butlerd.state"), "succeeded");

    // Every span of the other hangs below one that began it.
    let spans = collector.spans(&ours);
    let roots: Vec<&Value> = spans.iter().filter(|s| s["parentSpanId"].is_null()).collect();
    assert_eq!(roots.len(), 1, "{spans:#?}");
    for span in spans.iter().filter(|s| !s["parentSpanId"].is_null()) {
        assert!(spans.iter().any(|s| s["spanId"] == span["parentSpanId"]), "nobody above {span}");
    }
    assert!(spans.len() >= 9, "{spans:#?}");
    let text = collector.text();
    for secret in ["sk-test-key-of-the-scripted-model", token.as_str(), "Bearer"] {
        assert!(!text.contains(secret), "{secret} is in a span");
    }
}
