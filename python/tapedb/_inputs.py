"""What arguments may be."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, Union, runtime_checkable


@runtime_checkable
class SupportsArrowStream(Protocol):
    """A table of any library that speaks Arrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


@runtime_checkable
class SupportsArrowArray(Protocol):
    """A record batch of any library that speaks Arrow."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


@runtime_checkable
class SupportsDataFrame(Protocol):
    """A frame of a library that has the interchange protocol of data frames."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any: ...


class SupportsInt64(Protocol):
    """NumPy's `datetime64`, and other scalars with a dtype."""

    @property
    def dtype(self) -> Any: ...


Time: TypeAlias = Union[int, str, datetime.datetime, datetime.date, SupportsInt64]
"""Nanoseconds since 1970 (UTC); ISO text (UTC where it has no zone); aware datetime; date (midnight UTC); datetime64; Timestamp."""

SupportsTable: TypeAlias = Union[SupportsArrowStream, SupportsArrowArray, SupportsDataFrame, Mapping[str, Any], Any]
"""A frame, a table, or columns by name."""

Symbols: TypeAlias = Union[str, Sequence[str], None]
"""One symbol, or several."""

Schema: TypeAlias = Union[str, type, Sequence[type], Any]
"""A schema text, a class, several classes, or an Arrow schema."""
