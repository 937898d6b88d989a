"""The Markdown tables: throughput and latency, rivals first, then TapeDB."""

from collections.abc import Callable, Iterable

from common.report import Row

from .ours import CASES, TITLE
from .rivals import Rival

PAIRS = (1, 4)
PERCENTILES = ("p50", "p90", "p99", "p99.9", "max")
_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3}

# Rows by case and metric.
Figures = dict[tuple[str, str], Row]


def throughput_table(rivals: list[Rival], found: list[Row]) -> str:
    """Million records a second, with the smallest, the largest and how many were measured."""
    head = " | ".join(f"{pairs} to {pairs}" for pairs in PAIRS)
    lines = [f"| records/s, producers to consumers | {head} |", "|---|" + "---:|" * len(PAIRS)]
    figures, cases = _figures(found), [f"live.{pairs}" for pairs in PAIRS]
    for title, prefix in _uses(rivals):
        lines += _line(title, (figures.get((f"{prefix}{case}", "rate")) for case in cases), _rate)
    lines += _line(TITLE, (figures.get((CASES[case], "rate")) for case in cases), _rate)
    return "\n".join(lines) + "\n"


def latency_table(rivals: list[Rival], found: list[Row], rate: int) -> str:
    """Microseconds, with the smallest, the largest and how many were measured."""
    lines = [
        f"| µs from the intended send time, {rate:,} records/s | {' | '.join(PERCENTILES)} |",
        "|---|" + "---:|" * len(PERCENTILES),
    ]
    figures = _figures(found)
    for title, prefix in _uses(rivals):
        lines += _line(title, (figures.get((f"{prefix}latency", name)) for name in PERCENTILES), _delay)
    lines += _line(TITLE, (figures.get((CASES["latency"], name)) for name in PERCENTILES), _delay)
    return "\n".join(lines) + "\n"


def case(rival: str, use: str, what: str) -> str:
    """`kafka.tuned.live.4` for four to four, `kafka.default.latency` for latency."""
    return f"{rival}.{use}.{what}"


def _figures(rows: Iterable[Row]) -> Figures:
    return {(row.case, row.metric): row for row in rows}


def _uses(rivals: list[Rival]) -> list[tuple[str, str]]:
    return [(use.title, case(rival.key, use.key, "")) for rival in rivals for use in rival.cases]


def _line(title: str, cells: Iterable[Row | None], cell: Callable[[Row], str]) -> list[str]:
    """One line, or none where nothing was measured."""
    rows = list(cells)
    return [f"| {title} | {' | '.join(cell(row) if row else '–' for row in rows)} |"] if any(rows) else []


def _rate(row: Row) -> str:
    value, least, most = (_number(figure / 1e6) for figure in (row.value, row.min, row.max))
    return f"**{value} M/s** ({least} … {most}; {row.n})"


def _delay(row: Row) -> str:
    factor = _MICROSECONDS[row.unit]
    value, least, most = (_number(figure * factor) for figure in (row.value, row.min, row.max))
    return f"**{value}** ({least} … {most}; {row.n})"


def _number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
