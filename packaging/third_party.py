#!/usr/bin/env python3
"""Writes THIRD-PARTY.md: what others wrote of the program, and under which licences.

    packaging/third_party.py            writes it
    packaging/third_party.py --check    fails where it is not up to date

Both fail where a licence is none of those that the program may be shipped with. Counted are the packages that are linked
into the program on any of its targets; what runs only while it is built (build scripts, procedural macros) is not in it.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent
LISTING = HOUSE / "THIRD-PARTY.md"
PAGE = HOUSE / "dashboard/web/package-lock.json"
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]

# Licences that ask for no more than to be named.
ALLOWED = {
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0",
    "CDLA-Permissive-2.0", "ISC", "MIT", "Unicode-3.0", "Unlicense", "Zlib",
}

# C and C++ that packages bring along, which their own licence says nothing of.
BUNDLED = {
    "libsqlite3-sys": "SQLite, in the public domain",
    "libmimalloc-sys": "mimalloc, MIT",
}

HEADING = """# What others wrote

Fulgurite itself is under the MIT licence or the Apache licence 2.0, as you choose ([LICENSE-MIT](LICENSE-MIT),
[LICENSE-APACHE](LICENSE-APACHE)). Linked into the program are these packages of others, each under its own licence. The
list is made by `packaging/third_party.py` from `Cargo.lock`, and from `dashboard/web/package-lock.json` for the page.

| package | version | licence |
|---|---|---|
"""


class Refused(Exception):
    """A licence that the program cannot be shipped with."""


def allowed(expression):
    """Whether what an SPDX expression asks for can be had with allowed licences alone.

    >>> [allowed(text) for text in ("MIT", "MIT OR GPL-3.0", "GPL-2.0-only OR (MIT AND ISC)", "MIT/Apache-2.0")]
    [True, True, True, True]
    >>> [allowed(text) for text in ("GPL-3.0", "MIT AND LGPL-2.1", "AGPL-3.0-or-later OR GPL-3.0", "MIT AND (GPL-2.0)")]
    [False, False, False, False]
    >>> [allowed(text) for text in ("Apache-2.0 WITH LLVM-exception OR MIT", "GPL-2.0 WITH Classpath-exception-2.0", "")]
    [True, False, False]
    """
    words = re.findall(r"[()]|[\w.+-]+(?: WITH [\w.-]+)?", expression.replace("/", " OR "))

    def either():
        result = both()
        while words and words[0] == "OR":
            words.pop(0)
            result = both() or result
        return result

    def both():
        result = one()
        while words and words[0] == "AND":
            words.pop(0)
            result = one() and result
        return result

    def one():
        word = words.pop(0) if words else ""
        if word != "(":
            return word in ALLOWED
        result = either()
        return words != [] and words.pop(0) == ")" and result

    return either() and not words


def linked(target):
    """The packages of others that are linked into the program on a target."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    metadata = json.loads(subprocess.run(command, cwd=HOUSE, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    reached, waiting = set(), [metadata["resolve"]["root"]]
    while waiting:
        package = waiting.pop()
        if package in reached or any("proc-macro" in part["kind"] for part in packages[package]["targets"]):
            continue
        reached.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return [packages[package] for package in reached if packages[package]["source"]]


def in_page():
    """The packages of npm's that are in the page; what only builds it is not."""
    packages = json.loads(PAGE.read_text())["packages"]
    shipped = {path: package for path, package in packages.items() if path and not package.get("dev")}
    return [{"name": path.removeprefix("node_modules/"), **package} for path, package in shipped.items()]


def listing():
    """The text of THIRD-PARTY.md."""
    rows = set()
    for package in [package for target in TARGETS for package in linked(target)] + in_page():
        name, version, licence = package["name"], package["version"], package["license"] or ""
        if not allowed(licence):
            raise Refused(f"{name} {version} is under {licence or 'no licence that it names'}")
        licence = licence.replace("/", " OR ").replace("  ", " ")
        bundled = f"; brings {BUNDLED[name]}" if name in BUNDLED else ""
        rows.add((name.lower(), f"| {name} | {version} | {licence}{bundled} |\n"))
    return HEADING + "".join(row for _, row in sorted(rows))


def main():
    try:
        text = listing()
    except Refused as refused:
        sys.exit(f"third_party.py: {refused}, with which the program cannot be shipped")
    if "--check" not in sys.argv[1:]:
        LISTING.write_text(text)
    elif not LISTING.exists() or LISTING.read_text() != text:
        sys.exit("third_party.py: THIRD-PARTY.md is not up to date; packaging/third_party.py writes it")


if __name__ == "__main__":
    main()
