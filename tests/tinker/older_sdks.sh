#!/usr/bin/env bash
# Runs what tests/tinker_server.rs does with the official SDK once more with others: each version that is given, or the
# last before 0.25 (JSON answers are taken, models are made before checkpoints are loaded), the last before 0.26 and two
# from the middle. Each gets a virtual environment of about 350 MB in target/.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- 0.24.1 0.25.0 0.30.4 0.34.0
for version in "$@"; do
    python=target/tinker-$version/bin/python
    if ! [ "$("$python" -c 'import tinker; print(tinker.__version__)' 2>/dev/null)" = "$version" ]; then
        rm -rf "target/tinker-$version"
        python3 -m venv "target/tinker-$version"
        "$python" -m pip install --quiet --disable-pip-version-check "tinker==$version" numpy
    fi
    echo "tests/tinker/older_sdks.sh: tinker $version"
    TINKER_PYTHON=$PWD/$python cargo test --test it official_sdks
done
echo "tests/tinker/older_sdks.sh: passed with tinker $*"
