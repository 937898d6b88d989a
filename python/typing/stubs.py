"""Prints the stub of the module from what maturin makes of the types that it states: `stubs.py FILE`.

Types that are written in Rust as Python's are there as texts; containers without types of their items have any; capsules are objects,
for their type has a name from Python 3.13 on alone; and fields are attributes of the classes that are made for record types, which the base
class has none of.
"""

from __future__ import annotations

import re
import sys

BARE = {"dict": "dict[str, Any]", "list": "list[Any]", "tuple": "tuple[Any, ...]", "CapsuleType": "object"}


def stub(text: str) -> str:
    """The stub."""
    lines = []
    for line in text.splitlines():
        if re.match(r"\s*def ", line):
            line = re.sub(r'((?:->|:) )"([^"]*)"', r"\1\2", line)
            line = re.sub(r"\b(dict|list|tuple|CapsuleType)\b(?!\[)", lambda found: BARE[found[0]], line)
        lines.append(line)
    text = "\n".join(lines) + "\n"
    text = text.replace("from types import CapsuleType\n", "")
    if "Callable[" in text:
        text = text.replace('"""\n\n', '"""\n\nfrom collections.abc import Callable\n', 1)
    # Type checkers have it for every object, to be written.
    text = text.replace("    @property\n    def __doc__(self, /) -> str: ...\n", "")
    # Rust cannot state it: it is a slot of the type.
    text = text.replace("def __next__(self, /) -> Any:", "def __next__(self, /) -> Message:")
    any_field = "    def __getattr__(self, name: str, /) -> Any: ...\n"
    return re.sub(r"(class Record:\n(?:    .*\n)*?)(    def __getitem__)", rf"\1{any_field}\2", text, count=1)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        print("# Made by python/check stubs.\n" + stub(file.read()), end="")
