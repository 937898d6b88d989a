"""What notebooks show."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from ._tapedb import format_time

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(counts: Sequence[int]) -> str:
    """Counts as a line of bars, one letter each."""
    most = max(counts, default=0)
    if not most:
        return ""
    return "".join(_BARS[min(len(_BARS) - 1, count * len(_BARS) // most)] if count else "·" for count in counts)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], under: Sequence[str] | None = None, caption: str = "") -> str:
    """An HTML table; `under` is a second line of the head, such as types."""

    def cell(tag: str, value: Any) -> str:
        return f"<{tag}>{html.escape(str(value))}</{tag}>"

    lines = [f"<p>{html.escape(caption)}</p>" if caption else "", "<table><thead>"]
    lines.append(f"<tr>{''.join(cell('th', name) for name in head)}</tr>")
    if under:
        lines.append(f"<tr>{''.join(cell('td', name) for name in under)}</tr>")
    lines.append("</thead><tbody>")
    lines += [f"<tr>{''.join(cell('td', value) for value in row)}</tr>" for row in rows]
    lines.append("</tbody></table>")
    return "".join(lines)


def code(text: str) -> str:
    """A schema or another text of fixed width."""
    return f"<pre>{html.escape(text)}</pre>"


def text(line: str) -> str:
    """A line of text."""
    return f"<p>{html.escape(line)}</p>"


def size(count: int) -> str:
    """Bytes for people."""
    number = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def time(nanos: int | None) -> str:
    """A time as text; empty where there is none."""
    return "" if nanos is None else format_time(nanos)
