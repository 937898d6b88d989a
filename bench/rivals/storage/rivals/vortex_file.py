"""A Vortex file, mapped, scanned to Arrow in the types it was written from (symbols stay dictionaries).

Its workers decode beside the calling thread, which sums up: so one less of them than threads.
"""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import vortex

from ..sums import ArrowSums, Sums, Texts


class VortexFile:
    """See the module."""

    def __init__(self, options: vortex.io.VortexWriteOptions) -> None:
        self._options = options

    def write(self, source: pa.Table, texts: Texts, path: Path, threads: int) -> None:
        """Writes what the options say."""
        vortex.set_worker_threads(threads - 1)
        self._options.write(source.to_reader(), str(path))

    def reader(self, path: Path, texts: Texts, threads: int) -> Callable[[], Sums]:
        """A scan of all columns."""
        vortex.set_worker_threads(threads - 1)
        sums = ArrowSums(texts)

        def read() -> Sums:
            file = vortex.open(str(path), memory_map=True)
            return sums.of(file.to_arrow(schema=_with_dictionaries(file.to_arrow().schema, texts)))

        return read


RIVAL = VortexFile(vortex.io.VortexWriteOptions.default())


def _with_dictionaries(schema: pa.Schema, texts: Texts) -> pa.Schema:
    """Vortex itself would give the texts, one for each row."""
    code = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(code) if field.name in texts else field for field in schema])
