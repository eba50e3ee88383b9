#!/usr/bin/env python3
"""Finds names in code, and names of files, that are made of words which do not say what they hold.

    python3 tests/house/words.py            counts them by folder
    python3 tests/house/words.py --check    lists them, each with the word to write in its place, and fails if there are any

The code is Rust, Python, TypeScript and JavaScript. A name is the name of a module, a type, a function, a field or a
variable, or one that a format string holds. Comments and texts may have these words, and so may the names of test functions,
which are sentences. It finds too a type of Rust whose name is a bare word that another type of its crate has.
"""

import collections
import re
import subprocess
import sys
from pathlib import Path

import identifiers

HOUSE = Path(__file__).resolve().parents[2]

INSTEAD = {
    "told": "reported, known or described",
    "untold": "unknown or unreported",
    "telling": "reporting",
    "said": "message, text or stated",
    "says": "states, or is_ with what it is",
    "asked": "requested, or request",
    "asker": "caller",
    "beside": "auxiliary, next_to or alongside",
    "gone": "removed, missing or disconnected",
    "begun": "started",
    "taken": "claimed, accepted or in_use",
    "whose": "owner",
    "whom": "owner",
    "leave": "permission",
    "meant": "matching or intended",
    "amiss": "finding or problem",
    "door": "endpoint or entry",
    "crew": "workers",
    "workshop": "workspace",
    "orders": "commands",
    "wishes": "preferences or hints",
}

# Names of types that are to have a noun in front, unless the crate has no other of them.
BARE = ("State", "Call", "Row", "Part", "Answer", "Reply", "Event")

# Names that may have such a word, each with its reason.
ALLOWED = {
    "GONE": "a status code's name in the crate http",
    "LeaveAlternateScreen": "a name of the crate crossterm",
    "Crew": "a name of the package crewai",
    "client_gone": "a column of the record, which users query",
    "beside_tools": "a value of the record, which users query",
}
# Keys of documents that users have, by the files that read them.
ALLOWED_KEYS = {
    "dashboard/web/src/api.ts": {"said": "a key of the report of a run"},
    "dashboard/web/src/runs/what_changed.tsx": {"said": "a key of the report of a run"},
}
# Files that may.
ALLOWED_FILES = {
    "tests/agents/programs/crewai_crew.py": "CrewAI calls a group of agents so",
    "examples/distill/curves/ask-told.json": "named after the run that it is of",
    "examples/modes/prompt-distillation/told.toml": "users run it by this name",
}
# To leave out is to omit: `leave_out`, `LeaveOut`, and the baseline that leaves one out.
OMIT = re.compile(r"(?i)leave_?(?:one_?)?out")

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*(?:.|\n)*?\*/)"""
    r"""|(?P<text>\b[bc]?r(?P<marks>\#*)"(?:.|\n)*?"(?P=marks)|[bc]?"(?:[^"\\]|\\(?:.|\n))*")"""
    r"""|(?P<letter>b?'(?:[^'\\\n]|\\(?:u\{[^}]*\}|x..|.))')"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
)
CAPTURED = re.compile(r"(?<!\{)\{(?:\{\{)*([a-z_][a-z0-9_]*)(?=[:}])")
TEST = re.compile(r"#\[(?:\w+::)*test\b[^\n]*\n(?:\s*(?:#\[|//)[^\n]*\n)*\s*(?:async\s+)?fn\s+(\w+)")


def parts(name):
    """The words of a name, in small letters.

    >>> parts("JudgesDoor"), parts("has_said_so"), parts("HTTPDoor"), parts("LEAVE_THERE")
    (['judges', 'door'], ['has', 'said', 'so'], ['http', 'door'], ['leave', 'there'])
    """
    return [part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def word_of(name):
    """The word in a name that is not to be there.

    >>> word_of("JudgesDoor"), word_of("is_told"), word_of("gold"), word_of("LEAVE_OUT"), word_of("LeaveOneOut")
    ('door', 'told', None, None, None)
    >>> word_of("GONE"), word_of("Gone"), word_of("leave")
    (None, 'gone', 'leave')
    """
    if name in ALLOWED:
        return None
    return next((part for part in parts(OMIT.sub("", name)) if part in INSTEAD), None)


def of_rust(text):
    r"""The names in a file of Rust that have such a word, each with its line.

    >>> list(of_rust('let told = 1; // said\nlet text = "said {asked:?} {{gone}} {0}";\nfn f(door: &\'a str) {}'))
    [(1, 'told'), (2, 'asked'), (3, 'door')]
    >>> list(of_rust("#[test]\nfn what_is_said_is_kept() {\n    let said = '\"';\n}\nfn said() {}"))
    [(3, 'said'), (5, 'said')]
    >>> list(of_rust('#[tokio::test]\n// Why.\nasync fn one_is_told() {}\nlet raw = r#"a "told" b"#;'))
    []
    """
    sentences = {found.start(1) for found in TEST.finditer(text)}
    for token in TOKEN.finditer(text):
        found = []
        if token["name"] and token.start() not in sentences:
            found = [(token.start(), token["name"])]
        elif token["text"]:
            found = [(token.start() + hole.start(), hole[1]) for hole in CAPTURED.finditer(token["text"])]
        for at, name in found:
            if word_of(name):
                yield text.count("\n", 0, at) + 1, name


READERS = {
    "rs": of_rust,
    "py": identifiers.of_python,
    "ts": identifiers.of_script,
    "mjs": identifiers.of_script,
    "tsx": lambda text: identifiers.of_script(text, has_elements=True),
}


def names(path, text):
    r"""The names in a file of code that have such a word, each with its line.

    >>> names("a/b.py", "told = 1\n'said'"), names("a/b.tsx", "<p a={said}>told</p>"), names("a.css", "told")
    ([(1, 'told')], [(1, 'said')], [])
    >>> names("dashboard/web/src/api.ts", "answer.said")
    []
    """
    read = READERS.get(path.rsplit(".", 1)[-1], lambda _: [])
    return [(line, name) for line, name in read(text) if word_of(name) and name not in ALLOWED_KEYS.get(path, {})]


TYPE = re.compile(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|union|trait|type)\s+(\w+)", re.MULTILINE)


def bare_types(files):
    """The types whose bare name an earlier type of their crate has, of pairs of a path and its text.

    >>> rows = [("a/src/x.rs", "\\nstruct Row;"), ("b/src/x.rs", "pub(super) enum Row {"), ("a/tests/y.rs", "type Row = u8;")]
    >>> list(bare_types(rows)), list(bare_types(rows[:2]))
    ([('a/tests/y.rs', 1, 'Row')], [])
    """
    known = set()
    for path, text in files:
        for found in TYPE.finditer(text):
            if found[1] not in BARE:
                continue
            name = (path.split("/")[0], found[1])
            if name in known:
                yield path, text.count("\n", 0, found.start(1)) + 1, found[1]
            known.add(name)


def file_name(path):
    """The name of a file without what it ends in, if it has such a word.

    >>> file_name("runner/src/door.rs"), file_name("a/gate.rs"), file_name("docs/the-untold.md")
    ('door', None, 'the-untold')
    >>> file_name("tests/agents/programs/crewai_crew.py"), file_name("tests/crewai_crew.py")
    (None, 'crewai_crew')
    """
    stem = Path(path).name.split(".")[0]
    return stem if path not in ALLOWED_FILES and word_of(stem) else None


def main():
    listed = subprocess.run(["git", "ls-files"], cwd=HOUSE, capture_output=True, text=True, check=True).stdout
    files = [name for name in listed.splitlines() if not name.endswith(".snap") and (HOUSE / name).is_file()]
    found = []
    for file in files:
        if file_name(file):
            found.append((file, 1, file_name(file)))
        if file.rsplit(".", 1)[-1] in READERS:
            found += [(file, line, name) for line, name in names(file, (HOUSE / file).read_text())]
    found += bare_types((file, (HOUSE / file).read_text()) for file in files if file.endswith(".rs"))
    if "--check" not in sys.argv:
        for folder, number in collections.Counter(file.split("/")[0] for file, _, _ in found).most_common():
            print(f"{number:6} {folder}")
        return 0
    for file, line, name in found:
        word = word_of(name)
        if word:
            print(f"{file}:{line}: `{name}` has `{word}`; write {INSTEAD[word]}")
        else:
            print(f"{file}:{line}: another type of this crate is a `{name}`; write what it is of before it, as in `Run{name}`")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
