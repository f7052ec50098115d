//! Which variables of the daemon's environment a butler may have for its sessions.
//!
//! The rule: a butler's variable is a word for its own skills, such as `HOUSE_COLOUR`. None steers a program: not butlerd,
//! not the loader, a shell, an interpreter or a library that the session's program brings along, and not where that
//! program finds its model, its certificates or its proxy. Nor is one a key that the gateway keeps out of children, or a
//! login of the database. What steers is told by its name: the lists below have the names, and the beginnings, that those
//! programs read.

/// What butlerd makes anew for each session.
const OWN: [&str; 6] = ["BUTLER_TOKEN", "HOME", "MCP_SERVERS", "PATH", "TMPDIR", "TRACEPARENT"];

/// Whole names.
const STEERING: [&str; 48] = [
    "BASHOPTS",
    "BROWSER",
    "CDPATH",
    "CLAUDECODE",
    "EDITOR",
    "ENV",
    "GETCONF_DIR",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HOSTALIASES",
    "ICU_DATA",
    "IFS",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "KRB5_CONFIG",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LOCALDOMAIN",
    "LOCPATH",
    "LOGS_DIRECTORY",
    "LOGNAME",
    "NLSPATH",
    "NOTIFY_SOCKET",
    "PAGER",
    "PROMPT_COMMAND",
    "PS4",
    "REQUESTS_CA_BUNDLE",
    "RES_OPTIONS",
    "RUNTIME_DIRECTORY",
    "SHELL",
    "SHELLOPTS",
    "SHLVL",
    "SSLKEYLOGFILE",
    "STATE_DIRECTORY",
    "TEMP",
    "TERMCAP",
    "TERMINFO",
    "TMP",
    "TZDIR",
    "USER",
    "VISUAL",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "ZDOTDIR",
    "CACHE_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
    "FPATH",
];

/// Beginnings of names.
const FAMILIES: [&str; 46] = [
    "ANTHROPIC_",
    "ASAN_",
    "BASH_",
    "BUN_",
    "BUTLERD_",
    "CARGO_",
    "CLAUDE_",
    "CODEX_",
    "CREDENTIALS_",
    "CURL_",
    "DENO_",
    "DOTNET_",
    "DYLD_",
    "GCONV_",
    "GEMINI_",
    "GIT_",
    "GLIBC_",
    "GOOGLE_CLOUD_",
    "GOOGLE_GEMINI_",
    "GOOGLE_GENAI_",
    "GOOGLE_VERTEX_",
    "JAVA_",
    "JDK_JAVA_",
    "LC_",
    "LD_",
    "LUA_",
    "MALLOC_",
    "MCP_",
    "NIX_",
    "NODE_",
    "NPM_",
    "NSS_",
    "OLLAMA_",
    "OPENAI_",
    "OPENSSL_",
    "OTEL_",
    "PERL",
    "PHP_",
    "PYTHON",
    "RUBY",
    "RUST_",
    "SSH_",
    "SSL_",
    "SYSTEMD_",
    "XDG_",
    "_JAVA_",
];

/// Ends of names.
const ENDS: [&str; 3] = ["_PRELOAD", "_PROXY", "_CA_CERTS"];

/// Why a butler may not have this variable; `None`: it may.
pub(super) fn refusal(name: &str) -> Option<&'static str> {
    if OWN.contains(&name) {
        return Some("butlerd makes this one itself for each session");
    }
    // The database's client library reads `PGHOST`, `PGPASSWORD` and the like.
    let database = name.starts_with("PG") && !name.contains('_');
    let steers = STEERING.contains(&name)
        || FAMILIES.iter().any(|begin| name.starts_with(begin))
        || ENDS.iter().any(|end| name.ends_with(end));
    (database || steers).then_some("it steers programs or is a key that sessions don't get")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_is_refused_and_what_is_a_word_is_not() {
        for name in [
            "BUTLERD_DATABASE__URL",
            "LD_PRELOAD",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "PATH",
            "NODE_OPTIONS",
            "NODE_EXTRA_CA_CERTS",
            "BASH_ENV",
            "ENV",
            "GIT_SSH_COMMAND",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "NO_PROXY",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_API_KEY",
            "OPENAI_BASE_URL",
            "GOOGLE_GEMINI_BASE_URL",
            "PYTHONSTARTUP",
            "PERL5OPT",
            "RUBYOPT",
            "PGPASSWORD",
            "CREDENTIALS_DIRECTORY",
            "GLIBC_TUNABLES",
            "OPENSSL_CONF",
            "_JAVA_OPTIONS",
        ] {
            assert!(refusal(name).is_some(), "{name}");
        }
        for name in ["HOUSE_COLOUR", "BUTLER_TELEGRAM_TOKEN", "GOOGLE_CALENDAR_TOKEN", "PGP_KEY", "HOME_ASSISTANT_URL"]
        {
            assert_eq!(refusal(name), None, "{name}");
        }
    }
}
