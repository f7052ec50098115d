//! config/butlerd.service: systemd finds nothing to say about it, and little that it leaves open.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use what_was_left_out::left_out;

/// The most that `systemd-analyze security` may find open, of 10.
const EXPOSURE: f64 = 2.5;
const PROGRAM: &str = "/usr/local/bin/butlerd";

#[test]
fn systemd_verifies_the_unit_without_a_word() {
    let Some(unit) = Unit::place("systemd_verifies_the_unit_without_a_word", &text()) else { return };
    let out = unit.analyze(&["verify"]);
    assert!(out.status.success() && out.stdout.is_empty() && out.stderr.is_empty(), "{}", shown(&out));
}

/// systemd only warns of a key that it doesn't know, with exit code 0: the silence above must mean something.
#[test]
fn a_misspelt_directive_is_noticed() {
    let text = text().replace("ProtectClock=", "ProtectClocks=");
    let Some(unit) = Unit::place("a_misspelt_directive_is_noticed", &text) else { return };
    let out = unit.analyze(&["verify"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("ProtectClocks"), "{}", shown(&out));
}

#[test]
fn little_is_left_open_and_each_thing_has_its_reason() {
    let text = text();
    let Some(unit) = Unit::place("little_is_left_open_and_each_thing_has_its_reason", &text) else { return };
    let out = unit.analyze(&["security", "--offline=true", "--no-pager"]);
    let report = String::from_utf8_lossy(&out.stdout);
    let exposure = report
        .lines()
        .find_map(|line| line.split_once("Overall exposure level for butlerd.service: "))
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok())
        .unwrap_or_else(|| panic!("no exposure level in this report:\n{}", shown(&out)));
    assert!(exposure <= EXPOSURE, "exposure is {exposure}, more than {EXPOSURE}:\n{}", shown(&out));

    // A row such as `✗ PrivateNetwork=   Service has access to the host's network   0.5`.
    let open = report.lines().filter_map(|line| line.strip_prefix("✗ ")?.split(['=', ' ']).next());
    let unnamed: Vec<_> = open.filter(|directive| !text.contains(&format!("{directive}="))).collect();
    assert!(unnamed.is_empty(), "the unit leaves these out and doesn't say why: {unnamed:?}");
}

/// The unit as it is shipped, with a program that is installed here.
fn text() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/butlerd.service");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let start = format!("ExecStart={PROGRAM} serve ");
    assert!(text.contains(&start), "the unit starts {PROGRAM}");
    text.replace(&start, "ExecStart=/bin/sh serve ").replace(&format!("={PROGRAM} "), "=/bin/sh ")
}

struct Unit {
    _directory: TempDir,
    file: PathBuf,
}

impl Unit {
    /// The unit in a directory of its own; none, and a word about it, if this machine can't judge it.
    fn place(test: &str, text: &str) -> Option<Self> {
        match Command::new("systemd-analyze").arg("--version").output() {
            // `security --offline` came with 250.
            Ok(out) if version(&out) >= Some(250) => {}
            Ok(out) => {
                left_out(test, &format!("needs systemd 250 or later; systemd-analyze says {}", shown(&out)));
                return None;
            }
            Err(error) => {
                left_out(test, &format!("systemd-analyze: {error}"));
                return None;
            }
        }
        let directory = tempfile::tempdir().expect("a scratch directory");
        let file = directory.path().join("butlerd.service");
        std::fs::write(&file, text).expect("the unit is written");
        Some(Self { _directory: directory, file })
    }

    fn analyze(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&self.file).env("LC_ALL", "C.UTF-8").env("SYSTEMD_COLORS", "0");
        command.output().expect("systemd-analyze runs")
    }
}

/// 252 of `systemd 252 (252.38-1~deb12u1)`.
fn version(out: &Output) -> Option<u32> {
    String::from_utf8_lossy(&out.stdout).split_whitespace().nth(1)?.parse().ok()
}

fn shown(out: &Output) -> String {
    format!("{}\n{}{}", out.status, String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}
