"""aider's own command, which edits a file of a repository, commits it, and is asked again. usage: aider_edit.py BASE_URL..."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def git(work, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=work, check=True, capture_output=True)


for url in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as work:
        git(work, "init", "--quiet")
        Path(work, "sum.txt").write_text("?\n")
        git(work, "add", "sum.txt")
        git(work, "commit", "--quiet", "-m", "Begin")
        environment = {**os.environ, "OPENAI_API_BASE": url, "OPENAI_API_KEY": "none", "HOME": work}
        for identity in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{identity}_NAME": "a", f"GIT_{identity}_EMAIL": "a@b"}
        words = ["--model", "openai/tiny", "--edit-format", "whole", "--yes-always", "--no-check-update", "--no-show-model-warnings",
                 "--no-gitignore", "--analytics-disable", "--map-tokens", "0", "--no-fancy-input", "--no-pretty", "sum.txt"]
        aider = Path(sys.executable).with_name("aider")
        typed = "Write 21 into sum.txt.\nSure?\n/exit\n"
        ended = subprocess.run([aider, *words], cwd=work, env=environment, capture_output=True, text=True, input=typed)
        assert ended.returncode == 0 and Path(work, "sum.txt").read_text() == "21\n", ended.stdout + ended.stderr
        subject = subprocess.run(["git", "log", "-1", "--format=%s"], cwd=work, capture_output=True, text=True).stdout
        assert subject.strip() == "feat: write the sum", subject
