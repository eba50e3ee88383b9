"""Documents: Markdown of sections that begin with `## Heading`."""

from ..world import OfficeError, world


def _load(name):
    """What stands before the first heading, and the sections as [heading, text]."""
    lines, sections = [], []
    for line in world().read(f"documents/{name}.md").splitlines():
        if line.startswith("## "):
            sections.append([line[3:].strip(), []])
        else:
            (sections[-1][1] if sections else lines).append(line)
    return "\n".join(lines).strip(), [[heading, "\n".join(text).strip()] for heading, text in sections]


def _save(name, before, sections):
    parts = ([before] if before else []) + [f"## {heading}\n\n{text}".rstrip() for heading, text in sections]
    world().write(f"documents/{name}.md", "\n\n".join(parts) + "\n")


def _section(sections, name, heading):
    for section in sections:
        if section[0] == heading:
            return section
    raise OfficeError(f"{name} has no section {heading!r}; it has {', '.join(h for h, _ in sections) or 'none'}")


def documents_list() -> str:
    """Lists the documents."""
    return "\n".join(name.removesuffix(".md") for name in world().names("documents", ".md")) or "no documents"


def documents_outline(name: str) -> str:
    """Lists the headings of a document."""
    return "\n".join(heading for heading, _ in _load(name)[1]) or "no sections"


def documents_read_section(name: str, heading: str) -> str:
    """Reads a section of a document."""
    return _section(_load(name)[1], name, heading)[1] or "(empty)"


def documents_replace_section(name: str, heading: str, text: str) -> str:
    """Puts another text into a section of a document."""
    before, sections = _load(name)
    _section(sections, name, heading)[1] = text.strip()
    _save(name, before, sections)
    return "replaced"


def documents_add_section(name: str, heading: str, text: str) -> str:
    """Adds a section to the end of a document, which is made if there is none of this name."""
    before, sections = _load(name) if world().exists(f"documents/{name}.md") else ("", [])
    if any(heading == there for there, _ in sections):
        raise OfficeError(f"{name} has a section {heading!r} already")
    _save(name, before, [*sections, [heading, text.strip()]])
    return "added"


def documents_remove_section(name: str, heading: str) -> str:
    """Removes a section from a document."""
    before, sections = _load(name)
    sections.remove(_section(sections, name, heading))
    _save(name, before, sections)
    return "removed"


def documents_replace_text(name: str, old: str, new: str) -> str:
    """Replaces a text wherever it stands in a document."""
    text = world().read(f"documents/{name}.md")
    if not old or old not in text:
        raise OfficeError(f"{name} does not contain {old!r}")
    world().write(f"documents/{name}.md", text.replace(old, new))
    return f"replaced {text.count(old)} times"


def documents_count_words(name: str) -> str:
    """Counts the words of a document."""
    return str(len(world().read(f"documents/{name}.md").split()))


TOOLS = [
    documents_list,
    documents_outline,
    documents_read_section,
    documents_replace_section,
    documents_add_section,
    documents_remove_section,
    documents_replace_text,
    documents_count_words,
]
