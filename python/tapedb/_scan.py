"""A stream as a lazy frame of Polars: what can be decided while reading is decided there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ._table import RecordBatch, _import

if TYPE_CHECKING:
    import polars as pl

    from ._stream import Stream

_UNITS = {"Nanoseconds": 1, "Microseconds": 1_000, "Milliseconds": 1_000_000}
_MIRRORED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}


@dataclass(frozen=True)
class Wanted:
    """Bounds that every wanted message satisfies: times from `start` to before `end`, and symbols; `None`: any."""

    start: int | None = None
    end: int | None = None
    symbols: frozenset[str] | None = None

    def both(self, other: Wanted) -> Wanted:
        """The bounds that hold when both do."""
        starts = [start for start in (self.start, other.start) if start is not None]
        ends = [end for end in (self.end, other.end) if end is not None]
        sets = [symbols for symbols in (self.symbols, other.symbols) if symbols is not None]
        return Wanted(max(starts, default=None), min(ends, default=None), frozenset.intersection(*sets) if sets else None)


def scan(stream: Stream, record: str, decimals: Any) -> pl.LazyFrame:
    """A lazy frame over the messages of a record type."""
    polars = _import("polars")
    plugins = _import("polars.io.plugins")

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = bounds_of(predicate)
        if wanted.symbols is not None and not wanted.symbols:
            return
        needed = None if with_columns is None else set(with_columns)
        if needed is not None and predicate is not None:
            needed |= set(predicate.meta.root_names())
        fields = [name for name, *_ in stream._stream.fields(record) or [] if needed is None or name in needed]
        of_fields = {name: kind for name, kind in decimals.items() if name in fields} if isinstance(decimals, dict) else decimals
        batches = stream.arrow(
            record,
            fields,
            start=wanted.start,
            end=wanted.end,
            symbols=None if wanted.symbols is None else sorted(wanted.symbols),
            decimals=of_fields,
        )
        for frame in _frames(polars, batches, batch_size):
            if predicate is not None:
                frame = frame.filter(predicate)
            if with_columns is not None:
                frame = frame.select(with_columns)
            if n_rows is not None:
                frame = frame.head(n_rows)
                n_rows -= len(frame)
            yield frame
            if n_rows == 0:
                return

    table = stream.table(record, decimals=decimals)
    schema = polars.DataFrame(_Empty(table)).schema
    frame: pl.LazyFrame = plugins.register_io_source(read, schema=schema, is_pure=False)
    return frame


class _Empty:
    """A table's schema without its rows."""

    def __init__(self, table: Any) -> None:
        self._batches = table._read()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._batches.empty().__arrow_c_stream__(requested_schema)


def _frames(pl: Any, batches: Iterator[RecordBatch], batch_size: int | None) -> Iterator[Any]:
    """Batches as frames of about the size that Polars asks for."""
    waiting: list[Any] = []
    rows = 0
    for batch in batches:
        waiting.append(pl.DataFrame(batch))
        rows += batch.num_rows
        if rows >= (batch_size or 100_000):
            yield pl.concat(waiting, rechunk=False)
            waiting, rows = [], 0
    if waiting:
        yield pl.concat(waiting, rechunk=False)


def bounds_of(predicate: Any) -> Wanted:
    """Bounds on time and symbol that follow from a predicate. What is not understood bounds nothing: Polars filters anyway."""
    if predicate is None:
        return Wanted()
    try:
        return _of(json.loads(predicate.meta.serialize(format="json")))
    except Exception:
        # Whatever it is, also a predicate that is nested too deep to be looked at.
        return Wanted()


def _of(node: Any) -> Wanted:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return _of(left).both(_of(right))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return _either(_of(left), _of(right))
        case {"BinaryExpr": {"left": {"Column": name}, "op": str(op), "right": {"Literal": literal}}}:
            return _compared(name, op, literal)
        case {"BinaryExpr": {"left": {"Literal": literal}, "op": str(op), "right": {"Column": name}}}:
            return _compared(name, _MIRRORED.get(op, ""), literal)
        case {"Function": {"input": [{"Column": "symbol"}, {"Literal": literal}], "function": {"Boolean": {"IsIn": _}}}}:
            symbols = _texts(literal)
            return Wanted(symbols=symbols) if symbols is not None else Wanted()
        case {
            "Function": {
                "input": [{"Column": "time"}, {"Literal": low}, {"Literal": high}],
                "function": {"Boolean": {"IsBetween": {"closed": str(closed)}}},
            }
        }:
            lower = _compared("time", "GtEq" if closed in ("Both", "Left") else "Gt", low)
            return lower.both(_compared("time", "LtEq" if closed in ("Both", "Right") else "Lt", high))
        case {"Alias": [inner, _]}:
            return _of(inner)
    return Wanted()


def _either(one: Wanted, other: Wanted) -> Wanted:
    """The bounds that hold when one of the two does."""
    start = None if one.start is None or other.start is None else min(one.start, other.start)
    end = None if one.end is None or other.end is None else max(one.end, other.end)
    symbols = None if one.symbols is None or other.symbols is None else one.symbols | other.symbols
    return Wanted(start, end, symbols)


def _compared(name: str, op: str, literal: Any) -> Wanted:
    """The bounds of a comparison of a column with a literal."""
    if name == "symbol" and op == "Eq":
        texts = _texts(literal)
        return Wanted(symbols=texts) if texts is not None else Wanted()
    time = _time(literal) if name == "time" else None
    if time is None:
        return Wanted()
    lowest, highest = time
    found = Wanted()
    if op in ("Eq", "GtEq"):
        found = replace(found, start=lowest)
    if op in ("Eq", "LtEq"):
        found = replace(found, end=highest + 1)
    if op == "Gt":
        found = replace(found, start=lowest + 1)
    if op == "Lt":
        found = replace(found, end=lowest)
    # Beyond the range of nanoseconds there is nothing to bound.
    bounds = [bound for bound in (found.start, found.end) if bound is not None]
    return found if all(-(2**63) <= bound < 2**63 for bound in bounds) else Wanted()


def _time(literal: Any) -> tuple[int, int] | None:
    """The first and the last nanosecond of a literal of time, UTC."""
    match literal:
        case {"Scalar": {"Datetime": [int(count), str(unit), *zone]}} | {"Datetime": [int(count), str(unit), *zone]}:
            if unit in _UNITS:
                # Polars may compare in the unit of the literal, in which times within one unit are equal.
                return count * _UNITS[unit], (count + 1) * _UNITS[unit] - 1
    return None


def _texts(literal: Any) -> frozenset[str] | None:
    """The texts of a literal: one, or a list."""
    match literal:
        case {"Scalar": {"String": str(text)}} | {"String": str(text)} | {"Dyn": {"String": str(text)}}:
            return frozenset([text])
        case {"Scalar": {"List": list(content)}} | {"Series": list(content)}:
            pl = _import("polars")
            import io

            found = pl.read_ipc_stream(io.BytesIO(bytes(content))).to_series()
            if found.dtype == pl.List(pl.String):
                found = found.explode()
            if found.dtype == pl.String:
                return frozenset(text for text in found.to_list() if text is not None)
    return None
