"""The expected sums, straight from the text that the data come in, with the standard library alone.

This is the second opinion on what pyarrow parses, and so on all that the rivals store.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from .sums import Sums

# Distinct values of a column that are kept before they are added up.
_DISTINCT_MAX = 1 << 17
# Lines that are split at once.
_LINES = 1 << 14

# From the text of a field to what it counts; None for texts, which count by their place among all.
Parser = Callable[[str], int] | None


class TextSums:
    """Adds up CSV: `columns` are name, index of the field, and parser."""

    def __init__(self, columns: list[tuple[str, int, Parser]]) -> None:
        self._columns = [_Column(name, field, parse) for name, field, parse in columns]
        self._rows = 0

    def add(self, block: bytes, constants: dict[str, str] | None = None) -> None:
        """Adds whole lines without a header; `constants` are columns that the lines do not have."""
        for fields in _transposed(block):
            self._rows += len(fields[0])
            for column in self._columns:
                if constants and column.name in constants:
                    column.add([constants[column.name]] * len(fields[0]))
                else:
                    column.add(fields[column.field])

    def flush(self) -> None:
        """Parses what was added so far: what a parser depends on may change from now on."""
        for column in self._columns:
            column.flush()

    def sums(self) -> Sums:
        """Of all lines so far."""
        return Sums(self._rows, {column.name: column.sum() for column in self._columns})

    def texts(self) -> dict[str, list[str]]:
        """The distinct texts of the columns of texts, in their order."""
        return {column.name: sorted(column.counts) for column in self._columns if column.parse is None}


class _Column:
    def __init__(self, name: str, field: int, parse: Parser) -> None:
        self.name = name
        self.field = field
        self.parse = parse
        self.counts: Counter[str] = Counter()
        self._total = 0

    def add(self, values: tuple[str, ...] | list[str]) -> None:
        self.counts.update(values)
        if len(self.counts) > _DISTINCT_MAX:
            self.flush()

    def sum(self) -> int:
        if self.parse is None:
            return sum(place * self.counts[text] for place, text in enumerate(sorted(self.counts)))
        self.flush()
        return self._total

    def flush(self) -> None:
        if self.parse is not None:
            self._total += sum(self.parse(text) * count for text, count in self.counts.items())
            self.counts.clear()


def _transposed(block: bytes) -> Iterator[list[tuple[str, ...]]]:
    """The fields of so many lines at once, column by column."""
    lines = block.decode("ascii").splitlines()
    for first in range(0, len(lines), _LINES):
        rows = (line.split(",") for line in lines[first : first + _LINES])
        yield list(zip(*rows, strict=True))
