"""Sheets, whose first row names the columns: cell A1 is the name of the first column."""

import re

from ..world import OfficeError, world

GREATEST_COLUMN, GREATEST_ROW = 26, 1000


def _place(cell):
    """Row and column of a cell, from 0."""
    found = re.fullmatch(r"([A-Z])([1-9][0-9]{0,3})", cell)
    if not found or int(found[2]) > GREATEST_ROW:
        raise OfficeError(f"{cell!r} is no cell: cells are A1 to Z{GREATEST_ROW}")
    return int(found[2]) - 1, ord(found[1]) - ord("A")


def _column(rows, sheet, column):
    names = rows[0] if rows else []
    if column not in names:
        raise OfficeError(f"{sheet} has no column {column!r}; it has {', '.join(names) or 'none'}")
    return names.index(column)


def _written(row):
    return " | ".join(row)


def sheets_list() -> str:
    """Lists the sheets."""
    return "\n".join(name.removesuffix(".csv") for name in world().names("sheets", ".csv")) or "no sheets"


def sheets_columns(sheet: str) -> str:
    """Names the columns of a sheet, and says how many rows there are."""
    rows = world().rows(sheet)
    return f"{_written(rows[0])}\n{len(rows)} rows" if rows else "empty"


def sheets_read_rows(sheet: str, first: int = 1, count: int = 20) -> str:
    """Reads rows of a sheet, the names of the columns being row 1."""
    if first < 1 or not 1 <= count <= 100:
        raise OfficeError("rows are counted from 1, and at most 100 are read at once")
    rows = world().rows(sheet)[first - 1 : first - 1 + count]
    return "\n".join(f"{number}: {_written(row)}" for number, row in enumerate(rows, first)) or "no such rows"


def sheets_read_cell(sheet: str, cell: str) -> str:
    """Reads a cell."""
    row, column = _place(cell)
    rows = world().rows(sheet)
    return rows[row][column] if row < len(rows) and column < len(rows[row]) else ""


def sheets_set_cell(sheet: str, cell: str, value: str) -> str:
    """Sets a cell."""
    row, column = _place(cell)
    rows = world().rows(sheet)
    rows.extend([] for _ in range(row + 1 - len(rows)))
    rows[row].extend("" for _ in range(column + 1 - len(rows[row])))
    rows[row][column] = value
    world().write_rows(sheet, rows)
    return "set"


def sheets_add_row(sheet: str, values: list[str]) -> str:
    """Adds a row to the end of a sheet."""
    rows = world().rows(sheet)
    if rows and len(values) != len(rows[0]):
        raise OfficeError(f"{sheet} has {len(rows[0])} columns, and there are {len(values)} values")
    world().write_rows(sheet, [*rows, values])
    return f"added as row {len(rows) + 1}"


def sheets_delete_row(sheet: str, row: int) -> str:
    """Deletes a row of a sheet."""
    rows = world().rows(sheet)
    if not 2 <= row <= len(rows):
        raise OfficeError(f"{sheet} has rows 2 to {len(rows)} besides the names of its columns")
    del rows[row - 1]
    world().write_rows(sheet, rows)
    return "deleted"


def sheets_find_rows(sheet: str, column: str, value: str) -> str:
    """Finds the rows of a sheet that have a value in a column."""
    rows = world().rows(sheet)
    place = _column(rows, sheet, column)
    numbered = enumerate(rows[1:], 2)
    found = [f"{number}: {_written(row)}" for number, row in numbered if place < len(row) and row[place] == value]
    return "\n".join(found) or "no such rows"


def sheets_sum(sheet: str, column: str) -> str:
    """Adds up a column."""
    rows = world().rows(sheet)
    place = _column(rows, sheet, column)
    values = [row[place] for row in rows[1:] if place < len(row) and row[place]]
    try:
        total = sum(float(value) for value in values)
    except ValueError as error:
        raise OfficeError(f"column {column} of {sheet} is not all numbers: {error}") from None
    return f"{total:.2f}".rstrip("0").rstrip(".")


TOOLS = [
    sheets_list,
    sheets_columns,
    sheets_read_rows,
    sheets_read_cell,
    sheets_set_cell,
    sheets_add_row,
    sheets_delete_row,
    sheets_find_rows,
    sheets_sum,
]
