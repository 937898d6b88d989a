"""The Markdown tables: one for each data set, rivals first, then TapeDB, then how many times as fast it is."""

from collections.abc import Iterable

from common.report import Row

from .rivals import TITLES

_COLUMNS = ("size", "sum.1", "arrow.1", "write.1", "write.2")
_HEAD = "bytes a row | sum of all columns | Arrow table | write, 1 thread | write, 2 threads"

# Which of TapeDB's cases stands in which column.
_OURS = {
    "bars": {
        "**TapeDB**, by symbol": {
            "size": "size.bars",
            "sum.1": "columns.sum.symbol",
            "arrow.1": "arrow.bars.symbol",
            "write.2": "load.sealed",
        },
        "**TapeDB**, in time order": {
            "size": "size.bars",
            "sum.1": "columns.sum.time",
            "arrow.1": "arrow.bars.time",
            "write.2": "load.columns.sealed",
        },
    },
    "quotes": {
        "**TapeDB**": {
            "size": "size.quotes",
            "sum.1": "columns.sum.quotes",
            "arrow.1": "arrow.quotes",
            "write.2": "import.quotes.sealed",
        },
    },
}


def table(dataset: str, rows: int, found: list[Row]) -> str:
    """The table of one data set; rates in million rows a second, with the smallest and the largest."""
    by_case = {row.case: row for row in found}
    lines = [f"| {dataset}, {rows:,} rows | {_HEAD} |", "|---|" + "---:|" * len(_COLUMNS)]
    rivals = {
        title: {column: by_case.get(case(key, column, dataset)) for column in _COLUMNS}
        for key, title in TITLES.items()
    }
    for title, cells in rivals.items():
        lines.append(_line(title, map(_cell, cells.values())))
    for title, cases in _OURS[dataset].items():
        own = {column: by_case.get(cases.get(column, "")) for column in _COLUMNS}
        lines.append(_line(title, map(_cell, own.values())))
        ratios = (_ratio(column, own[column], rivals.values()) for column in _COLUMNS)
        lines.append(_line(f"{title}: against the best rival", ratios))
    return "\n".join(lines) + "\n"


def case(rival: str, column: str, dataset: str) -> str:
    """`duckdb.sum.bars.1` for its sums of bars with one thread, `duckdb.size.bars` for its size."""
    what, dot, threads = column.partition(".")
    return f"{rival}.{what}.{dataset}{dot}{threads}"


def _line(title: str, cells: Iterable[str]) -> str:
    return f"| {title} | {' | '.join(cells)} |"


def _ratio(column: str, own: Row | None, rivals: Iterable[dict[str, Row | None]]) -> str:
    """More than 1 is better than all of them."""
    values = [row.value for cells in rivals if (row := cells[column])]
    if own is None or not values:
        return "–"
    ratio = min(values) / own.value if column == "size" else own.value / max(values)
    return f"{ratio:.2f}"


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
