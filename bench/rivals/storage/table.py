"""The Markdown tables: one for each data set, rivals first, then TapeDB as rows and as columns."""

from collections.abc import Iterable

from common.report import Row

from .rivals import TITLES

_COLUMNS = ("size", "read.1", "read.2", "write.1", "write.2")
_HEAD = "bytes a row | read, 1 thread | read, 2 threads | write, 1 thread | write, 2 threads"

# Which of TapeDB's cases stands in which column.
_OURS = {
    "bars": {
        "**TapeDB**, rows": {
            "size": "size.bars",
            "read.1": "read.rows.1",
            "read.2": "read.rows.2",
            "write.1": "load.sealed.1",
            "write.2": "load.sealed",
        },
        "**TapeDB**, columns": {"size": "size.bars", "read.1": "read.columns.1"},
        "**TapeDB**, cold, rows": {"size": "size.bars.cold", "read.1": "read.bars.cold"},
        "**TapeDB**, cold, columns": {"size": "size.bars.cold", "read.1": "read.columns.cold"},
    },
    "quotes": {
        "**TapeDB**, rows": {"size": "size.quotes", "read.1": "read.quotes.1"},
        "**TapeDB**, cold, rows": {"size": "size.quotes.cold", "read.1": "read.quotes.cold"},
    },
}


def is_of_same_rows(dataset: str, rows: int, ours: list[Row]) -> bool:
    """Whether TapeDB's figures are of as many recorded rows as the rivals'; of bars it generates its own."""
    own = {row.case: row.value for row in ours}
    return own.get(f"messages.{dataset}", rows) == rows


def table(dataset: str, rows: int, found: list[Row], ours: list[Row]) -> str:
    """The table of one data set; rates in million rows a second, with the smallest and the largest."""
    lines = [f"| {dataset}, {rows:,} rows | {_HEAD} |", "|---|" + "---:|" * len(_COLUMNS)]
    by_case = {row.case: row for row in found}
    for key, title in TITLES.items():
        lines.append(_line(title, (by_case.get(case(key, column, dataset)) for column in _COLUMNS)))
    own = {row.case: row for row in ours}
    for title, cases in _OURS[dataset].items():
        if cases["read.1"] in own:
            lines.append(_line(title, (own.get(cases.get(column)) for column in _COLUMNS)))
    return "\n".join(lines) + "\n"


def case(rival: str, column: str, dataset: str) -> str:
    """`duckdb.read.bars.1` for its reading of bars with one thread, `duckdb.size.bars` for its size."""
    what, dot, threads = column.partition(".")
    return f"{rival}.{what}.{dataset}{dot}{threads}"


def _line(title: str, cells: Iterable[Row | None]) -> str:
    return f"| {title} | {' | '.join(map(_cell, cells))} |"


def _cell(row: Row | None) -> str:
    if row is None:
        return "–"
    if row.metric == "size":
        return _number(row.value)
    value, least, most = (_number(figure / 1e6) for figure in (row.value, row.min, row.max))
    return f"**{value} M/s** ({least} … {most})"


def _number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
