#!/usr/bin/env python3
"""Writes THIRD-PARTY.md: what others wrote of the program, and under which licences.

    packaging/third_party.py            writes it
    packaging/third_party.py --check    fails where it is not up to date

Which licences of crates the program may be shipped with is in `deny.toml`, which `cargo deny check licenses` reads; those of
the page's packages are here. Counted are the packages that are linked into the program on any of its targets; what runs only
while it is built (build scripts, procedural macros) is not in it.
"""

import json
import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent.parent
LISTING = HOUSE / "THIRD-PARTY.md"
PAGE = HOUSE / "dashboard/web/package-lock.json"
# Licences of the page's packages.
ALLOWED_IN_PAGE = {"Apache-2.0", "BSD-3-Clause", "ISC", "MIT"}
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]

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
    for path, package in shipped.items():
        if package.get("license") not in ALLOWED_IN_PAGE:
            sys.exit(f"third_party.py: {path} is under {package.get('license')}, which is none of {sorted(ALLOWED_IN_PAGE)}")
    return [{"name": path.removeprefix("node_modules/"), **package} for path, package in shipped.items()]


def listing():
    """The text of THIRD-PARTY.md."""
    rows = set()
    for package in [package for target in TARGETS for package in linked(target)] + in_page():
        name, version, licence = package["name"], package["version"], package["license"] or "none that it names"
        licence = licence.replace("/", " OR ").replace("  ", " ")
        bundled = f"; brings {BUNDLED[name]}" if name in BUNDLED else ""
        rows.add((name.lower(), f"| {name} | {version} | {licence}{bundled} |\n"))
    return HEADING + "".join(row for _, row in sorted(rows))


def main():
    text = listing()
    if "--check" not in sys.argv[1:]:
        LISTING.write_text(text)
    elif not LISTING.exists() or LISTING.read_text() != text:
        sys.exit("third_party.py: THIRD-PARTY.md is not up to date; packaging/third_party.py writes it")


if __name__ == "__main__":
    main()
