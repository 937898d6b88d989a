"""Times of other libraries as nanoseconds since 1970, and back."""

from __future__ import annotations

import datetime as dt
from typing import Any

from ._errors import Invalid

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000, "D": 86_400_000_000_000}
_MIN, _MAX = -(2**63), 2**63 - 1


def nanos_of(value: Any) -> int:
    """Nanoseconds of a time that is neither an integer nor a text."""
    if isinstance(value, dt.datetime):
        return _in_range(_of_datetime(value), value)
    if isinstance(value, dt.date):
        days = (value - dt.date(1970, 1, 1)).days
        return _in_range(days * _UNITS["D"], value)
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind == "M":
        return _of_datetime64(value)
    if kind in ("i", "u"):
        return _in_range(int(value), value)
    if hasattr(value, "as_py"):
        return nanos_of(value.as_py())
    raise Invalid(
        f"{value!r} ({type(value).__name__}) is not a time; give nanoseconds since 1970, an ISO text, an aware datetime or a datetime64"
    )


def nanos_of_day(value: Any) -> int:
    """Nanoseconds since midnight of a `time`, a `timedelta` or a `timedelta64`."""
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise Invalid(f"{value!r} has a time zone; a time of day has none")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1_000_000_000 + value.microsecond * 1_000
    if isinstance(value, dt.timedelta):
        return (value // dt.timedelta(microseconds=1)) * 1_000 + int(getattr(value, "nanoseconds", 0))
    if getattr(getattr(value, "dtype", None), "kind", None) in ("m", "i", "u"):
        return int(value.astype("m8[ns]").astype("i8") if value.dtype.kind == "m" else value)
    raise Invalid(f"{value!r} ({type(value).__name__}) is not a time of day")


def to_datetime(nanos: int) -> dt.datetime:
    """The aware `datetime` of nanoseconds since 1970, UTC. It has microseconds: the rest is cut off."""
    return _EPOCH + dt.timedelta(microseconds=nanos // 1_000)


def _of_datetime(value: dt.datetime) -> int:
    if value.tzinfo is None:
        raise Invalid(
            f"{value!r} has no time zone, so it is not known which instant it is; add one, such as tzinfo=datetime.timezone.utc"
        )
    # pandas has nanoseconds beside what datetime has.
    exact = getattr(value, "as_unit", None)
    if exact is not None:
        return int(exact("ns").value)
    since = value - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1_000


def _of_datetime64(value: Any) -> int:
    import numpy as np

    if np.isnat(value):
        raise Invalid("NaT is not a time; leave the row out, or give its time")
    unit, step = np.datetime_data(value.dtype)
    scale = _UNITS.get(unit)
    if scale is None:
        value, scale, step = value.astype("M8[s]"), _UNITS["s"], 1
    return _in_range(int(value.astype("i8")) * step * scale, value)


def _in_range(nanos: int, value: Any) -> int:
    if not _MIN <= nanos <= _MAX:
        raise Invalid(f"time {value} is beyond the range of nanoseconds: 1677-09-21 to 2262-04-11")
    return nanos
