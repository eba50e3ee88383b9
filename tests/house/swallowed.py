#!/usr/bin/env python3
"""Finds JSON and files that are read with `unwrap_or_default`, so that a fault looks like nothing.

    python3 tests/house/swallowed.py --check    lists the places, and fails if there are any

A place with a comment in the line above says why nothing is right there, and is left out. So are tests.
"""

import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
READ = r"(?:serde_json::(?:from|to)_\w+|fs::(?:read|read_to_string|read_dir|metadata)|read_text)"
# From the reading to the end of its statement, over the lines between.
SWALLOWED = re.compile(READ + r"(?:::<[^;]*?>)?\((?:(?!\.ok\(\))[^;{}])*?\.unwrap_or_default\(\)")
TESTS = re.compile(r"(^|/)(tests?|testing|fuzz|bench)(/|\.rs$)")


def places(text):
    """The numbers of the lines at which `text`, a file of Rust, swallows a fault."""
    before_tests = text.split("#[cfg(test)]\nmod tests {")[0]
    lines = before_tests.split("\n")
    for found in SWALLOWED.finditer(before_tests):
        number = before_tests.count("\n", 0, found.start()) + 1
        if number < 2 or not lines[number - 2].lstrip().startswith("// "):
            yield number


def main():
    files = subprocess.run(["git", "ls-files", "*.rs"], cwd=HOUSE, capture_output=True, text=True, check=True).stdout
    found = []
    for name in files.split():
        if not TESTS.search(name) and (HOUSE / name).is_file():
            found += [f"{name}:{number}" for number in places((HOUSE / name).read_text())]
    for place in found:
        print(f"{place}: a fault becomes nothing here; handle it, or say why above")
    return 1 if found and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
