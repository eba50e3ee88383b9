"""Makes and grades the twenty repositories.

    toy_repo.py tasks           a line of JSON for each, which is what tasks.jsonl holds
    toy_repo.py setup NAME      writes a repository into $FULGURITE_WORLD, with its bug
    toy_repo.py grade NAME      runs its hidden tests with pytest and prints the reward: 1 if all pass, else 0
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# `python -I`, by which nothing around the grader has a say in it, leaves the script's own directory out.
sys.path.insert(0, str(HERE))
from repositories import BY_NAME, REPOSITORIES


def tasks():
    for repository in REPOSITORIES:
        print(json.dumps({"name": repository.name, "prompt": repository.prompt}))


def setup(repository):
    world = Path(os.environ["FULGURITE_WORLD"])
    (world / repository.file).write_text(repository.broken)
    (world / "README.md").write_text(f"# {repository.name}\n\nOne module, `{repository.file}`.\n")
    if shutil.which("git"):
        # Agents look for what has changed, and some refuse to work where nobody could tell.
        author = ["-c", "user.name=toy", "-c", "user.email=toy@localhost"]
        for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "Begin"]):
            subprocess.run(["git", "-C", world, *words], check=True)


class Counter:
    """Counts what pytest's own reports say; a plugin of this process, in which nothing of the agent's runs."""

    def __init__(self):
        self.passed = 0

    def pytest_runtest_logreport(self, report):
        self.passed += report.when == "call" and report.outcome == "passed"


def grade(repository):
    import pytest

    if shutil.which("bwrap") is None:
        sys.exit("toy_repo.py: the agent's code is graded in bwrap, and there is none: install Debian's bubblewrap")
    for name in [name for name in os.environ if name.startswith(("PYTEST", "PYTHON"))]:
        del os.environ[name]
    os.environ.update(TOY_REPO=repository.name, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    counter = Counter()
    alone = ["-c", os.devnull, "--rootdir", str(HERE), "--noconftest", "-p", "no:cacheprovider", "--quiet", "--tb=line"]
    # The last line of standard output is the reward, and nothing else's.
    with contextlib.redirect_stdout(sys.stderr):
        status = pytest.main([*alone, str(HERE / "hidden_test.py")], plugins=[counter])
    cases = len(repository.cases)
    whole = status == pytest.ExitCode.OK and counter.passed == cases
    print(json.dumps({"reward": 1.0 if whole else 0.0, "passed": counter.passed / cases}))


def main(words):
    match words:
        case ["tasks"]:
            tasks()
        case ["setup", name] if name in BY_NAME:
            setup(BY_NAME[name])
        case ["grade", name] if name in BY_NAME:
            grade(BY_NAME[name])
        case _:
            sys.exit(f"usage: toy_repo.py tasks | setup NAME | grade NAME, with one of {', '.join(BY_NAME)}")


main(sys.argv[1:])
