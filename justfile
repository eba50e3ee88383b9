# `just` lists these, `just test harvest` runs one. Each is a line that can be typed without just.

_default:
    @just --list --unsorted

# the command, and the programs that the examples start
build:
    cargo build

# every test, or those with these words in their names
test *names:
    tests/run {{ names }}

# formatting, lints
lint:
    cargo fmt --all --check
    tests/lint
    cargo clippy --workspace --all-targets -- -D warnings

# the dashboard's files, from dashboard/web
page:
    cd dashboard/web && { [ -d node_modules ] || npm ci; } && npm run build

# what a call, a step, the store or the page cost: `just bench proxy`
bench *arguments:
    cargo build --release
    cargo run --release -p fulgurite-bench -- {{ arguments }}

# tests that need real model servers, PyTorch or hours: `just long --list`
long *names:
    tests/long/run {{ names }}
