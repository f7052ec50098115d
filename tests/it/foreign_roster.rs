//! A roster from somebody else: it reads nothing outside of itself, and steers no program.

use std::os::unix::fs::symlink;

use crate::support::Household;

const SECRET: &str = "1b6453892473a467d07372d45eb05abc2031647a";

/// A household whose roster has a butler `garden`, and a secret beside the roster.
fn household() -> Household {
    let household = Household::few().butler(
        "garden",
        "[butler]\nname = \"garden\"\nport = 40120\ndescription = \"Waters.\"\n\n[butler.db]\nschema = \"garden\"\n",
    );
    // As text that each reader of the roster would quote: a line of TOML, Markdown, SQL and of a skill's head.
    std::fs::write(household.path().join("key"), format!("{SECRET}\n")).expect("the secret");
    household
}

/// Puts a link to the secret in the place of a file of the roster.
fn lead_out(household: &Household, path: &str) {
    let file = household.roster().join(path);
    std::fs::create_dir_all(file.parent().expect("a parent")).expect("the directory");
    let _ = std::fs::remove_file(&file);
    symlink(household.path().join("key"), &file).expect("a link");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_link_shows_what_is_outside() {
    let files = [
        "CLAUDE.md",
        "AGENTS.md",
        "MANIFESTO.md",
        "butler.toml",
        "tools/grow.sql",
        "jobs/grow.sql",
        "migrations/001_grow.sql",
        "tests/grow.toml",
        "skills/sow/SKILL.md",
    ];
    for file in files {
        let household = household();
        lead_out(&household, &format!("garden/{file}"));
        let (code, out, err) = household.cli(&["check", "--offline", "--json"]);
        assert_eq!(code, 2, "{file}: {out}{err}");
        assert!(out.contains(&format!("garden/{file}")) && out.contains("found a link"), "{file}: {out}{err}");
        assert!(!out.contains(SECRET) && !err.contains(SECRET), "{file} is told: {out}{err}");
        // Once it is trusted enough to be started, too.
        if ["CLAUDE.md", "butler.toml"].contains(&file) {
            let daemon = household.start().await;
            let garden = daemon.butler("garden").await;
            assert_eq!(garden["state"], "parked", "{file}: {garden}");
            assert!(!daemon.status().await.to_string().contains(SECRET) && !daemon.log().contains(SECRET), "{file}");
        }
    }
    // A whole directory, and what all butlers share.
    let household = household();
    std::fs::create_dir(household.path().join("away")).expect("a directory");
    std::fs::rename(household.path().join("key"), household.path().join("away/grow.sql")).expect("moved");
    symlink(household.path().join("away"), household.roster().join("garden/tools")).expect("a link");
    let (code, out, err) = household.cli(&["check", "--offline"]);
    assert!(code == 2 && out.contains("roster/garden/tools: found a link that leads out"), "{out}{err}");
    assert!(!out.contains(SECRET) && !err.contains(SECRET), "{out}{err}");
    lead_out(&household, "shared/AGENTS.md");
    let (code, out, err) = household.cli(&["check", "--offline"]);
    assert!(code == 2 && out.contains("shared/AGENTS.md: found a link that leads out"), "{out}{err}");
}

#[test]
fn what_is_too_large_is_not_read() {
    let household = household();
    let file = std::fs::File::create(household.roster().join("garden/CLAUDE.md")).expect("a file");
    file.set_len(8 << 20).expect("its size");
    let (code, out, err) = household.cli(&["check", "--offline"]);
    assert!(code == 2 && out.contains("garden/CLAUDE.md: found 8388608 bytes, expected at most 1 MiB"), "{out}{err}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_variable_steers_programs() {
    let names = ["BUTLERD_DATABASE__URL", "LD_PRELOAD", "NODE_OPTIONS", "BASH_ENV", "GIT_SSH_COMMAND", "SSL_CERT_FILE"];
    let list = names.map(|name| format!("\"{name}\"")).join(", ");
    let household = household().replace(
        "garden/butler.toml",
        "[butler.db]",
        &format!("[butler.env]\noptional = [\"HOUSE_COLOUR\", {list}]\n\n[butler.db]"),
    );
    let (code, out, err) = household.cli(&["check", "--offline"]);
    assert_eq!(code, 2, "{out}{err}");
    for name in names {
        assert!(out.contains(&format!("found \"{name}\" (it steers programs")), "{name}: {out}");
    }
    assert!(!out.contains("HOUSE_COLOUR"), "{out}");
    let daemon = household.start().await;
    assert_eq!(daemon.butler("garden").await["state"], "parked");
}
