//! A way to the scripted model that can be shut, slow or silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// How it treats connections from now on.
#[derive(Clone, Copy)]
pub enum Mood {
    Well,
    /// It hangs up at once.
    Down,
    /// It takes half a second.
    Slow,
    /// It takes the request and says nothing, until it is well again and hangs up.
    Silent,
}

pub struct ModelDoor {
    url: String,
    mood: Arc<AtomicU8>,
}

impl ModelDoor {
    pub async fn before(model: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let (mood, to) = (Arc::new(AtomicU8::new(Mood::Well as u8)), model.trim_start_matches("http://").to_owned());
        let seen = mood.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, to.clone(), seen.clone()));
            }
        });
        Self { url, mood }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    pub fn turn(&self, mood: Mood) {
        self.mood.store(mood as u8, Ordering::Release);
    }
}

async fn pass(mut from: TcpStream, to: String, mood: Arc<AtomicU8>) {
    let now = || mood.load(Ordering::Acquire);
    if now() == Mood::Down as u8 {
        return;
    }
    while now() == Mood::Silent as u8 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if now() != Mood::Silent as u8 {
            return;
        }
    }
    if now() == Mood::Slow as u8 {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let Ok(mut to) = TcpStream::connect(to.as_str()).await else { return };
    // Either end may hang up.
    let _ = copy_bidirectional(&mut from, &mut to).await;
}
