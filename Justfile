# Shortcuts for work on this repository. `cargo test` and `cargo run --release -- demo` need none of them.

# Before a command that needs the pinned clients: installs them, and lets a test that left something out fail.
with_clients := 'clients=$(.ci/run clients) && eval "$clients" && BUTLERD_TEST_LEAVE_NOTHING_OUT=1'

# List the recipes.
default:
    @just --list --unsorted

# Run the tests whose name or module contains NAME: `just one due`, `just one webhook --nocapture`. Builds only what has them.
one name *arguments:
    #!/usr/bin/env bash
    set -euo pipefail
    name='{{name}}'
    # A bare `cargo test NAME` builds the tests of every crate. So look first where the name is, as cargo's filter does;
    # cargo leaves the crate out of a test's path, so `schedule::due` is `due`.
    if [[ $name == *::* && -f src/${name%%::*}/Cargo.toml ]]; then name=${name#*::}; fi
    wanted=${name%::tests}
    wanted=${wanted##*::}
    files=$(find src tests/it tests/routing tests/soak -name '*.rs' -exec awk -v wanted="$wanted" '
        FNR == 1 { test = 0; at = FILENAME; sub(/^src\/[^\/]*\/|^tests\/(it\/)?/, "", at); sub(/\.rs$/, "", at); gsub(/\//, "::", at) }
        /^ *#\[(tokio::)?test/ { test = 1; next }
        test && match($0, /fn [a-z0-9_]+/) {
            if (index(at "::" substr($0, RSTART + 3, RLENGTH - 3), wanted)) print FILENAME
            test = 0
        }' {} +)
    if [ -z "$files" ]; then
        echo "No test has \"$name\" in its name or its module. Look for it with: grep -rn 'fn .*$wanted' src tests" >&2
        exit 1
    fi
    crates=()
    for file in $(grep '^src/' <<<"$files" || true); do
        room=${file%/*}
        until [ -f "$room/Cargo.toml" ]; do room=$(dirname "$room"); done
        crate=$(sed -n 's/^name = "\(.*\)"/\1/p' "$room/Cargo.toml" | head -1)
        [[ " ${crates[*]} " == *" $crate "* ]] || crates+=(-p "$crate")
    done
    if [ ${#crates[@]} -gt 0 ]; then (set -x; cargo test --lib "${crates[@]}" "$name" -- {{arguments}}); fi
    if grep -q '^tests/' <<<"$files"; then (set -x; cargo test --test it "$name" -- {{arguments}}); fi

# Run the tests of one crate: `just crate schedule`, or of it those whose name contains a word: `just crate schedule due`.
crate name *arguments:
    cargo test -p {{name}} {{arguments}}

# Run a command again after every change of a file: `just watch`, `just watch just crate schedule`.
watch +command='cargo check':
    #!/usr/bin/env bash
    set -euo pipefail
    watched=(Cargo.toml config roster sql src tests)
    if command -v cargo-watch >/dev/null; then
        exec cargo watch "${watched[@]/#/--watch=}" --shell '{{command}}'
    fi
    stamp=$(mktemp)
    trap 'rm -f "$stamp"' EXIT
    while :; do
        touch "$stamp"
        {{command}} || true
        echo "watch: waiting for a change" >&2
        until [ -n "$(find "${watched[@]}" -type f -newer "$stamp" -print -quit)" ]; do sleep 1; done
    done

# Run all tests. Those with outside clients are left out, and say so, unless you evaluated `.ci/run clients` before.
test *arguments:
    cargo test {{arguments}}

# Check formatting and lints, as the gate does.
check:
    cargo fmt --check
    cargo clippy --all-targets -- -D warnings

# Build the documentation of all crates and open it.
doc:
    cargo doc --workspace --no-deps --open

# Run the gate: lints and all tests, with the pinned outside clients installed beside the clone.
ci:
    .ci/run

# `target/dist/release/` then has the program, the Debian package, which glibc they need, the bill of materials and checksums.
# `BUTLERD_GLIBC_CEILING=2.34` makes it fail on a newer glibc. Takes long, and some GiB of memory, because all crates are
# optimised as one.
# Build the program for people and what is published of it, and say how large all is and which crates its code is of.
dist:
    #!/usr/bin/env bash
    set -euo pipefail
    built=${CARGO_TARGET_DIR:-target}/dist
    cargo build --locked --profile dist --bin butlerd
    mkdir -p "$built/stripped"
    strip -o "$built/stripped/butlerd" "$built/butlerd"
    dist/release "$built/stripped/butlerd" "$built/release"
    just sizes "$built/butlerd"

# Afterwards `target/dist/release/` also has an image for containers, and a compose file that starts it with a database.
# Build what `just dist` builds, and pack it for containers.
image: dist
    #!/usr/bin/env bash
    set -euo pipefail
    built=${CARGO_TARGET_DIR:-target}/dist
    dist/rootfs "$built/debian.tar"
    dist/image "$built/stripped/butlerd" "$built/debian.tar" "$built/release/butlerd-image.tar"
    cp dist/compose.yaml "$built/release/"
    cd "$built/release" && rm SHA256SUMS && LC_ALL=C sha256sum -- * >SHA256SUMS.part && mv SHA256SUMS.part SHA256SUMS

# How much code of a program with symbols is of which crate: `just sizes target/debug/butlerd`. Generic code counts for the crate
# that wrote it, whoever uses it. The house's own crates have a star.
sizes file:
    #!/usr/bin/env bash
    set -euo pipefail
    own=$(for file in Cargo.toml src/*/Cargo.toml; do sed -n 's/^name = "\(.*\)"/\1/p' "$file" | head -1; done | tr - _ | tr '\n' ' ')
    size -A -d '{{file}}' | awk '$1 ~ /^\.(text|rodata|eh_frame|data\.rel\.ro)$/ { printf "%-14s %8d KiB\n", $1, $2 / 1024 }'
    text=$(size -A -d '{{file}}' | awk '$1 == ".text" { print $2 }')
    nm --demangle --print-size --radix=d --defined-only '{{file}}' | awk -v own="$own" -v text="$text" '
        BEGIN { split(own, names, " "); for (n in names) is_own[names[n]] = 1 }
        # Code alone, and what has several names once. A line without a size has its type one column earlier.
        $3 !~ /^[tTwWi]$/ || seen[$1]++ { next }
        {
            name = substr($0, index($0, " " $3 " ") + 3)
            path = index(name, "::")
            # `<&mut dyn a::B as c::D>::e` is of a, `<T as c::D>::e` of c, and what is of no path of core: `<str>::trim`.
            sub(/^[^a-zA-Z_]+/, "", name)
            while (sub(/^(mut|dyn|const) +/, "", name)) { }
            if (match(name, /^[a-z_][a-z0-9_]*::/)) crate = substr(name, 1, RLENGTH - 2)
            else if (match(name, / as [a-z_][a-z0-9_]*::/)) crate = substr(name, RSTART + 4, RLENGTH - 6)
            else crate = path ? "core" : "(C and assembly)"
            bytes[crate] += $2
            all += $2
        }
        END {
            for (crate in bytes) {
                kind = crate in is_own ? "own" : crate ~ /^(core|alloc|std)$/ ? "standard" : "foreign"
                of[kind] += bytes[crate]
                printf "%d %s%s\n", bytes[crate], crate, kind == "own" ? " *" : ""
            }
            printf "%d = own crates\n%d = the standard library\n%d = all others\n", of["own"], of["standard"], of["foreign"]
            printf "%d = code without a symbol that has a size\n", text - all
        }' | sort -rn | awk -v text="$text" '{ printf "%9.1f KiB %5.1f %%  ", $1 / 1024, 100 * $1 / text; $1 = ""; print substr($0, 2) }'

# Show the main job with a scripted model; `just demo --runtime claude-code` uses the real CLI.
demo *arguments:
    cargo run --release -- demo {{arguments}}

# Measure, and print a table beside the floors of the same run. Needs a quiet machine. Exit 1: a target was missed.
bench *arguments:
    cargo bench --bench house -- {{arguments}}

# Draw docs/figures.svg of the runs that are kept in bench/history.jsonl.
bench-plot:
    cargo bench --bench house -- plot

# Score how the real model routes labelled messages. Needs ANTHROPIC_API_KEY.
bench-route file='tests/data/routing.jsonl':
    cargo bench --bench house -- route '{{file}}'

# Measure how much of the conversations in a file memory finds again; tests/bench/recall.rs describes the file.
bench-recall file=env('BUTLERD_EVAL_DATA', ''):
    cargo bench --bench house -- recall '{{file}}'

# 200 rounds of a random fault of the machine or the model (`CHAOS_SEED`), a day of 50,000 messages under a moved clock,
# 10,000 messages under 50 kills, 1,000 deliveries under 20, a database that is away for 20 s and for 5 minutes, 10,000
# operations of memory, 1,000 days of a journal in each of three zones, 1,000 days of a calendar that two sides edit
# (`DAV_DAYS`, `DAV_SEED`) and of one that the household and another program edit at a real server (`CALENDAR_DAYS`,
# `CALENDAR_SEED`), 1,000 reloads of a butler with 20,000 memories, 10,000 days of schedules, a thousand sessions that
# misbehave. `STORM_MESSAGES`, `STORM_KILLS`, `NOTIFIES`, `NOTIFY_KILLS` and `STORM_SEED` change the numbers; `STORM_TELL=1`
# shows the progress.
# What a dead daemon held is taken up by another with leases of 30 s (`RECOVERY_LEASE`).
# A household at rest for twice 5 minutes on a disk (`IDLE_SECONDS`), with the promised share of a core.
# Each flood for 8 minutes, with the promised times (`FLOOD_SECONDS`); the generators of attacks and of
# lattice programs (`BUTLERD_TEST_CASES`, `BUTLERD_TEST_PROGRAMS`).
# The calendar's days need the server that `.ci/run clients` installs, and fail where it is missing. So do 500 events that
# repeat, which are compared with Python's library: the gate has the same each time, here `RECURRENCE_SEED` or the clock
# chooses others.
# Run for about three hours what `cargo test` does for seconds.
soak:
    STORM_MESSAGES=${STORM_MESSAGES:-10000} STORM_KILLS=${STORM_KILLS:-50} cargo test --test it inbound_storm -- --nocapture
    NOTIFIES=${NOTIFIES:-1000} NOTIFY_KILLS=${NOTIFY_KILLS:-20} cargo test --test it delivery_storm -- --nocapture
    MEMORY_OPS=${MEMORY_OPS:-10000} cargo test --test it memory_tenants
    JOURNAL_DAYS=${JOURNAL_DAYS:-1000} cargo test --test it journal_days -- --nocapture
    RELOADS=${RELOADS:-1000} MEMORIES=${MEMORIES:-20000} cargo test --test it reload_memory -- --nocapture
    CHAOS_ROUNDS=${CHAOS_ROUNDS:-200} CHAOS_SECONDS=${CHAOS_SECONDS:-60} cargo test --test it chaos -- --nocapture
    DAY_MESSAGES=${DAY_MESSAGES:-50000} cargo test --test it day_of_messages -- --nocapture
    CUT_SECONDS=20 cargo test --test it inbound_database
    CUT_SECONDS=300 cargo test --test it inbound_database
    DAV_DAYS=${DAV_DAYS:-1000} cargo test -p dav many_days -- --nocapture
    {{with_clients}} BUTLERD_TEST_SEED=${RECURRENCE_SEED:-$(date +%s)} cargo test --test it calendar_recurrence -- --nocapture
    {{with_clients}} CALENDAR_DAYS=${CALENDAR_DAYS:-1000} cargo test --test it calendar_days -- --nocapture
    SCHEDULE_DAYS=${SCHEDULE_DAYS:-10000} cargo test --release -p schedule due
    BUTLERD_TEST_GROUND=${BUTLERD_TEST_GROUND:-/var/tmp} IDLE_SECONDS=${IDLE_SECONDS:-300} cargo test --release --test it idle_day::at_rest -- --nocapture
    FLOOD_SECONDS=${FLOOD_SECONDS:-480} cargo test --release --test it -- floods --nocapture --test-threads 1
    BUTLERD_TEST_CASES=${BUTLERD_TEST_CASES:-300} BUTLERD_TEST_PROGRAMS=${BUTLERD_TEST_PROGRAMS:-10000} cargo test --test it -- ratchet injections lattice --nocapture
    CHANNEL_ROUNDS=${CHANNEL_ROUNDS:-30} CHANNEL_MESSAGES=${CHANNEL_MESSAGES:-500} HOSTILE_LETTERS=${HOSTILE_LETTERS:-10000} cargo test --test it -- under_a_load hostile_letters --nocapture --test-threads 1
    RECOVERY_LEASE=${RECOVERY_LEASE:-30} RECOVERY_SLACK=5 RECOVERY_WITHIN=2 cargo test --test it dead_daemons:: -- --nocapture --test-threads=1
    COUNCIL_QUESTIONS=${COUNCIL_QUESTIONS:-100} cargo test --test it judges_never_see_a_name -- --nocapture
    BENCH_ONLY=soak cargo bench --bench house

# Write config/butlerd.toml again from the settings' documentation in the code.
config:
    BLESS=1 cargo test -p config tests::defaults
    git diff --stat -- config/butlerd.toml

# Write the lists of tools in AGENTS.md of the shipped butlers again, from the tools' headers. Those that are compiled in come
# from docs/reference/tools.md, so `just docs` comes first.
tool-lists:
    BLESS=1 cargo test --test it shipped
    git diff --stat -- roster

# Make the pages and the recording in docs/ that come from the code: settings, commands, tools, demo.svg.
docs:
    BLESS=1 cargo test --test it docs::
    git diff --stat -- docs

# Build the book of docs/ into target/book, with the pinned mdBook that the gate uses.
book:
    .ci/run book

# Needs pg_dump. From the state that it adds to tests/data/upgrades/ all later programs are to upgrade; every release adds one.
# Record what a released program leaves in its database: `just upgrade-state target/dist/stripped/butlerd 0.2.0`.
upgrade-state program name:
    python3 tests/data/upgrades/record.py '{{program}}' '{{name}}'

# Adds new migrations to sql/CHECKSUMS. Listed ones may not change, and from sql/INITIAL on the tests look at each commit.
checksums:
    #!/usr/bin/env bash
    set -euo pipefail
    cd sql
    # The order of the test in src/store/migrate.rs: by directory, then by name, whatever the locale.
    LC_ALL=C sha256sum */*.sql > CHECKSUMS.new
    lost=$(git show HEAD:./CHECKSUMS | grep --invert-match --line-regexp --fixed-strings --file CHECKSUMS.new || true)
    if [ -n "$lost" ]; then
        rm CHECKSUMS.new
        printf 'changed or gone; add a migration instead:\n%s\n' "$lost" >&2
        exit 1
    fi
    mv CHECKSUMS.new CHECKSUMS
