//! The ports that the daemon would bind: free, held by itself, or held by somebody else.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};

use super::Finding;
use super::daemon::Daemon;
use config::{ButlerConfig, Config, Ports};

const TOPIC: &str = "ports";

pub(super) fn findings(config: &Config, butlers: &[ButlerConfig], daemon: &Daemon) -> Vec<Finding> {
    let (mut wanted, mut found) = (vec![("the admin port".to_owned(), config.admin.listen)], Vec::new());
    let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    match config.daemon.ports {
        Ports::Auto => found.push(Finding::ok(TOPIC, "chosen free at each start (daemon.ports = \"auto\")")),
        Ports::Roster => wanted.extend(butlers.iter().map(|b| (b.name.to_string(), local(b.port)))),
    }
    wanted.retain(|(_, addr)| addr.port() != 0);
    found.extend(judge(&wanted, &daemon.ports()));
    found
}

fn judge(wanted: &[(String, SocketAddr)], own: &BTreeSet<u16>) -> Vec<Finding> {
    let (mut free, mut ours, mut found) = (0, 0, Vec::new());
    for (who, addr) in wanted {
        if own.contains(&addr.port()) {
            ours += 1;
            continue;
        }
        match TcpListener::bind(addr) {
            Ok(_) => free += 1,
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                let holder = holder(addr.port()).map(|h| format!(" by {h}")).unwrap_or_default();
                found.push(Finding::problem(TOPIC, format!("{addr}, for {who}, is held{holder}")).so(format!(
                    "Stop that program, or give {who} another port{}; [daemon] port_base in butlerd.toml moves all of them.",
                    if who == "the admin port" { ": admin.listen" } else { " in its butler.toml" }
                )));
            }
            Err(e) => found.push(Finding::problem(TOPIC, format!("{addr}, for {who}, can't be had: {e}"))),
        }
    }
    let text = match (free, ours) {
        (0, 0) => return found,
        (n, 0) => format!("{n} of {} are free", wanted.len()),
        (0, n) => format!("{n} of {} are held by the running butlerd", wanted.len()),
        (f, n) => format!("{n} of {} are held by the running butlerd, {f} free", wanted.len()),
    };
    found.insert(0, Finding::ok(TOPIC, text));
    found
}

/// The process that listens on a port of this machine, as far as this user may know.
fn holder(port: u16) -> Option<String> {
    let sockets: BTreeSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .flat_map(|table| listeners(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().filter(|n| n.bytes().all(|b| b.is_ascii_digit())) else { continue };
        let Ok(open) = std::fs::read_dir(process.path().join("fd")) else { continue };
        let holds = open
            .flatten()
            .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_str().is_some_and(|to| sockets.contains(to))));
        if holds {
            let command = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some(format!("process {pid} ({})", base::text::clean(command.trim())));
        }
    }
    None
}

/// Inodes of the sockets in the kernel's table that listen on `port`.
fn listeners(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let suffix = format!(":{port:04X}");
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let fits = fields.get(1)?.ends_with(&suffix) && *fields.get(3)? == LISTEN;
        fields.get(9).filter(|_| fits).map(ToString::to_string)
    };
    table.lines().skip(1).filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn a_port_is_free_ours_or_somebody_elses() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = taken.local_addr().unwrap();
        let wanted = [("health".to_owned(), addr)];
        let found = judge(&wanted, &BTreeSet::new());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].level, Level::Problem);
        let own = format!("process {}", std::process::id());
        assert!(found[0].text.contains(&own), "{}", found[0].text);
        let ours = judge(&wanted, &BTreeSet::from([addr.port()]));
        assert_eq!(ours[0].text, "1 of 1 are held by the running butlerd");
        // Port 0 is any free one.
        let free = [("health".to_owned(), SocketAddr::from(([127, 0, 0, 1], 0)))];
        assert_eq!(judge(&free, &BTreeSet::new())[0].text, "1 of 1 are free");
    }

    #[test]
    fn the_kernels_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:9CA7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0\n\
             1: 0100007F:9CA7 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4\n";
        assert_eq!(listeners(table, 40103), ["4711"]);
        assert!(listeners(table, 40104).is_empty());
    }
}
