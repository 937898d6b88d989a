"""A data set as all rivals get it: an Arrow file to map, and the sums that every reader must find."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .sums import ArrowSums, Sums, Texts
from .text_sums import TextSums

# Rows of a batch of the file; pyarrow's own choice for row groups of Parquet.
BATCH_ROWS = 1 << 20


class DataError(Exception):
    """The data are not what they should be; says what to do."""


@dataclass(frozen=True)
class Dataset:
    """A data set on disk."""

    name: str
    source: Path
    expected: Sums
    texts: Texts


def write_dataset(name: str, table: pa.Table, text: TextSums, folder: Path) -> Dataset:
    """Writes the table as a file to map, after its sums were found to be those of the text."""
    expected, texts = text.sums(), text.texts()
    found = ArrowSums(texts).of(table.to_batches())
    if found != expected:
        raise DataError(f"{name}: the text has {expected}, pyarrow parsed {found}; please report this")
    source = folder / f"{name}.source.arrow"
    with pa.ipc.new_file(source, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)
    return Dataset(name, source, expected, texts)


def mapped(source: Path) -> pa.Table:
    """The table, in the page cache."""
    return pa.ipc.open_file(pa.memory_map(str(source))).read_all()
