"""The Markdown tables: latency and throughput, of cores near and far apart from each other."""

from collections.abc import Iterable

from common.report import Row

from .works import PERCENTILES, WORKS, Work

_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "µs": 1.0, "ms": 1e3}

# Title and key of each medium, in order.
Media = list[tuple[str, str]]


def tables(media: Media, rows: Iterable[Row], distance: str) -> str:
    """Those of one distance; empty if nothing was measured there."""
    figures = {(row.case, row.metric): row for row in rows}
    latency = _table(
        "median / p99 / p99.9 / max, µs from the intended send time",
        media,
        [work for work in WORKS if work.is_latency],
        lambda key, work: _latency(figures, case(key, work, distance)),
    )
    throughput = _table(
        "million records/s of 40 bytes, 1 to 1",
        media,
        [work for work in WORKS if not work.is_latency],
        lambda key, work: _rate(figures.get((case(key, work, distance), "rate"))),
    )
    return "\n".join(table for table in (latency, throughput) if table)


def case(key: str, work: Work, distance: str) -> str:
    """`aeron-c.latency.40.50k.near`."""
    return f"{key}.{work.key}.{distance}"


def _table(head: str, media: Media, works: list[Work], cell) -> str:  # noqa: ANN001
    lines = []
    for title, key in media:
        cells = [cell(key, work) for work in works]
        if any(cells):
            lines.append(f"| {title} | {' | '.join(found or '–' for found in cells)} |")
    if not lines:
        return ""
    titles = " | ".join(work.title for work in works)
    return "\n".join([f"| {head} | {titles} |", "|---|" + "---:|" * len(works), *lines]) + "\n"


def _latency(figures: dict[tuple[str, str], Row], name: str) -> str | None:
    rows = [figures.get((name, percentile)) for percentile in PERCENTILES]
    if rows[0] is None:
        return None
    median, *others = (_number(row.value * _MICROSECONDS[row.unit]) if row else "–" for row in rows)
    return f"{' / '.join([f'**{median}**', *others])} ({rows[0].n})"


def _rate(row: Row | None) -> str | None:
    if row is None:
        return None
    value, least, most = (_number(figure / 1e6) for figure in (row.value, row.min, row.max))
    return f"**{value}** ({least} … {most}; {row.n})"


def _number(value: float) -> str:
    """Three digits that matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"
