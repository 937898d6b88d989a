"""Writes docs/PYTHON-API.md from the docstrings: `python reference.py > ../docs/PYTHON-API.md`."""

from __future__ import annotations

import inspect
import re

import tapedb

ORDER = [
    "open", "Database", "Stream", "Stats", "Loader", "Cursor", "Message", "Record", "Table", "Query", "BatchReader", "RecordBatch", "serve",
    "Server", "topic", "topics", "delete_topic", "Topic", "Publisher", "Subscriber", "nanos", "format_time", "to_datetime",
]


def page() -> str:
    """The page."""
    errors = [name for name in tapedb.__all__ if inspect.isclass(getattr(tapedb, name)) and issubclass(getattr(tapedb, name), Exception)]
    rest = [name for name in tapedb.__all__ if name not in [*ORDER, *errors, "types"]]
    assert not rest, f"not in the order: {rest}"
    lines = [
        "# Python: reference",
        "",
        "Made from the docstrings by `python/reference.py`. [PYTHON.md](PYTHON.md) is the guide.",
    ]
    for name in ORDER:
        lines += described(name, getattr(tapedb, name))
    lines += ["", "## Errors", ""]
    for name in sorted(errors, key=lambda name: len(getattr(tapedb, name).__mro__)):
        error = getattr(tapedb, name)
        bases = ", ".join(base.__name__ for base in error.__bases__)
        lines += [f"**`{name}`** ({bases}). {one_line(error.__doc__)}", ""]
    return "\n".join(lines).rstrip() + "\n"


def described(name: str, value: object) -> list[str]:
    """A section for a class or function."""
    if not inspect.isclass(value):
        return ["", f"## `tapedb.{name}{signature(value)}`", "", *prose(value.__doc__)]
    lines = ["", f"## `{name}`", "", *prose(value.__doc__)]
    for member, found in members(value):
        if isinstance(found, property) or inspect.isgetsetdescriptor(found):
            lines += ["", f"**`{name}.{member}`** {one_line(found.__doc__)}"]
        else:
            lines += ["", f"### `{name}.{member}{signature(found)}`", "", *prose(found.__doc__)]
    return lines


def members(cls: type) -> list[tuple[str, object]]:
    found = [(name, value) for name, value in vars(cls).items() if not name.startswith("_")]
    if issubclass(cls, tapedb.Record):
        # Of Rust: the attributes have no order there.
        found.sort(key=lambda member: member[0])
    return [(name, value) for name, value in found if getattr(value, "__doc__", None) and (callable(value) or hasattr(value, "__get__"))]


def signature(value: object) -> str:
    try:
        text = str(inspect.signature(value))
    except (TypeError, ValueError):
        return "()"
    text = re.sub(r"\(self(, )?", "(", text).replace("'", "")
    return re.sub(r"\(/(, )?", "(", text).replace("($self, /", "(").replace("tapedb._inputs.", "")


def one_line(doc: str | None) -> str:
    return " ".join(inspect.cleandoc(doc or "").split())


def prose(doc: str | None) -> list[str]:
    """A docstring as Markdown: its sections become lists, its examples code."""
    lines: list[str] = []
    section = ""
    for line in inspect.cleandoc(doc or "").replace(":class:`", "`").replace(":meth:`", "`").replace(":attr:`", "`").replace(":func:`", "`").splitlines():
        if line in ("Args:", "Raises:", "Examples:", "Returns:"):
            section = line[:-1]
            lines += [f"*{section}*", ""] if section != "Examples" else ["```python no-run"]
            continue
        if section == "Examples":
            lines.append(line.removeprefix("    "))
            continue
        if section and line and not line.startswith(" "):
            section = ""
            lines.append("")
        if section in ("Args", "Raises") and re.match(r"    \S", line):
            word, _, rest = line.strip().partition(": ")
            lines.append(f"- `{word}`: {rest}" if rest else f"- {word}")
            continue
        lines.append(line.strip() if section else line)
    while lines and not lines[-1]:
        lines.pop()
    return [*lines, "```"] if section == "Examples" else lines


if __name__ == "__main__":
    print(page(), end="")
