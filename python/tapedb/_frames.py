"""Tables in: what people have as columns, as something with Arrow's stream interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _tapedb
from ._errors import SchemaMismatch


def with_arrow(table: Any, time: str = "time") -> Any:
    """An object with `__arrow_c_stream__` or `__arrow_c_array__` for a frame, a table, or a dictionary of columns.

    An index of times without a name, which many frames of pandas have, is the column `time`.
    """
    if isinstance(table, Mapping):
        return _of_columns(table)
    if type(table).__module__.split(".")[0] == "pandas":
        return _of_pandas(table, time)
    if type(table).__name__ == "LazyFrame" and hasattr(table, "collect"):
        table = table.collect()
    if type(table).__name__ == "DataFrame" and type(table).__module__.startswith("polars"):
        # A column without any value has no type: as if it were left out.
        untyped = [name for name, dtype in table.schema.items() if str(dtype) == "Null" and name in table.columns]
        return table.drop(untyped) if untyped and table.height else table.with_columns(**{name: table[name].cast(str) for name in untyped})
    if hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__"):
        return table
    if hasattr(table, "__dataframe__"):
        from pyarrow.interchange import from_dataframe

        return from_dataframe(table)
    if getattr(getattr(table, "dtype", None), "names", None):
        return _of_columns({name: table[name] for name in table.dtype.names})
    raise TypeError(
        f"{type(table).__name__} is not a table; give a frame of Polars or pandas, an Arrow table, a DuckDB relation, or a dictionary "
        "of columns"
    )


def _of_columns(columns: Mapping[str, Any]) -> _tapedb.Batch:
    if not columns:
        raise SchemaMismatch("the table has no columns; give time, symbol and the fields")
    lengths = [len(values) for values in columns.values() if not _is_single(values)]
    if not lengths:
        raise SchemaMismatch("the table has single values alone; give the times as a list or an array")
    # A single value is that of all rows, such as the symbol of a table about one.
    filled = {name: [values] * lengths[0] if _is_single(values) else values for name, values in columns.items()}
    return _tapedb.batch_of_columns([(str(name), *_column(str(name), values)) for name, values in filled.items()])


def _is_single(values: Any) -> bool:
    """Whether it is one value, not a column of them."""
    return isinstance(values, (str, bytes)) or not hasattr(values, "__len__")


def _column(name: str, values: Any) -> tuple[str, Any]:
    """A dtype and values with the buffer protocol, `list` and a list, or `arrow` and an array of Arrow."""
    dtype = getattr(values, "dtype", None)
    is_arrow = hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")
    if is_arrow and not hasattr(dtype, "kind"):
        return "arrow", values
    if dtype is None or not hasattr(dtype, "kind"):
        return "list", list(values)
    import numpy as np

    values = np.asarray(values)
    if values.ndim != 1:
        raise SchemaMismatch(f"column {name!r} has {values.ndim} dimensions; a column has one")
    if not len(values):
        # It may be anywhere in memory.
        values = np.empty(0, values.dtype)
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        return "list", values.tolist()
    kind = values.dtype.kind
    if kind == "M":
        if np.isnat(values).any():
            return "list", [None if np.isnat(value) else value for value in values]
        nanos = values.astype("M8[ns]", copy=False)
        wrong = np.flatnonzero(nanos.astype(values.dtype, copy=False) != values)
        if len(wrong):
            row = int(wrong[0])
            error = SchemaMismatch(f"column {name!r}, row {row}: {values[row]} is not a time of whole nanoseconds from 1677 to 2262")
            error.field, error.row = name, row
            raise error
        return "ns", np.require(nanos, requirements="A").view("i8")
    if kind in "iuf" and values.dtype.itemsize <= 8 and values.dtype != np.float16:
        return f"{kind}{values.dtype.itemsize}", np.require(values.astype(values.dtype.newbyteorder("="), copy=False), requirements="A")
    if kind == "b":
        return "b1", values.view("u1")
    return "list", values.tolist()


def _of_pandas(table: Any, time: str) -> Any:
    """A frame of pandas: through pyarrow where it is installed."""
    frame = table if hasattr(table, "columns") else table.to_frame()
    if type(frame.index).__name__ == "DatetimeIndex" and frame.index.name is None and time not in frame.columns:
        frame = frame.rename_axis(time).reset_index()
    elif any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    try:
        import pyarrow as pa
    except ImportError:
        return _of_columns({str(name): _pandas_column(frame[name]) for name in frame.columns})
    return pa.Table.from_pandas(frame, preserve_index=False)


def _pandas_column(series: Any) -> Any:
    kind = getattr(series.dtype, "kind", "O")
    if hasattr(series.dtype, "tz"):
        return series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    if kind in "iufb" and not series.isna().any():
        return series.to_numpy()
    return [None if missing else value for value, missing in zip(series.tolist(), series.isna())]
