"""Times in and out."""

import datetime as dt
import zoneinfo

import pytest

import tapedb
from conftest import START

UTC = dt.timezone.utc


@pytest.mark.parametrize(
    "value",
    [
        START,
        "2026-01-05T14:30",
        "2026-01-05 15:30:00+01:00",
        str(START),
        dt.datetime(2026, 1, 5, 14, 30, tzinfo=UTC),
        dt.datetime(2026, 1, 5, 15, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    ],
)
def test_the_same_instant(value):
    assert tapedb.nanos(value) == START


def test_other_libraries():
    np = pytest.importorskip("numpy")
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    assert tapedb.nanos(np.datetime64("2026-01-05T14:30:00.000000007")) == START + 7
    assert tapedb.nanos(np.datetime64("2026-01-05T14:30", "m")) == START
    assert tapedb.nanos(np.datetime64("2026-01", "M")) == 1_767_225_600_000_000_000
    assert tapedb.nanos(np.int64(START)) == START
    assert tapedb.nanos(pd.Timestamp(START + 7, tz="UTC")) == START + 7
    assert tapedb.nanos(pd.Timestamp("2026-01-05 15:30", tz="Europe/Berlin")) == START
    assert tapedb.nanos(pl.Series([dt.datetime(2026, 1, 5, 14, 30, tzinfo=UTC)])[0]) == START
    assert tapedb.nanos(pa.scalar(dt.datetime(2026, 1, 5, 14, 30, tzinfo=UTC))) == START


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (dt.datetime(2026, 1, 5), "no time zone"),
        (2**63, "beyond the range"),
        (-(2**63) - 1, "beyond the range"),
        ("yesterday", "not a time"),
        ("2026-13-01", "month 13"),
        (dt.date(1600, 1, 1), "beyond the range"),
        (1.5, "not a time"),
        (None, "not a time"),
        (True, "not a time"),
        (dt.datetime(9999, 1, 1, tzinfo=UTC), "beyond the range"),
    ],
)
def test_what_is_no_time(value, why):
    with pytest.raises(tapedb.Invalid, match=why):
        tapedb.nanos(value)


def test_naive_and_missing_times_of_other_libraries():
    np = pytest.importorskip("numpy")
    pd = pytest.importorskip("pandas")
    with pytest.raises(tapedb.Invalid, match="NaT"):
        tapedb.nanos(np.datetime64("NaT"))
    with pytest.raises(tapedb.Invalid, match="no time zone"):
        tapedb.nanos(pd.Timestamp("2026-01-05"))
    with pytest.raises(tapedb.Invalid):
        tapedb.nanos(np.datetime64("9999-01-01"))


def test_extremes_have_texts():
    assert tapedb.format_time(-(2**63)) == "1677-09-21T00:12:43.145224192Z"
    assert tapedb.to_datetime(2**63 - 1) == dt.datetime(2262, 4, 11, 23, 47, 16, 854775, tzinfo=UTC)
    assert tapedb.to_datetime(-1) == dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
