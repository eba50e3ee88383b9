#!/usr/bin/env bash
# tinker-cookbook's own loops against Fulgurite's Tinker server, by hand: no part of tests/run, because they need PyTorch.
#
#     tests/tinker/cookbook.sh [PYTHON]
#
# PYTHON has tinker-cookbook[math-rl] 0.5.8 and torch; without one, target/cookbook is made with them (about 6 GB). Everything else is
# written to a fresh directory, which is named at the end: a model of one or two hundred thousand parameters that adds
# two digits when it feels like it, which it does twice in five, a server for it, and the cookbook's logs.
#
# Expected, each said in a line and checked:
# - forward_backward_custom: a squared distance that is computed in PyTorch shrinks to less than a quarter in 20 steps;
# - supervised: the cookbook's supervised loop brings the mean negative logprob of right answers down by a fifth or more;
# - arithmetic: the recipe, with sums of digits and full fine-tuning, raises the mean reward by 0.2 or more in 50 steps, by
#   importance_sampling (seen: from 0.50 in the first four to 0.90 in the last four) and by its own default, stable_reinforce,
#   for which CISPO stands in (seen: from 0.45 to 0.88).
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:-target/cookbook/bin/python}
if ! "$python" -c 'import math_verify, tinker_cookbook, torch' 2>/dev/null; then
    [ $# -eq 0 ] || { echo "cookbook.sh: $python has no tinker-cookbook[math-rl] and torch" >&2; exit 1; }
    python3 -m venv target/cookbook
    # The newest asks for a tml-renderers that is not published, and works with the one that is.
    "$python" -m pip install --quiet --disable-pip-version-check 'tinker-cookbook[math-rl]==0.5.8' torch
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps tinker-cookbook==0.6.1
fi
python=$(realpath -s "$python")
fulgurite=$PWD/target/debug/fulgurite
[ -x "$fulgurite" ] || cargo build --bin fulgurite

directory=$(mktemp -d)
cp tests/tinker/cookbook/* "$directory"
cd "$directory"
echo "cookbook.sh: everything is in $directory"
python3 corpus.py > corpus.jsonl
PATH=$(dirname "$fulgurite"):$PATH "$fulgurite" train base.toml > base.log 2>&1 || { tail -n 5 base.log >&2; exit 1; }
"$fulgurite" serve --listen 127.0.0.1:0 --ready-file ready.json --model adder=embedded:models/adder > serve.log 2>&1 &
server=$!
trap 'kill $server' EXIT
until [ -s ready.json ]; do
    kill -0 $server 2>/dev/null || { cat serve.log >&2; exit 1; }
    sleep 0.2
done
url=$(python3 -c 'import json; print(json.load(open("ready.json"))["url"])')
export TINKER_API_KEY=tml-any TINKER_BASE_URL=$url TINKER_TELEMETRY=0 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
"$python" drive.py "$url" "$directory/models/adder" "$directory/logs" 2> drive.log || { tail -n 30 drive.log >&2; exit 1; }
echo "cookbook.sh: as expected"
