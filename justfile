# The commands of everyday work.

# What tells most in a few minutes, before a commit: all but the longest tests.
quick:
    cargo fmt --all --check && cargo clippy --all-targets -- -D warnings && cargo test --workspace --lib && cargo test --test end_to_end -- --skip kill_points:: --skip crashes:: --skip adversaries:: --skip verification:: --skip no_mistake

# Everything that CI checks.
ci:
    .ci/run

test *ARGS:
    cargo test {{ARGS}}

# New random events to version 0.1.0 and to the program of today; `just differ record` keeps traces.
differ *ARGS:
    tests/differ/run {{ARGS}}

# New mutated inputs for so many minutes; what fails is kept in fuzz/corpus.
fuzz MINUTES="10":
    PHASEGATE_FUZZ_MINUTES={{MINUTES}} cargo test --test fuzz -- --nocapture --test-threads 16

lint:
    cargo fmt --all --check && cargo clippy --all-targets -- -D warnings

demo:
    cargo run -- demo

# Instructions of a hook, against their budgets.
budgets:
    cargo bench --profile dist --bench instructions

# Instructions with a short and with a long history: they must be the same.
growth:
    cargo bench --profile dist --bench growth

# Times of a hook beside a shell script and a Node script, in one run.
perf:
    cargo bench --profile dist --bench ratios --bench trees --bench fleet

# The JSON schema of definitions, after a change of their types.
schema:
    cargo run -q -- schema > workflows/workflow.schema.json

deny:
    cargo deny check licenses bans sources

# Everything that a release has, from one binary, in target/dist-VERSION.
dist *ARGS:
    packaging/dist {{ARGS}}

# How much the page adds to what is shipped: two links.
page-size:
    packaging/page-size

# The picture in the README, from a session with the real client.
picture:
    PHASEGATE_TEST_CLAUDE=install PHASEGATE_UPDATE_PICTURE=1 cargo test --test claude picture

# The pictures of the page, from a real browser.
pictures:
    cargo build && tests/web/run target/*/debug/phasegate docs/pictures
