"""What a query found, so that two answers can be compared: rows, and of each number column nulls and sum."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

# Sums of floats are added in another order.
_MARGIN = 1e-9


@dataclass(frozen=True)
class Answer:
    """Rows of a result, and nulls and sum of each column of numbers and times, in their order.

    Times are added up from the first one on.
    """

    rows: int
    columns: list[tuple[int, int | float]]

    def is_near(self, other: "Answer", apart_from: int = 0) -> bool:
        """Whether both are the same but for the last digits of sums.

        Of that many columns at the end sums are not compared.
        """
        if self.rows != other.rows or len(self.columns) != len(other.columns):
            return False
        is_summed = len(self.columns) - apart_from
        pairs = enumerate(zip(self.columns, other.columns, strict=True))
        return all(_near(*pair) if at < is_summed else pair[0][0] == pair[1][0] for at, pair in pairs)


def _near(ours: tuple[int, int | float], theirs: tuple[int, int | float]) -> bool:
    if isinstance(ours[1], int) and isinstance(theirs[1], int):
        return ours == theirs
    return ours[0] == theirs[0] and abs(ours[1] - theirs[1]) <= _MARGIN * max(1.0, abs(ours[1]))


def answer(table: pa.Table) -> Answer:
    """The answer of a table: columns of texts are not added up."""
    return Answer(table.num_rows, [found for column in table.columns for found in _sums(column)])


def _sums(column: pa.ChunkedArray) -> Iterable[tuple[int, int | float]]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        nanos = column.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
        first = pc.min(nanos).as_py() or 0
        yield nanos.null_count, first
        yield nanos.null_count, pc.sum(pc.subtract(nanos, first)).as_py() or 0
    elif pa.types.is_integer(kind):
        yield column.null_count, pc.sum(column).as_py() or 0
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # NaN stands for null in frames of pandas.
        values = column.cast(pa.float64())
        values = pc.if_else(pc.is_nan(values), None, values)
        yield values.null_count, pc.sum(values).as_py() or 0.0
