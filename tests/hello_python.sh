#!/usr/bin/env bash
# The whole hello run with the official `openai` package as the agent, and then the same seed with the agent in Rust.
# Both must end in the same weights: same seeds and prompts give the same tokens, whoever asks.
#
# Not part of the tests: importing `openai` costs half a second of processor time in each of some 6,000 rollouts.
# usage: tests/hello_python.sh [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."
seed=${1:-2}

python=$PWD/target/python/bin/python
if ! "$python" -c 'import openai' 2>/dev/null; then
    python3 -m venv target/python
    "$python" -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
fi
cargo build --release

runs=$(mktemp -d)
train() {
    target/release/fulgurite train examples/hello/hello.toml --seed "$seed" --run-directory "$runs/$1" --json "${@:2}" |
        tail -n 1 >"$runs/$1.json"
    cat "$runs/$1.json"
}
train rust
train python -- "$python" "$PWD/examples/hello/agent.py" '{task}'

weights() { echo "$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["checkpoint"])' "$runs/$1.json")/model.safetensors"; }
cmp "$(weights rust)" "$(weights python)"
echo "the same weights: $(weights python)"
