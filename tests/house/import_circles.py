#!/usr/bin/env python3
"""Finds circles of imports inside each crate, of files and of folders.

    import_circles.py            prints what lies in circles of folders, with the thin arrows to cut
    import_circles.py --files    the same of files
    import_circles.py --check    fails where a crate has another number of places in circles than ALLOWED, or where
                                 a folder has what PURE forbids it

Folders of a crate lie in strata: none imports one above it. A place is a folder or a single file at the top of `src/`.
Imports are read as text, from `use` declarations and from paths that begin with `crate`, `super` or `self`. What is
only there for tests is left out, as are `lib.rs` and `main.rs`, which put everything together.
"""
import collections
import re
import subprocess
import sys
from pathlib import Path

# Places in circles of folders that a crate may still have; every other crate has none. It may only go down.
ALLOWED = {}

# Folders that only turn values into values: the places of their crate that they may not import, and what else they may
# not name. What they need of those is handed in as a value.
PURE = {
    ("proxy", "dialects"): (
        {"attempt", "call", "clock", "models", "observe", "options", "parts", "proxy", "retries", "state"},
        r"\b(?:fulgurite_store|tokio|async|Store|Sampler|Instant|SystemTime)\b|\b(?:now|now_v7|new_v4)(?=\()",
    ),
}


def blanked(text):
    """The text without its comments and what stands in its literals.

    >>> blanked('use a; // use b;')
    'use a; '
    >>> blanked('let quote = "use \\\\"b\\\\";"; let brace = \\'{\\'; /* { */ f::<\\'a>()')
    'let quote = ""; let brace = ""; f::<\\'a>()'
    >>> blanked('let raw = r#"use "b";"#;')
    'let raw = "";'
    """
    token = re.compile(
        r"""//[^\n]*|/\*.*?\*/[ ]?|\bb?r(?P<marks>\#*)".*?"(?P=marks)|b?"(?:\\.|[^"\\])*\""""
        r"""|b?'(?:\\[^\n]+?|[^\\'\n])'""",
        re.S,
    )
    return token.sub(lambda found: "" if found.group().startswith("/") else '""', text)


def without_tests(text):
    """The blanked text without its items for tests.

    >>> without_tests('use a::b; #[cfg(test)] mod tests { use c::d; fn e() {} } use f::g;')
    'use a::b;  use f::g;'
    >>> without_tests('#[cfg(test)] use a::{b, c}; use d::e;')
    ' use d::e;'
    """
    kept, start = [], 0
    for attribute in re.finditer(r"#\[cfg\(test\)\]", text):
        if attribute.start() < start:
            continue
        kept.append(text[start : attribute.start()])
        depth, place = 0, attribute.end()
        while place < len(text):
            letter, place = text[place], place + 1
            depth += letter in "{[("
            depth -= letter in ")]}"
            if depth == 0 and letter in ";}" and not re.match(r"\s*;", text[place:]):
                break
        start = place
    return "".join(kept) + text[start:]


def branches(tree):
    """The paths of one `use` tree.

    >>> branches("crate::a::{self, b::{C, D as E}, f}")
    [['crate', 'a'], ['crate', 'a', 'b', 'C'], ['crate', 'a', 'b', 'D'], ['crate', 'a', 'f']]
    """
    head, brace, rest = tree.strip().partition("{")
    path = [part.strip() for part in head.split(" as ")[0].split("::") if part.strip()]
    if not brace:
        return [path[:-1] if path[-1:] == ["self"] and len(path) > 1 else path]
    items, depth = [""], 0
    for letter in rest[: rest.rindex("}")]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    found = [path + branch for item in items if item.strip() for branch in branches(item)]
    return [branch[:-1] if branch[-1] == "self" else branch for branch in found]


class Crate:
    """The sources of one crate, each module with its file."""

    def __init__(self, source, files):
        self.source = source
        self.texts = {file: without_tests(blanked((source / file).read_text("utf-8"))) for file in files}
        self.modules = {module_of(file): file for file in files}
        self.exported = {}
        for module, file in self.modules.items():
            for use in re.finditer(r"\bpub(?:\([^)]*\))?\s+use\s+([^;]+);", self.texts[file]):
                for path in branches(use.group(1)):
                    if whole := self.absolute(path, module):
                        self.exported[(*module, path[-1])] = whole

    def absolute(self, path, module):
        """A path from the crate's root on; none if it leads out of the crate."""
        if path[0] == "crate":
            return tuple(path[1:])
        if path[0] in ("self", "super"):
            base = list(module)
            while path and path[0] in ("self", "super"):
                base, path = (base[:-1] if path[0] == "super" else base), path[1:]
            return (*base, *path)
        return (*module, *path) if (*module, path[0]) in self.modules else None

    def is_inside(self, path, module):
        return (whole := self.absolute(path, module)) is not None and whole[: len(module)] == module

    def file_of(self, path, seen=frozenset()):
        """The file in which an item is declared, wherever it is exported from."""
        for length in range(len(path), 0, -1):
            target = self.exported.get(path[:length])
            if not target or path[:length] in seen:
                continue
            if found := self.file_of((*target, *path[length:]), seen | {path[:length]}):
                return found
        return next((self.modules[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.modules), None)

    def imports(self):
        """For each file, the files that it imports."""
        graph = {file: set() for file in self.texts}
        for module, file in self.modules.items():
            # What a module only hands on from modules inside it is no import.
            uses = re.finditer(r"(?P<public>\bpub(?:\([^)]*\))?\s+)?\buse\s+(?P<tree>[^;]+);", self.texts[file])
            named = ((use, path) for use in uses for path in branches(use["tree"]))
            paths = [path for use, path in named if not (use["public"] and self.is_inside(path, module))]
            paths += [path.split("::") for path in re.findall(r"\b(?:crate|super|self)(?:::\w+)+", self.texts[file])]
            wholes = {self.absolute(path, module) for path in paths if path}
            graph[file] = {self.file_of(whole) for whole in wholes if whole} - {file, None, "lib.rs", "main.rs"}
        return {file: others for file, others in graph.items() if file not in ("lib.rs", "main.rs")}


def module_of(file):
    parts = file.removesuffix(".rs").split("/")
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts)


def place_of(file):
    """
    >>> place_of("call/plan.rs"), place_of("error.rs")
    ('call', 'error')
    """
    return file.split("/")[0].removesuffix(".rs")


def places(imports):
    """The imports between places, each with the files that it is made of."""
    arrows = collections.defaultdict(lambda: collections.defaultdict(list))
    for file, others in imports.items():
        arrows[place_of(file)]
        for other in sorted(others):
            if place_of(other) != place_of(file):
                arrows[place_of(file)][place_of(other)].append((file, other))
    return arrows


def circles(graph):
    """The greatest sets of nodes that all reach each other, without single nodes.

    >>> circles({"a": ["b"], "b": ["c"], "c": ["b"], "d": []})
    [['b', 'c']]
    """

    def reached(start, edges):
        found, waiting = set(), [start]
        while waiting:
            for other in edges.get(waiting.pop(), ()):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return found

    back = collections.defaultdict(list)
    for node, others in graph.items():
        for other in others:
            back[other].append(node)
    found, done = [], set()
    for node in sorted(graph):
        circle = reached(node, graph) & reached(node, back)
        if node not in done and len(circle) > 1:
            found.append(sorted(circle))
        done |= circle
    return sorted(found, key=len, reverse=True)


def crates(root):
    """Each crate's folder, with its sources."""
    git = ["git", "-C", root, "ls-files", "-co", "--exclude-standard"]
    listed = [file for file in subprocess.check_output(git, text=True).splitlines() if (root / file).exists()]
    for manifest in sorted(file for file in listed if Path(file).name == "Cargo.toml"):
        folder = Path(manifest).parent
        source = folder / "src"
        files = [file for file in listed if file.startswith(f"{source}/") and file.endswith(".rs")]
        files = [file.removeprefix(f"{source}/") for file in files]
        files = [file for file in files if not re.search(r"(^|/)tests(/|\.rs$)|tests\.rs$", file)]
        if files:
            yield str(folder if folder.name else source), Crate(root / source, files)


def impurities(folder, imports, texts, places_above, words):
    """What a folder imports or names although it shall be pure.

    >>> texts = {"a/b.rs": "use c::Store; let at = now();", "a/d.rs": "", "e.rs": "now()"}
    >>> impurities("a", {"a/b.rs": [], "a/d.rs": ["e.rs", "f/g.rs"], "e.rs": []}, texts, {"e"}, r"\\b(?:Store|now)\\b")
    ['a/b.rs names Store, now', 'a/d.rs imports e.rs']
    """
    found = []
    for file in sorted(file for file in imports if place_of(file) == folder):
        forbidden = sorted(other for other in imports[file] if place_of(other) in places_above)
        named = sorted(set(re.findall(words, texts[file])))
        found += [f"{file} imports {', '.join(forbidden)}"] * bool(forbidden)
        found += [f"{file} names {', '.join(named)}"] * bool(named)
    return found


def describe(name, arrows, found):
    """The circles of a crate's places, and between any two of them the imports that run against the majority."""
    lines = [f"{name}: {sum(map(len, found))} of {len(arrows)} places lie in circles"]
    for circle in found:
        lines.append("    " + " ".join(circle))
        for ours in circle:
            for theirs in circle:
                there, back = arrows[ours].get(theirs, []), arrows[theirs].get(ours, [])
                if there and (len(there), ours) < (len(back), theirs):
                    shown = ", ".join(f"{file} -> {other}" for file, other in there[:4])
                    lines.append(f"        {ours} -> {theirs} ({len(there)} against {len(back)}): {shown}")
    return "\n".join(lines)


def main(arguments):
    problems = []
    for name, crate in crates(Path(__file__).resolve().parents[2]):
        imports = crate.imports()
        of_files = circles(imports)
        if "--files" in arguments:
            print("\n    ".join([f"{name}: {len(of_files)} circles of {len(imports)} files", *map(" ".join, of_files)]))
            continue
        arrows = places(imports)
        found = circles(arrows)
        if "--check" not in arguments:
            print(describe(name, arrows, found))
            continue
        held, allowed = sum(map(len, found)), ALLOWED.get(name, 0)
        problems += [f"{name}: these files import each other in a circle: {' '.join(circle)}" for circle in of_files]
        if held > allowed:
            help_ = f"at most {allowed} may: cut an arrow, or move what both need below both"
            problems.append(f"{describe(name, arrows, found)}\n    {help_}")
        for (owner, folder), (places_above, words) in PURE.items():
            for impurity in impurities(folder, imports, crate.texts, places_above, words) if owner == name else ():
                problems.append(f"{name}: {impurity}: {folder}/ is pure: hand it in as a value")
        if held < allowed:
            problems.append(f"{name}: {held} places lie in circles and ALLOWED has {allowed}: write {held} there")
    print("\n".join(problems), end="")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
