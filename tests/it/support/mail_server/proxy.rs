//! A connection that breaks in the ways of networks, between a client and a server.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};

#[derive(Clone, Copy)]
enum Order {
    Cut,
    HalfClose,
}

/// Passes on what it gets, until it is told otherwise. Gone with all of its connections when it is dropped.
pub struct Proxy {
    addr: SocketAddr,
    orders: broadcast::Sender<Order>,
    silent: watch::Sender<bool>,
    opened: watch::Receiver<usize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.task.abort();
    }
}

impl Proxy {
    /// Before a port of the mail servers.
    pub async fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("its address");
        let (orders, silent) = (broadcast::Sender::new(8), watch::Sender::new(false));
        let (count, opened) = watch::channel(0);
        let (to_all, silence) = (orders.clone(), silent.clone());
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.send_modify(|count| *count += 1);
                let (orders, silent) = (to_all.subscribe(), silence.subscribe());
                tokio::spawn(async move {
                    // Where nobody listens, the client is told so by the end of its connection.
                    if let Ok(server) = TcpStream::connect((super::HOST, port)).await {
                        let _ = carry(client, server, orders, silent).await;
                    }
                });
            }
        });
        Self { addr, orders, silent, opened, task }
    }

    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        *self.opened.borrow()
    }

    /// Resets all connections. New ones come about.
    pub fn cut(&self) {
        let _ = self.orders.send(Order::Cut);
    }

    /// The server seems to have said its last word on all connections, and goes on listening. New ones come about.
    pub fn half_close(&self) {
        let _ = self.orders.send(Order::HalfClose);
    }

    /// Nothing gets through any more, on those connections that are open and on new ones; what is said waits.
    pub fn silence(&self) {
        self.silent.send_replace(true);
    }

    /// All gets through again.
    pub fn pass(&self) {
        self.silent.send_replace(false);
    }
}

async fn carry(
    mut client: TcpStream,
    mut server: TcpStream,
    mut orders: broadcast::Receiver<Order>,
    mut silent: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let (mut up, mut down) = ([0; 16 * 1024], [0; 16 * 1024]);
    // Which of both still speaks, and whether the client is still told.
    let (mut asking, mut answering, mut told) = (true, true, true);
    while asking || answering {
        let held = *silent.borrow_and_update();
        tokio::select! {
            order = orders.recv() => match order {
                Ok(Order::HalfClose) => {
                    told = false;
                    client.shutdown().await?;
                }
                _ => return client.set_zero_linger(),
            },
            changed = silent.changed() => if changed.is_err() { return client.set_zero_linger() },
            read = client.read(&mut up), if asking && !held => match read? {
                0 => {
                    asking = false;
                    server.shutdown().await?;
                }
                n => server.write_all(&up[..n]).await?,
            },
            read = server.read(&mut down), if answering && !held => match read? {
                0 => {
                    answering = false;
                    if told { client.shutdown().await? }
                }
                n if told => client.write_all(&down[..n]).await?,
                _ => {}
            },
        }
    }
    Ok(())
}
