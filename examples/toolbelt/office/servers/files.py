"""Text files in folders."""

from ..world import OfficeError, world


def files_list(folder: str = "") -> str:
    """Lists files."""
    names = world().names("files")
    within = [name for name in names if not folder or name.startswith(folder.rstrip("/") + "/")]
    return "\n".join(within) or "no files"


def files_read(path: str) -> str:
    """Reads a file."""
    return world().read(f"files/{path}")


def files_write(path: str, text: str) -> str:
    """Writes a file."""
    world().write(f"files/{path}", text)
    return "written"


def files_append(path: str, text: str) -> str:
    """Adds a line to the end of a file."""
    before = world().read(f"files/{path}")
    between = "" if before.endswith("\n") or not before else "\n"
    world().write(f"files/{path}", f"{before}{between}{text}\n")
    return "appended"


def files_copy(path: str, to: str) -> str:
    """Copies a file to another name, which must be free."""
    if world().exists(f"files/{to}"):
        raise OfficeError(f"{to} is there already")
    world().write(f"files/{to}", world().read(f"files/{path}"))
    return "copied"


def files_move(path: str, to: str) -> str:
    """Gives a file another name, which must be free."""
    files_copy(path, to)
    world().remove(f"files/{path}")
    return "moved"


def files_delete(path: str) -> str:
    """Deletes a file."""
    world().remove(f"files/{path}")
    return "deleted"


def files_find(text: str) -> str:
    """Names the files that contain a text."""
    names = [name for name in world().names("files") if text in world().read(f"files/{name}")]
    return "\n".join(names) or "no file contains it"


TOOLS = [files_list, files_read, files_write, files_append, files_copy, files_move, files_delete, files_find]
