"""The sum of every column: what a reader must find, and what proves that it touched every field of every row.

Sums are modulo 2^64. A text counts as its place among all texts of its column, sorted; a bool as 0 or 1.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

MODULUS = 1 << 64


class Sums:
    """Rows seen, and the sum of each column by its name."""

    def __init__(self, rows: int = 0, columns: dict[str, int] | None = None) -> None:
        self.rows = rows
        self.columns = {name: total % MODULUS for name, total in (columns or {}).items()}

    def add(self, other: "Sums") -> None:
        """Adds what another has seen."""
        self.rows += other.rows
        for name, total in other.columns.items():
            self.columns[name] = (self.columns.get(name, 0) + total) % MODULUS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sums) and self.__dict__ == other.__dict__

    def __repr__(self) -> str:
        return f"{self.rows} rows, sums {self.columns}"


Texts = dict[str, list[str]]


class Source(Protocol):
    """A file open for reading, in parts that are read on their own."""

    def parts(self) -> int: ...

    def part(self, index: int) -> pa.RecordBatch | pa.Table: ...


class ArrowSums:
    """Sums of Arrow columns, computed by pyarrow's kernels."""

    def __init__(self, texts: Texts) -> None:
        self._texts = {name: pa.array(values) for name, values in texts.items()}

    def of(self, batches: Iterable[pa.RecordBatch | pa.Table]) -> Sums:
        """Of all batches, one by one as they come."""
        sums = Sums()
        for batch in batches:
            sums.add(
                Sums(batch.num_rows, {name: self._column(name, batch[name]) for name in batch.schema.names})
            )
        return sums

    def of_parts(self, sources: list[Source]) -> Sums:
        """Of all parts of a file: a thread for each source, all of the same file, takes parts in turns."""
        count = len(sources)
        if count == 1:
            return self.of(_share(sources[0], 0, 1))
        sums = Sums()
        with ThreadPoolExecutor(count) as pool:
            for found in pool.map(lambda at: self.of(_share(sources[at], at, count)), range(count)):
                sums.add(found)
        return sums

    def _column(self, name: str, column: pa.Array | pa.ChunkedArray) -> int:
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return sum(self._chunk(name, chunk) for chunk in chunks)

    def _chunk(self, name: str, chunk: pa.Array) -> int:
        if pa.types.is_dictionary(chunk.type):
            return self._places(name, chunk)
        if pa.types.is_timestamp(chunk.type):
            chunk = chunk.view(pa.int64())
        return pc.sum(chunk, min_count=0).as_py()

    def _places(self, name: str, chunk: pa.DictionaryArray) -> int:
        """A file's dictionary may be in another order than the texts."""
        texts = self._texts[name]
        if chunk.dictionary.equals(texts):
            return pc.sum(chunk.indices, min_count=0).as_py()
        places = pc.index_in(chunk.dictionary.cast(texts.type), texts)
        return pc.sum(places.take(chunk.indices), min_count=0).as_py()


def _share(source: Source, first: int, step: int) -> Iterable[pa.RecordBatch | pa.Table]:
    return (source.part(index) for index in range(first, source.parts(), step))
