//! `butlerd open` and `butlerd login-link`: a browser signs in to the dashboard.

use std::fs::Permissions;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;

use super::out::Out;
use super::{Caller, Outcome};
use admin::api::LoginApiClient;
use admin::{LoginLink, WantedLink};

/// `open`
#[derive(Debug, Args)]
pub struct OpenArgs {
    /// Print the link instead of opening it
    #[arg(long)]
    pub print: bool,
    /// The browser may look, and nothing more
    #[arg(long)]
    pub only_look: bool,
}

/// `login-link`
#[derive(Debug, Args)]
pub struct LinkArgs {
    /// How long the link opens
    #[arg(long = "for", value_name = "DURATION", default_value = "10m")]
    pub lasts: String,
    /// The browser may look, and nothing more
    #[arg(long)]
    pub only_look: bool,
}

pub async fn open(caller: Caller, args: OpenArgs) -> Outcome {
    let wanted = WantedLink { lasts: None, only_look: args.only_look };
    let link = caller.got(caller.quick()?.login_link(wanted).await)?;
    let screen = ["WAYLAND_DISPLAY", "DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let asked = args.print || caller.out.json || !std::io::stdout().is_terminal() || !screen;
    if !asked && launched(link.url.expose()) {
        caller.out.line("The dashboard opens in your browser. If it does not: butlerd open --print");
        return Ok(0);
    }
    caller.out.answer(&link, |out, link| {
        out.line(link.url.expose());
        told(out, link);
    })
}

pub async fn link(caller: Caller, args: LinkArgs) -> Outcome {
    let wanted = WantedLink { lasts: Some(args.lasts), only_look: args.only_look };
    caller.show(caller.quick()?.login_link(wanted).await, |out, link| {
        out.line(link.public_url.as_ref().unwrap_or(&link.url).expose());
        told(out, link);
        if link.public_url.is_none() {
            out.aside(
                "Other devices reach it once a proxy of yours serves it: see [admin] public_url and trusted_proxies.",
            );
        }
    })
}

fn told(out: &Out, link: &LoginLink) {
    let until = link.expires_at.to_zoned(out.zone.clone()).strftime("%H:%M:%S").to_string();
    out.aside(&format!("It signs one browser in, once, until {until}."));
}

/// Opens a link in the person's browser. It goes there by a file that nobody else can read, because others of this machine
/// see the arguments of programs.
fn launched(url: &str) -> bool {
    let write = || -> std::io::Result<PathBuf> {
        let dir = std::env::var_os("XDG_RUNTIME_DIR").or_else(|| std::env::var_os("HOME"));
        let dir = dir.map_or_else(std::env::temp_dir, PathBuf::from);
        let mut file = tempfile::Builder::new()
            .prefix("butlerd-open-")
            .suffix(".html")
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(&dir)?;
        // The link is made of an address and characters that mean nothing in HTML.
        write!(file, "<!doctype html><title>butlerd</title><meta http-equiv=\"refresh\" content=\"0;url={url}\">")?;
        // The browser reads it after this program has gone. What it holds is worth nothing a minute later, and the next one
        // takes its place.
        let page = dir.join(".butlerd-open.html");
        file.persist(&page).map(|_| page).map_err(|e| e.error)
    };
    let Ok(page) = write() else { return false };
    let quiet = || Stdio::null();
    let opened = Command::new("xdg-open").arg(page).stdin(quiet()).stdout(quiet()).stderr(quiet()).status();
    opened.is_ok_and(|status| status.success())
}
