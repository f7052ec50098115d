//! Ports for programs that have to be told theirs.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// The lowest that is given.
const LOWEST: u32 = 10_000;

/// So many ports, free now, and below those that the kernel gives to whoever asks for any: nobody else here gets one.
pub fn free(n: usize) -> Vec<u16> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let any = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").expect("the kernel's range");
    let end: u32 = any.split_whitespace().next().and_then(|first| first.parse().ok()).expect("where it begins");
    // Each process of tests begins elsewhere.
    let begin = std::process::id().wrapping_mul(97);
    let next = || LOWEST + begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % (end - LOWEST);
    let tried = std::iter::repeat_with(|| u16::try_from(next()).expect("a port"));
    tried.take(20_000).filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).take(n).collect()
}

/// An address where nobody listens, for as long as the socket lives: it is taken.
pub fn nobodys() -> (tokio::net::TcpSocket, String) {
    let taken = tokio::net::TcpSocket::new_v4().expect("a socket");
    taken.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    (taken, address)
}
