"""Compares what engines read of published tables with what TapeDB reads of the stream: the same to the last digit, and little of it read for
one symbol of one day."""

import argparse
import shutil
import sys
import time
from pathlib import Path

import readers
from stream import DAYS, FIRST, Answer, Stream, day_text

# A query of one symbol of one day may read so much of the rows.
SHARE_MAX = 0.05
# Small, so that a table of a test has as many row groups as a large one.
PUBLISH = ["--scale", "18,4", "--file-size", "2MB", "--row-group-rows", "2000"]


def compare(engine: str, what: str, found: dict, expected: Answer) -> None:
    """Prints a line, or ends with what differs."""
    wanted = expected.values()
    wrong = {name: (found.get(name), value) for name, value in wanted.items() if found.get(name) != value}
    if wrong:
        sys.exit(f"{engine}: {what}: (found, expected) differ: {wrong}")
    print(f"{engine:10} {what}: {expected.count} rows, {len(expected.symbols)} symbols, sums and times are equal")


def main() -> None:
    """Runs the engines that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tapedb", type=Path, required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=60_000, help="rows of a day")
    parser.add_argument("engines", nargs="+")
    arguments = parser.parse_args()
    folder = arguments.home / "work"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stream = Stream(arguments.tapedb, folder)
    lake = {
        "folder": f"folder:{folder}/lake",
        "sql": f"sql:{folder}/catalog.db,warehouse={folder}/sql",
    }

    def publish(kind: str, table: str = "ticks", *words: str) -> list[dict]:
        return stream.run("publish", "ticks", "--iceberg", f"lake.{table}", "--catalog", lake[kind], *PUBLISH, *words)

    for day in range(DAYS - 1):
        stream.add(day, arguments.rows)
        for kind in lake:
            publish(kind)
    # A late part, which overlaps, and a last day.
    stream.add(0, arguments.rows // 10)
    stream.add(DAYS - 1, arguments.rows)
    for kind in lake:
        publish(kind)
    publish("folder", "entries", "--flatten", "levels", "--symbol-buckets", "4")
    answer = stream.answer()
    opened = readers.open_all(arguments.engines, arguments.home, folder)
    symbol = "S0007"
    for engine in opened:
        for kind in engine.kinds:
            started = time.monotonic()
            compare(engine.name, f"{kind} catalogue", engine.totals(kind, "ticks"), answer)
            rows, read = engine.one(kind, "ticks", symbol, day_text(FIRST + 1))
            expected = answer.by_day[FIRST + 1, symbol]
            if rows != expected:
                sys.exit(f"{engine.name}: {rows} rows of one symbol and day, not {expected}")
            share = read / answer.count
            print(f"{engine.name:10} {kind} catalogue: one symbol of one day: {rows} rows, {read} read ({share:.2%}), {time.monotonic() - started:.1f} s")
            if share > SHARE_MAX:
                sys.exit(f"{engine.name}: read {share:.1%} of the rows, more than {SHARE_MAX:.0%}")
        entries = engine.entries("folder", "entries") if "folder" in engine.kinds else None
        if entries is not None:
            empty = answer.count - entries["messages_with_entries"]
            if (entries["levels"], entries["level_sizes"], entries["rows"]) != (answer.levels, answer.level_sizes, answer.levels + empty):
                sys.exit(f"{engine.name}: the flattened table differs: {entries}")
            print(f"{engine.name:10} flattened: {entries['rows']} rows, {entries['levels']} entries are equal")
    # What others do with a table, and what happens to the stream.
    for engine in opened:
        if engine.maintain("folder", "ticks"):
            print(f"{engine.name:10} rewrote data files and manifests, and expired snapshots")
            compare(engine.name, "after its maintenance", engine.totals("folder", "ticks"), answer)
    stream.run("truncate", "ticks", "--from", f"{day_text(FIRST + DAYS - 1)}T12:00", "--yes")
    stream.add(DAYS, arguments.rows // 10)
    publish("folder")
    status = publish("folder", "ticks", "--status")[0]
    if not status["stale"]:
        sys.exit(f"the deletion is not noticed: {status}")
    repaired = publish("folder", "ticks", "--repair")[0]
    print(f"repaired   {repaired['rows']} rows of {repaired['days']} days in place of {repaired['removed']}")
    answer = stream.answer()
    for engine in opened:
        if "folder" in engine.kinds:
            compare(engine.name, "after deletion and repair", engine.totals("folder", "ticks"), answer)
        engine.close()
    print("all engines agree with TapeDB")


if __name__ == "__main__":
    main()
