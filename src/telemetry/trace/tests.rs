use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::Metrics;

/// Takes `requests` requests, answers each with the next status, and returns their bodies.
async fn collector(statuses: Vec<u16>) -> (String, tokio::task::JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let taken = async move {
        let mut bodies = Vec::new();
        for status in statuses {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = Vec::new();
            let body = loop {
                let mut part = [0; 4096];
                let n = stream.read(&mut part).await.unwrap();
                text.extend_from_slice(&part[..n]);
                let whole = String::from_utf8_lossy(&text).into_owned();
                let Some((head, body)) = whole.split_once("\r\n\r\n") else { continue };
                let length = head.to_ascii_lowercase();
                let length = length.split("content-length: ").nth(1).and_then(|l| l.lines().next());
                if length.and_then(|l| l.parse().ok()) == Some(body.len()) {
                    assert!(head.starts_with("POST /v1/traces "), "{head}");
                    break body.to_owned();
                }
            };
            bodies.push(serde_json::from_str(&body).unwrap());
            let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        bodies
    };
    (url, task::spawn(task::Kind::Job, "collector", taken))
}

fn spans(body: &Value) -> &Vec<Value> {
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap()
}

#[tokio::test]
async fn spans_reach_the_collector_as_one_tree() {
    let (url, taken) = collector(vec![200]).await;
    let metrics = Metrics::tracing_to(&url).unwrap();
    let tracer = metrics.tracer();
    let root = TraceContext::new_root();
    {
        let mut session = tracer.open(&root, "session", SpanKind::Internal);
        session.set("n", 7);
        let mut call = tracer.open(session.context(), "tool", SpanKind::Server);
        call.set("text", "x".repeat(10_000));
        call.set("yes", true);
        call.fail("it broke");
    }
    tracer.flush(Duration::from_secs(30)).await;
    let bodies = taken.await.unwrap();
    let resource = &bodies[0]["resourceSpans"][0]["resource"]["attributes"];
    assert_eq!(resource[0], json!({"key": "service.name", "value": {"stringValue": "butlerd"}}));
    // What is dropped first has ended first.
    let [call, session] = spans(&bodies[0]).as_slice() else { panic!("{bodies:?}") };
    assert_eq!(session["traceId"], root.trace_id());
    assert!(session["parentSpanId"].is_null(), "nobody stands above the first: {session}");
    assert_eq!((&call["traceId"], &call["parentSpanId"]), (&session["traceId"], &session["spanId"]));
    assert_eq!(session["attributes"], json!([{"key": "n", "value": {"intValue": "7"}}]));
    assert_eq!(call["status"], json!({"code": 2, "message": "it broke"}));
    assert!(call["attributes"][0]["value"]["stringValue"].as_str().unwrap().len() < 2100);
    let time = |span: &Value, key: &str| span[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time(session, "startTimeUnixNano") <= time(call, "startTimeUnixNano"));
    assert!(time(call, "endTimeUnixNano") <= time(session, "endTimeUnixNano") + 1_000_000);
    let text = metrics.render();
    assert!(
        text.contains("butlerd_spans_exported_total 2") && text.contains("butlerd_spans_dropped_total 0"),
        "{text}"
    );
}

#[tokio::test]
async fn a_collector_that_fails_costs_spans_and_no_work() {
    // One that comes back, and one that refuses.
    let (url, taken) = collector(vec![503, 200, 400]).await;
    let metrics = Metrics::tracing_to(&url).unwrap();
    let tracer = metrics.tracer();
    for _ in 0..2 {
        drop(tracer.open(&TraceContext::new_root(), "x", SpanKind::Internal));
        tracer.flush(Duration::from_secs(30)).await;
    }
    assert_eq!(taken.await.unwrap().len(), 3);
    let text = metrics.render();
    assert!(
        text.contains("butlerd_spans_exported_total 1") && text.contains("butlerd_spans_dropped_total 1"),
        "{text}"
    );
    // One that isn't there: the queue fills, and no span waits for room.
    let begun = Instant::now();
    for _ in 0..WAITING + 100 {
        drop(tracer.open(&TraceContext::new_root(), "x", SpanKind::Internal));
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(metrics.dropped_spans() > 50, "{}", metrics.dropped_spans());
}

#[tokio::test]
async fn without_a_collector_contexts_go_on_all_the_same() {
    let tracer = Tracer::default();
    let root = TraceContext::new_root();
    let mut span = tracer.open(&root, "x", SpanKind::Internal);
    span.set("a", "b");
    assert!(!span.is_on() && !tracer.is_on());
    assert_eq!(span.context().trace_id(), root.trace_id());
    assert_ne!(span.context().span_id(), root.span_id());
    tracer.flush(Duration::ZERO).await;
}

#[tokio::test]
async fn who_asked_for_no_trace_gets_none() {
    let metrics = Metrics::tracing_to("http://127.0.0.1:9").unwrap();
    let unsampled = TraceContext::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").unwrap();
    let span = metrics.tracer().open(&unsampled, "x", SpanKind::Internal);
    assert!(!span.is_on());
    assert!(span.context().traceparent.ends_with("-00"), "and who comes after knows it");
}
