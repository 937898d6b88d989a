"""Tables out: messages of one record type as columns, for Polars, pandas, pyarrow, NumPy and DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import _html, _tapedb
from ._errors import Closed, Unavailable
from ._local import Local
from ._progress import progress_of

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    # Of any dtype.
    Array = np.ndarray[Any, Any]


def _import(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Unavailable(f"{name} is not installed: pip install {name}") from error


class _Columns(Local):
    """What tables and record batches can be turned into."""

    def _parts(self, progress: Callable[[int], None] | None = None) -> list[tuple[str, tuple[Any, ...]]]:
        raise NotImplementedError

    def _to_numpy(self, progress: Callable[[int], None] | None = None) -> dict[str, Array]:
        return {name: _array(parts) for name, parts in self._parts(progress)}

    def _to_pandas(self, progress: Callable[[int], None] | None = None) -> pd.DataFrame:
        pandas = _import("pandas")
        columns = {name: _series(pandas, parts) for name, parts in self._parts(progress)}
        frame: pd.DataFrame = pandas.DataFrame(columns, copy=False)
        return frame


class RecordBatch(_Columns):
    """Up to 65,536 messages of one record type as columns.

    It has Arrow's interface (`__arrow_c_array__`, `__arrow_c_stream__`): `polars.DataFrame(batch)`, `pyarrow.record_batch(batch)`.

    Examples:
        >>> batch = next(iter(stream.table()))
        >>> batch
        RecordBatch(3 rows; time: Timestamp(ns, "UTC"), symbol: Dictionary(Int32, Utf8), price: Float64, size: UInt32)
        >>> batch["size"]
        array([100, 200, 300], dtype=uint32)
    """

    def __init__(self, batch: _tapedb.Batch) -> None:
        self._batch = batch

    @property
    def num_rows(self) -> int:
        """Rows: at least 1."""
        return self._batch.num_rows

    @property
    def column_names(self) -> list[str]:
        """Names of the columns: time, symbol, and the fields."""
        return self._batch.names

    def _parts(self, progress: Callable[[int], None] | None = None) -> list[tuple[str, tuple[Any, ...]]]:
        return [(name, self._batch.parts(index)) for index, name in enumerate(self._batch.names)]

    def to_polars(self) -> pl.DataFrame:
        """As a Polars frame."""
        frame: pl.DataFrame = _import("polars").DataFrame(self)
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas frame."""
        return self._to_pandas()

    def to_arrow(self) -> pa.RecordBatch:
        """As a record batch of pyarrow, without a copy."""
        return _import("pyarrow").record_batch(self)

    def to_numpy(self) -> dict[str, Array]:
        """As NumPy arrays by name, each of shape `(num_rows,)`: read-only views where a column has a fixed width and no nulls."""
        return self._to_numpy()

    def __getitem__(self, name: str) -> Array:
        names = self._batch.names
        if name not in names:
            raise KeyError(f"the batch has no column {name!r}; there is {', '.join(names)}")
        found: Array = _array(self._batch.parts(names.index(name)))
        return found

    def __len__(self) -> int:
        return self._batch.num_rows

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._batch.__arrow_c_array__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._batch.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._batch.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in zip(self._batch.names, self._batch.types))
        return f"RecordBatch({self.num_rows} rows; {columns})"

    def _repr_html_(self) -> str:
        return _html.table(self._batch.names, _rows(self, 10), self._batch.types, f"{self.num_rows:,} rows")


class Table(_Columns):
    """Messages of one record type as columns, which are read when they are asked for, each time again.

    Columns are `time` (UTC), `symbol` and the fields; rows are in time order. It has Arrow's stream interface: every library that
    reads Arrow takes it, without all of it being in memory: `duckdb.sql("select … from ticks")`, `polars.DataFrame(table)`.

    Examples:
        >>> table = stream.table("Tick", ["price"], symbols=["AIG"])
        >>> table.to_numpy()["price"]
        array([48.35, 48.36])
        >>> table.count()
        2
    """

    def __init__(
        self, what: str, batches: Callable[..., _tapedb.Batches], count: Callable[[], int], *, progress: bool = False
    ) -> None:
        self._what = what
        self._read = batches
        self._count = count
        self._progress = progress

    @property
    def columns(self) -> dict[str, str]:
        """Arrow types of the columns, by name."""
        return dict(self._read().columns)

    def batches(self) -> Iterator[RecordBatch]:
        """The rows as record batches, one after the other: the memory is that of one batch.

        Raises:
            SchemaMismatch: A decimal is not exact in the type that was asked for; `row` is its row in the table.
            Damaged: Stored messages cannot be read.

        Examples:
            >>> sum(int(batch["size"].sum()) for batch in stream.table().batches())
            600
        """
        for batch in self._read():
            yield RecordBatch(batch)

    def __iter__(self) -> Iterator[RecordBatch]:
        return self.batches()

    def _parts(self, progress: Callable[[int], None] | None = None) -> list[tuple[str, tuple[Any, ...]]]:
        return _tapedb.collect(self._read(), progress)

    def _in_memory(self) -> _tapedb.Batches:
        with progress_of(self._progress, self._what) as progress:
            return self._read().read_all(progress)

    def to_polars(self) -> pl.DataFrame:
        """As a Polars frame of shape `(rows, columns)`. `time` is `Datetime("ns", "UTC")`; symbols and enums are categories.

        Raises:
            Unavailable: Polars is not installed.
            SchemaMismatch: A decimal is not exact in the type that was asked for.

        Examples:
            >>> stream.table("Tick", ["size"]).to_polars()["size"].to_list()
            [100, 200, 300]
        """
        frame: pl.DataFrame = _import("polars").DataFrame(_Stream(self._in_memory()))
        return frame

    def to_arrow(self) -> pa.Table:
        """As a table of pyarrow, without a copy of the columns."""
        return _import("pyarrow").table(_Stream(self._in_memory()))

    def to_pandas(self) -> pd.DataFrame:
        """As a pandas frame of shape `(rows, columns)`, without pyarrow. `time` is `datetime64[ns, UTC]`; symbols and enums are
        categories, integers that may be null are `Int64` and such.

        Raises:
            Unavailable: pandas is not installed.

        Examples:
            >>> int(stream.table().to_pandas().groupby("symbol", observed=True)["size"].sum()["AIG"])
            400
        """
        with progress_of(self._progress, self._what) as progress:
            return self._to_pandas(progress)

    def to_numpy(self) -> dict[str, Array]:
        """As NumPy arrays by name, each of shape `(rows,)`. `time` is `datetime64[ns]`, UTC; symbols and enums are objects; columns
        with nulls are masked arrays, floats have NaN instead.

        Raises:
            Unavailable: NumPy is not installed.

        Examples:
            >>> stream.table("Tick", ["size"], symbols="AIG").to_numpy()["size"]
            array([100, 300], dtype=uint32)
        """
        with progress_of(self._progress, self._what) as progress:
            return self._to_numpy(progress)

    def to_duckdb(self, connection: Any = None) -> Any:
        """As a relation of DuckDB, which reads the rows as it needs them, each time again.

        Examples:
            >>> relation = stream.table().to_duckdb()
            >>> relation.aggregate("sum(size)").fetchall(), relation.filter("size > 100").aggregate("count(*)").fetchall()
            ([(600,)], [(2,)])
        """
        duckdb = connection if connection is not None else _import("duckdb")
        return duckdb.from_arrow(self)

    def count(self) -> int:
        """Number of rows: of sealed history only the heads of blocks are read."""
        return self._count()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._read().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._read().__arrow_c_schema__()

    def __repr__(self) -> str:
        try:
            columns = ", ".join(f"{name}: {kind}" for name, kind in self.columns.items())
        except Closed:
            return f"Table({self._what}; closed)"
        return f"Table({self._what}; {columns})"

    def _repr_html_(self) -> str:
        try:
            columns = self.columns
        except Closed:
            return _html.text(f"Table({self._what}), closed")
        first = next(self.batches(), None)
        rows = _rows(first, 10) if first is not None else []
        return _html.table(list(columns), rows, list(columns.values()), f"{self._what}, the first rows")


class _Stream:
    """Batches that a consumer takes once."""

    def __init__(self, batches: _tapedb.Batches) -> None:
        self._batches = batches

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._batches.__arrow_c_stream__(requested_schema)


def _rows(batch: RecordBatch, count: int) -> list[tuple[Any, ...]]:
    """The first rows as Python has them."""
    columns = RecordBatch(batch._batch.slice(0, count))._to_numpy()
    return list(zip(*[column.tolist() if column.dtype.kind != "M" else column.astype(str) for column in columns.values()]))


def _array(parts: tuple[Any, ...]) -> Any:
    """The NumPy array of a column's parts."""
    np = _import("numpy")
    dtype, values, nulls, categories = parts
    if dtype == "object":
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    if dtype.startswith("category"):
        codes = np.frombuffer(values, dtype.removeprefix("category "))
        names = np.empty(len(categories) + 1, dtype=object)
        names[:-1] = categories
        if nulls is not None:
            codes = np.where(np.frombuffer(nulls, "?"), len(categories), codes)
        return names[codes]
    found = np.frombuffer(values, dtype)
    if nulls is None:
        return found
    mask = np.frombuffer(nulls, "?")
    kind = np.dtype(dtype).kind
    if kind in "fMm":
        missing = np.nan if kind == "f" else np.array("NaT", dtype)
        return np.where(mask, missing, found).astype(dtype, copy=False)
    return np.ma.MaskedArray(found, mask=mask)


def _series(pandas: Any, parts: tuple[Any, ...]) -> Any:
    """What pandas has as a column."""
    np = _import("numpy")
    dtype, values, nulls, categories = parts
    if dtype.startswith("category"):
        codes = np.frombuffer(values, dtype.removeprefix("category "))
        if nulls is not None:
            codes = np.where(np.frombuffer(nulls, "?"), -1, codes)
        return pandas.Categorical.from_codes(codes, categories=categories)
    if dtype == "<M8[ns]":
        # As integers of UTC, which pandas reads in place. It copies times when they get a zone.
        return pandas.array(_array(parts).view("i8"), dtype=pandas.DatetimeTZDtype("ns", "UTC"), copy=False)
    if dtype == "object" and all(value is None or isinstance(value, str) for value in values):
        return pandas.Series(values, dtype="str")
    if nulls is None or dtype == "object" or np.dtype(dtype).kind in "fm":
        return _array(parts)
    mask = np.frombuffer(nulls, "?").copy()
    found = np.frombuffer(values, dtype).copy()
    if dtype == "?":
        return pandas.arrays.BooleanArray(found, mask)
    return pandas.arrays.IntegerArray(found, mask)


