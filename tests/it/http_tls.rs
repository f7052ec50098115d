//! HTTP tools over TLS: whose certificates are believed, with certificates that are made here.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::support::{Household, http};
use what_was_left_out::left_out;

/// Makes a key and a certificate of it for `name`, by `authority` or by itself: the paths of both.
fn certificate(dir: &Path, file: &str, name: &str, authority: Option<&(PathBuf, PathBuf)>) -> (PathBuf, PathBuf) {
    let (cert, key) = (dir.join(format!("{file}.pem")), dir.join(format!("{file}.key")));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    openssl.args(["-subj", &format!("/CN={file} of a test"), "-keyout"]).arg(&key).arg("-out").arg(&cert);
    if let Some((by, by_key)) = authority {
        openssl.args(["-addext", &format!("subjectAltName={name}"), "-addext", "basicConstraints=critical,CA:FALSE"]);
        openssl.arg("-CA").arg(by).arg("-CAkey").arg(by_key);
    }
    let out = openssl.output().expect("openssl runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    (cert, key)
}

/// A web service that answers each request alike; with TLS where it has a certificate.
fn service(of: Option<&(PathBuf, PathBuf)>, reply: &str) -> u16 {
    let config = of.map(|(cert, key)| {
        let cert = CertificateDer::from_pem_file(cert).expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![cert], key);
        Arc::new(config.expect("a certificate with its key"))
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let reply = reply.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream: Box<dyn ReadAndWrite> = match &config {
                Some(config) => {
                    let tls = ServerConnection::new(config.clone()).expect("a connection");
                    Box::new(StreamOwned::new(tls, stream))
                }
                None => Box::new(stream),
            };
            // A client that does not believe it goes away.
            if stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {
                let _ = stream.write_all(reply.as_bytes()).and_then(|()| stream.flush());
            }
        }
    });
    port
}

trait ReadAndWrite: Read + Write {}
impl<T: Read + Write> ReadAndWrite for T {}

const BUTLER: &str = "[butler]\nname = \"forecast\"\nport = 40188\n\n[butler.runtime]\nmodel = \"claude-sonnet-4-5\"\n\n[modules.forecast]\n";

fn redirect(to: &str) -> String {
    format!("HTTP/1.1 301 Moved Permanently\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_certificates_of_trusted_authorities_are_believed() {
    let test = "http_tls::only_certificates_of_trusted_authorities_are_believed";
    if Command::new("openssl").arg("version").output().is_err() {
        return left_out(test, "there is no openssl");
    }
    // The library wants to know its provider.
    let _ = http();
    let dir = tempfile::tempdir().expect("a directory");
    let authority = certificate(dir.path(), "authority", "", None);
    let [ours, others] = ["IP:127.0.0.1", "DNS:api.example.org"]
        .map(|name| certificate(dir.path(), &name.replace(':', "-"), name, Some(&authority)));
    let unknown = certificate(dir.path(), "unknown", "", None);
    let stranger = certificate(dir.path(), "stranger", "IP:127.0.0.1", Some(&unknown));
    let ok = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\nconnection: close\r\n\r\n{\"a\": 42}";
    let trusted = service(Some(&ours), ok);
    let plain = service(None, ok);
    let to = |scheme: &str, port: u16| redirect(&format!("{scheme}://127.0.0.1:{port}/"));
    let services = [
        ("trusted", "https", trusted),
        ("upward", "http", service(None, &to("https", trusted))),
        ("downward", "https", service(Some(&ours), &to("http", plain))),
        ("misnamed", "https", service(Some(&others), ok)),
        ("stranger", "https", service(Some(&stranger), ok)),
        ("self_signed", "https", service(Some(&unknown), ok)),
        ("no_tls", "https", plain),
    ];
    let mut household = Household::few().butler("forecast", BUTLER);
    for (tool, scheme, port) in services {
        let file = format!(
            "---\ndescription: Asks.\nurl: {scheme}://127.0.0.1:{port}/\ntimeout: 40s\n\
             allow_hosts: ['127.0.0.1:{port}', '127.0.0.1:{trusted}', '127.0.0.1:{plain}']\n---\n"
        );
        household = household.write(&format!("forecast/tools/{tool}.http"), &file);
    }
    let household = household.env("SSL_CERT_FILE", authority.0.to_str().expect("a path"));
    let daemon = household.start().await;
    let forecast = daemon.mcp("forecast");
    for tool in ["trusted", "upward"] {
        assert_eq!(forecast.ok(tool, json!({})).await["a"], 42, "{tool}");
    }
    for (tool, why) in [
        ("downward", "a redirect leads from https to http"),
        ("misnamed", "certificate not valid for name"),
        (
            "stranger",
            "UnknownIssuer; the authorities that are trusted are the system's, or those of the file that SSL_CERT_FILE",
        ),
        ("self_signed", "SSL_CERT_FILE"),
        ("no_tls", "can't be asked"),
    ] {
        let told = forecast.call(tool, json!({})).await.text();
        println!("{tool}: {told}");
        assert_eq!(told["status"], "error", "{tool}: {told}");
        assert!(told["error"].as_str().is_some_and(|told| told.contains(why)), "{tool}: {told}");
    }
}
