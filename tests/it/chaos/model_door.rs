//! A way to the scripted model that can be shut, slow or silent.

use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How it treats connections from now on.
#[derive(Clone, Copy, PartialEq, Eq)]
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
    mood: watch::Sender<Mood>,
}

impl ModelDoor {
    pub async fn before(model: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let (mood, to) = (watch::Sender::new(Mood::Well), model.trim_start_matches("http://").to_owned());
        let seen = mood.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(pass(stream, to.clone(), seen.subscribe()));
            }
        });
        Self { url, mood }
    }

    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Treats what connects from now on so, and hangs up on all that are connected.
    pub fn turn(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }
}

async fn pass(from: TcpStream, to: String, mut mood: watch::Receiver<Mood>) {
    let now = *mood.borrow_and_update();
    let serve = async {
        match now {
            Mood::Well => {}
            Mood::Down => return,
            Mood::Slow => tokio::time::sleep(Duration::from_millis(500)).await,
            Mood::Silent => std::future::pending().await,
        }
        let (mut from, Ok(mut to)) = (from, TcpStream::connect(to.as_str()).await) else { return };
        // Either end may hang up.
        let _ = copy_bidirectional(&mut from, &mut to).await;
    };
    tokio::select! {
        () = serve => {}
        _ = mood.changed() => {}
    }
}
