"""Holds the left columns of docs/how-to/from-*.md against the packages that they are about.

    coming_from_keys.py WHEELS        # a folder with the unpacked wheels of verl, axolotl, tinker-cookbook and openpipe-art

TRL's keys are fields of its dataclasses, or arguments of its trainers, as installed. Of the others, which do not install without
CUDA, keys are read from the source: fields of their classes of settings, and keys of verl's YAML. Prints how many were found on
each page, and each that was not.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import warnings
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def rows(page: str) -> list[str]:
    """Return the first cell of each row of the tables whose last column is headed `here`."""
    cells, is_table = [], False
    for line in (ROOT / page).read_text().splitlines():
        row = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        is_table = bool(row) and (is_table or row[-1] == "here")
        if is_table and row[-1] != "here" and not set(row[0]) <= set("-"):
            cells.append(row[0])
    return cells


def words(cell: str) -> tuple[set[str], set[str]]:
    """Return the names and the values that the code spans of a cell have."""
    names, values = set(), set()
    for span in re.findall(r"`([^`]+)`", cell):
        values |= set(re.findall(r'"([^"]+)"', span))
        bare = re.sub(r'"[^"]*"', '""', span)
        if bare == '""':
            continue
        if found := re.fullmatch(r"([\w.]+): (\w+)", bare) or re.fullmatch(r"([\w.]+)=([\w-]+)", bare):  # YAML; Hydra
            names.add(found[1])
            values.add(found[2])
        else:
            # A key, or keys with values: what is assigned to, called, or stands alone.
            bare = re.sub(r"= *[\w.]+(?=[,)}]|$)", "= 0", bare)
            found = re.findall(r"[A-Za-z_][\w.-]*", bare)
            names |= {word for word in found if len(word) > 1 and word not in {"True", "False", "None"} and not word.endswith(".jsonl")}
    return names, values


class Source:
    """What a package's source has: names that it defines, fields of its classes, keys of its YAML, and texts."""

    def __init__(self, *folders: Path) -> None:
        """Read the files when they are first needed."""
        self.folders = folders

    @cached_property
    def texts(self) -> list[str]:
        """Every file of Python and YAML."""
        files = [file for folder in self.folders for kind in ("*.py", "*.yaml") for file in folder.rglob(kind)]
        return [file.read_text(errors="replace") for file in files]

    @cached_property
    def names(self) -> set[str]:
        """Classes, functions, their arguments, fields, attributes that are set, and keys of YAML."""
        found = set()
        for folder in self.folders:
            for file in folder.rglob("*.py"):
                for node in ast.walk(ast.parse(file.read_text(errors="replace"))):
                    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                        found.add(node.name)
                    elif isinstance(node, ast.arg):
                        found.add(node.arg)
                    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                        found.add(node.target.id)
            for file in folder.rglob("*.yaml"):
                found |= set(re.findall(r"^\s*([\w-]+):", file.read_text(), re.MULTILINE))
        return found

    def has(self, name: str) -> bool:
        """Whether each part of a dotted name is defined."""
        own = {folder.name for folder in self.folders}
        return all(part in self.names or part in own for part in name.split("."))

    def states(self, value: str) -> bool:
        """Whether a value is a whole word of the source."""
        return any(re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", text) for text in self.texts)


class Trl(Source):
    """TRL's settings as installed."""

    def __init__(self) -> None:
        """Find the dataclasses."""
        import peft
        import transformers
        import trl
        from trl.experimental.cpo import CPOConfig, CPOTrainer

        super().__init__(Path(inspect.getfile(trl)).parent)
        settings = [trl.SFTConfig, trl.DPOConfig, trl.GRPOConfig, trl.RewardConfig, trl.KTOConfig, CPOConfig]
        trainers = [trl.SFTTrainer, trl.DPOTrainer, trl.GRPOTrainer, trl.RewardTrainer, trl.KTOTrainer, CPOTrainer]
        known = {name for each in (*settings, peft.LoraConfig) for name in (field.name for field in dataclasses.fields(each))}
        calls = [*trainers, transformers.EarlyStoppingCallback]
        known |= {name for each in calls for name in inspect.signature(each.__init__).parameters}
        known |= {name for each in trainers for name in dir(each)}
        known |= {each.__name__ for each in (*settings, *calls, peft.LoraConfig)}
        import datasets

        known |= {"interleave_datasets", *inspect.signature(datasets.interleave_datasets).parameters}
        # The columns of its datasets.
        known |= {"messages", "prompt", "completion", "chosen", "rejected", "label"}
        known |= {"save_pretrained"} if hasattr(transformers.PreTrainedModel, "save_pretrained") else set()
        self.known = known
        folder = Path(inspect.getfile(transformers)).parent
        self.texts.extend(file.read_text() for file in (folder / "training_args.py", folder / "trainer_utils.py", folder / "optimization.py"))
        self.texts.append((folder / "integrations/integration_utils.py").read_text())

    def has(self, name: str) -> bool:
        """Whether each part of a dotted name is one of a dataclass, a trainer or a dataset."""
        return all(part in self.known for part in name.split("."))


class Axolotl(Source):
    """Axolotl's settings: fields of its classes of settings, and names of its commands."""

    def __init__(self, folder: Path) -> None:
        """Look for names among the settings alone, and for values in all of the package and in transformers' enumerations."""
        import transformers

        super().__init__(folder / "utils/schemas")
        self.texts.extend(file.read_text() for file in folder.rglob("*.py"))
        library = Path(inspect.getfile(transformers)).parent
        self.texts.extend((library / name).read_text() for name in ("training_args.py", "trainer_utils.py"))
        self.names.update({"axolotl"})
        commands = re.findall(r"@cli\.command\(.*?\ndef (\w+)", (folder / "cli/main.py").read_text(), re.DOTALL)
        self.names.update(name.replace("_", "-") for name in commands)


class Verl(Source):
    """verl's settings: whole paths in the YAML that its trainer composes."""

    def __init__(self, folder: Path) -> None:
        """Read it."""
        import yaml

        super().__init__(folder)
        self.config = yaml.safe_load((folder / "trainer/config/_generated_ppo_trainer.yaml").read_text())

    def has(self, name: str) -> bool:
        """Whether there is such a path, or such a class."""
        place = self.config
        for part in re.sub(r"^(actor|rollout)(?=\.|$)", r"actor_rollout_ref.\1", name).split("."):
            if not isinstance(place, dict) or part not in place:
                return name[0].isupper() and super().has(name)
            place = place[part]
        return True


def main() -> None:
    """Compare every page."""
    warnings.simplefilter("ignore")
    wheels = Path(sys.argv[1])
    pages = {
        "docs/how-to/from-trl.md": Trl(),
        "docs/how-to/from-verl.md": Verl(wheels / "verl"),
        "docs/how-to/from-axolotl.md": Axolotl(wheels / "axolotl"),
        "docs/how-to/from-tinker.md": Source(wheels / "tinker_cookbook"),
        "docs/reference/coming-from.md": Source(wheels / "art"),
    }
    missing = []
    for page, package in pages.items():
        names, values = set(), set()
        for cell in rows(page):
            of_cell = words(cell)
            # `rl: dpo`, `ipo`: what follows a value and is no key is a value, too.
            more = {name for name in of_cell[0] if of_cell[1] and not package.has(name)}
            names |= of_cell[0] - more
            values |= of_cell[1] | more
        unknown = sorted(name for name in names if not package.has(name))
        unsaid = sorted(value for value in values if not package.states(value))
        print(f"{page}: {len(names) - len(unknown)} of {len(names)} names, {len(values) - len(unsaid)} of {len(values)} values are theirs")
        missing += [f"{page}: {name}" for name in unknown + unsaid]
    print(*missing, sep="\n")
    sys.exit(1 if missing else 0)


if __name__ == "__main__":
    main()
