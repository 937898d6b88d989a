"""The Markdown table: a line for each rival and for TapeDB, a column for each query.

Milliseconds on one core and on two.
"""

from common.report import Row

from .rivals import TITLES


def table(cases: list[str], rows: list[Row]) -> str:
    """The medians, with the smallest and the largest."""
    found = {row.case: row for row in rows}
    lines = [f"| milliseconds, one core / two | {' | '.join(cases)} |", "|---|" + "---:|" * len(cases)]
    titles = {**{key: title for key, title in TITLES.items()}, "sql": "**TapeDB**"}
    for key, title in titles.items():
        cells = [
            f"{_cell(found.get(f'{key}.{case}'))} / {_cell(found.get(f'{key}.{case}.2'))}" for case in cases
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return "–"
    if row.unit == "ms":
        return f"{row.value:.3g} ({row.min:.3g} … {row.max:.3g})"
    return f"{row.value / 1e6:.3g} M/s"
