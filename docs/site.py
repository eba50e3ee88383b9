#!/usr/bin/env python3
"""Makes llms.txt and the site of docs/README.md's index: docs/site.py [--check | --build].

Without an option it writes llms.txt. `--check` only says whether it is what it would write. `--build` makes the site in
target/site/site, by MkDocs with its Material theme (docs/requirements.txt) and with search, and fails at a dead link.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INDEX = ROOT / "docs/README.md"
LLMS = ROOT / "llms.txt"
PLACE = ROOT / "target/site"
# Pages that the index reaches without being in a table of it, by the section that they stand in.
MORE = {"Project": ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "THIRD-PARTY.md"]}
# Headings have the anchors that the repository's pages link to.
SLUGS = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def index() -> dict[str, list[tuple[str, str, str]]]:
    """The index's sections: of each page its name, its path in the repository, and what it is read for."""
    sections, section = {}, ""
    for line in INDEX.read_text().splitlines():
        if line.startswith("## "):
            section = line[3:]
            sections[section] = []
        elif section:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            purpose = cells[0] if line.startswith("|") and len(cells) == 2 else ""
            for name, target in LINK.findall(cells[-1] if purpose else line):
                path = os.path.normpath(f"docs/{target.split('#')[0]}")
                if path.endswith(".md") and path not in MORE["Project"]:
                    sections[section].append((plain(name), path, plain(purpose)))
    sections["Project"] = [(title(path), path, "") for path in MORE["Project"]]
    return sections


def plain(text: str) -> str:
    return LINK.sub(r"\1", text).replace("`", "")


def title(path: str) -> str:
    first = (ROOT / path).read_text().splitlines()[0]
    return plain(first.removeprefix("# "))


def llms() -> str:
    """The index as language models' tools read it (llmstxt.org)."""
    paragraphs = (ROOT / "README.md").read_text().split("\n\n")
    lines = ["# Fulgurite", "", "> " + " ".join(paragraphs[1].split()), ""]
    for section, pages in index().items():
        lines += [f"## {section}", ""]
        seen = set()
        for _, path, purpose in pages:
            if path in seen:
                continue
            seen.add(path)
            lines.append(f"- [{title(path)}]({path})" + (f": {purpose}" if purpose else ""))
        lines.append("")
    return "\n".join(lines)


def pages() -> list[str]:
    """Every page of the site: those of the repository, without what belongs to its machinery."""
    named = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    kept = [path for path in named.splitlines() if path.split("/")[0] in ("docs", "examples") or "/" not in path]
    return [path for path in kept if (ROOT / path).exists()]


def stage(source: Path) -> None:
    """Lay the pages out as in the repository, with the files that they link to."""
    shutil.rmtree(source, ignore_errors=True)
    for path in pages():
        text = (ROOT / path).read_text()
        place = source / path
        place.parent.mkdir(parents=True, exist_ok=True)
        for _, target in LINK.findall(text):
            linked = os.path.normpath(os.path.join(os.path.dirname(path), target.split("#")[0]))
            file = ROOT / linked
            if "://" not in target and file.is_file() and not linked.endswith(".md"):
                (source / linked).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, source / linked)
        place.write_text(LINK.sub(partial(without_folder, path), text))
    shutil.copy(LLMS, source / "llms.txt")


def without_folder(page: str, link: re.Match) -> str:
    """A link, or its words alone where it leads to a folder, which a site does not show."""
    target = link[2].split("#")[0]
    if "://" not in target and (ROOT / os.path.dirname(page) / target).is_dir() and target:
        return link[1]
    return link[0]


def configuration(source: Path) -> dict:
    """MkDocs' configuration, with the index as navigation."""
    navigation = [{"Fulgurite": "README.md"}, {"Documentation": "docs/README.md"}]
    for section, found in index().items():
        entries, seen = [], {"README.md"}
        for name, path, _ in found:
            if path not in seen:
                entries.append({name[0].upper() + name[1:]: path})
            seen.add(path)
        navigation.append({section: entries})
    examples = [{title(path): path} for path in pages() if path.startswith("examples/")]
    navigation.append({"Examples": examples})
    warn = {"not_found": "warn", "absolute_links": "warn", "unrecognized_links": "warn", "anchors": "warn"}
    return {
        "site_name": "Fulgurite",
        "docs_dir": str(source),
        "site_dir": str(PLACE / "site"),
        # Pages open from a disk, too, and nothing is loaded from elsewhere.
        "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "features": ["navigation.tabs", "navigation.indexes", "toc.integrate"]},
        "plugins": [{"search": {}}],
        "markdown_extensions": ["tables", {"toc": {"permalink": True, "slugify": SLUGS}}, "pymdownx.superfences"],
        "validation": {"nav": {"omitted_files": "ignore"}, "links": warn},
        "nav": navigation,
    }


def build() -> None:
    python = PLACE / "venv/bin/python"
    if not python.exists():
        venv.create(PLACE / "venv", with_pip=True)
    requirements = str(ROOT / "docs/requirements.txt")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", requirements], check=True)
    source = PLACE / "pages"
    stage(source)
    # JSON is YAML, but for a function.
    text = json.dumps(configuration(source), indent=1).replace(f'"{SLUGS}"', SLUGS)
    (PLACE / "mkdocs.yml").write_text(text)
    words = [python, "-m", "mkdocs", "build", "--strict", "--config-file", str(PLACE / "mkdocs.yml")]
    # `--quiet` would hide dead links from `--strict`, too.
    built = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if built.returncode != 0:
        sys.exit(built.stdout)
    print(PLACE / "site/index.html")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--check", action="store_true", help="fail if llms.txt is not what docs/README.md makes")
    only.add_argument("--build", action="store_true", help="make the site in target/site/site")
    options = parser.parse_args()
    if options.check and LLMS.read_text() != llms():
        sys.exit("error: llms.txt is not what docs/README.md makes\nhelp: docs/site.py writes it")
    if options.build:
        build()
    elif not options.check:
        LLMS.write_text(llms())


main()
