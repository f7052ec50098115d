# What one does in this repository. `cargo test` and `cargo run --release -- demo` need none of it.

# The list of recipes.
default:
    @just --list --unsorted

# All tests. Those with outside clients are left out, and say so, unless `.ci/run clients` was evaluated before.
test *arguments:
    cargo test {{arguments}}

# Formatting and lints, as the gate demands them.
check:
    cargo fmt --check
    cargo clippy --all-targets -- -D warnings

# The gate: check and all tests, with the pinned clients of others installed outside of the clone.
ci:
    .ci/run

# Shows the main job with a scripted model; `just demo --runtime claude-code` with the real CLI.
demo *arguments:
    cargo run --release -- demo {{arguments}}

# Measures, and prints a table beside the floors of the same run. Wants a quiet machine.
bench *arguments:
    cargo bench --bench house -- {{arguments}}

# Scores the routing of labelled messages by the real model; it needs ANTHROPIC_API_KEY.
bench-route file='tests/data/routing.jsonl':
    cargo bench --bench house -- route '{{file}}'

# Measures how much of the conversations in a file memory finds again; see tests/bench/recall.rs for its form.
bench-recall file=env('BUTLERD_EVAL_DATA', ''):
    cargo bench --bench house -- recall '{{file}}'

# The long forms of what `cargo test` does for seconds: 10,000 messages under 50 kills, 1,000 deliveries under 20, a
# database that is away for 20 s and for 5 minutes, 10,000 operations of memory, 10,000 days of schedules, a thousand sessions that misbehave. About
# two hours; `STORM_MESSAGES`, `STORM_KILLS`, `NOTIFIES`, `NOTIFY_KILLS` and `STORM_SEED` say otherwise, and
# `STORM_TELL=1` shows how far it is.
soak:
    STORM_MESSAGES=${STORM_MESSAGES:-10000} STORM_KILLS=${STORM_KILLS:-50} cargo test --test it inbound_storm -- --nocapture
    NOTIFIES=${NOTIFIES:-1000} NOTIFY_KILLS=${NOTIFY_KILLS:-20} cargo test --test it delivery_storm -- --nocapture
    MEMORY_OPS=${MEMORY_OPS:-10000} cargo test --test it memory_tenants
    CUT_SECONDS=20 cargo test --test it inbound_database
    CUT_SECONDS=300 cargo test --test it inbound_database
    SCHEDULE_DAYS=${SCHEDULE_DAYS:-10000} cargo test --release -p schedule due
    BENCH_ONLY=soak cargo bench --bench house

# Writes config/butlerd.toml anew from the settings' documentation in the code.
config:
    BLESS=1 cargo test -p config tests::defaults
    git diff --stat -- config/butlerd.toml

# Adds new migrations to sql/CHECKSUMS. Listed ones may not change; `just checksums all` while none has shipped.
checksums which='new':
    #!/usr/bin/env bash
    set -euo pipefail
    cd sql
    # The order of the test in src/store/migrate.rs: by directory, then by name, whatever the locale.
    LC_ALL=C sha256sum */*.sql > CHECKSUMS.new
    lost=$(git show HEAD:./CHECKSUMS | grep --invert-match --line-regexp --fixed-strings --file CHECKSUMS.new || true)
    if [ '{{which}}' != all ] && [ -n "$lost" ]; then
        rm CHECKSUMS.new
        printf 'changed or gone; add a migration instead:\n%s\n' "$lost" >&2
        exit 1
    fi
    mv CHECKSUMS.new CHECKSUMS
