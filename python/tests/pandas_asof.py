"""A plugin of pytest: lets `merge_asof` of pandas find its rows by an as-of join of TapeDB, while pandas' own tests of it run.

pandas makes integers of the times and of the keys of both sides, in their order, and of the pairs of rows that are found it makes the frame.
What is found comes from TapeDB here. TAPEDB_ASOF_URL is its database, and TAPEDB_ASOF_COUNTS the file that is to state how many joins TapeDB did,
and how many pandas, by the reason.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib

import numpy as np
import pandas.core.reshape.merge as pandas_merge

import tapedb

DB = tapedb.open(os.environ["TAPEDB_ASOF_URL"])
COUNTS: collections.Counter[str] = collections.Counter()
# Times that are no integers are multiplied by it.
SCALE = 1_000_000

pandas_function = pandas_merge._asof_by_function


def pytest_unconfigure():
    DB.close()
    pathlib.Path(os.environ["TAPEDB_ASOF_COUNTS"]).write_text(json.dumps(COUNTS))


def asof_by_function(direction):
    def find(left, right, left_keys, right_keys, exact, tolerance, *rest):
        reason = obstacle(direction, right, right_keys, exact)
        times = None if reason else integers(left, right, tolerance)
        if times is None:
            COUNTS[reason or "times that are no integers"] += 1
            return pandas_function(direction)(left, right, left_keys, right_keys, exact, tolerance, *rest)
        COUNTS["tapedb"] += 1
        left, right, tolerance = times
        return joined((left, left_keys), (right, right_keys), condition(direction, exact, tolerance))

    return find


pandas_merge._asof_by_function = asof_by_function


def obstacle(direction, right, keys, exact):
    """Why TapeDB finds other rows than pandas, if it does."""
    if direction == "backward":
        return None
    if direction == "nearest" and not exact:
        return "the nearest other time"
    # Forwards pandas takes the first of equal times, TapeDB always the last.
    pairs = list(zip(right.tolist(), right.tolist() if keys is None else keys.tolist(), strict=True))
    return "equal times forwards" if len(set(pairs)) < len(pairs) else None


def integers(left, right, tolerance):
    """The times and the tolerance as integers; None if they cannot be."""
    if left.dtype.kind in "iu" and right.dtype.kind in "iu":
        return left.astype("i8"), right.astype("i8"), tolerance
    scaled = [values * SCALE for values in (left, right, 0.0 if tolerance is None else tolerance)]
    rounded = [np.round(values) for values in scaled]
    if not all(np.allclose(*pair, rtol=0, atol=1e-3) for pair in zip(scaled, rounded, strict=True)):
        return None
    return rounded[0].astype("i8"), rounded[1].astype("i8"), None if tolerance is None else int(rounded[2])


def condition(direction, exact, tolerance):
    if direction == "nearest":
        return "nearest(l.time, r.time" + ("" if tolerance is None else f", INTERVAL '{tolerance} nanoseconds'") + ")"
    early, late = ("r", "l") if direction == "backward" else ("l", "r")
    text = f"{late}.time {'>=' if exact else '>'} {early}.time"
    return text if tolerance is None else f"{text} AND {late}.time - {early}.time <= INTERVAL '{tolerance} nanoseconds'"


def joined(left, right, condition):
    """Of each row on the left the number of its row on the right, -1 for none."""
    for name, (times, keys) in (("l", left), ("r", right)):
        stream = DB.create(name, "message Row { row: i64, key: i64 }")
        if len(times):
            numbers = np.zeros(len(times), "i8") if keys is None else keys
            rows = {"time": times, "symbol": [f"key {key}" for key in numbers], "row": np.arange(len(times)), "key": numbers}
            with stream.loader() as load:
                load.append_table(rows)
    try:
        on = "" if left[1] is None else " ON l.symbol = r.symbol AND l.key = r.key"
        found = DB.sql(f"SELECT l.row AS l, r.row AS r FROM l ASOF JOIN r MATCH_CONDITION ({condition}){on}").to_numpy()
    finally:
        for name in "lr":
            DB.delete(name)
    rows = np.full(len(left[0]), -2, np.intp)
    other = found["r"]
    rows[found["l"]] = other.filled(-1) if isinstance(other, np.ma.MaskedArray) else other
    assert len(found["l"]) == len(rows), "each row on the left has one row"
    return np.arange(len(rows), dtype=np.intp), rows
