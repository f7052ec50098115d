//! The floor below all others: bare hyper, which reads a request whole and answers the bytes of a tool that does nothing.

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use base::task;

use crate::Failed;

const ANSWER: &[u8] =
    br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"status\":\"ok\"}"}],"isError":false}}"#;

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    request.into_body().collect().await?;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

/// Says its port and serves until its input is closed.
pub async fn run() -> Result<(), Failed> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?.port());
    let mut input = tokio::io::stdin();
    let mut byte = [0u8; 1];
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = input.read(&mut byte) => return Ok(()),
        };
        stream.set_nodelay(true)?;
        let connection = hyper::server::conn::http1::Builder::new().serve_connection(
            TokioIo::new(stream),
            service_fn(|request| async { Ok::<_, Infallible>(answer(request).await.unwrap_or_default()) }),
        );
        task::spawn(task::Kind::Request, "floor", async move {
            // A client that goes away is no error here.
            let _ = connection.await;
        });
    }
}
