"""Compares what engines read of published tables with what TapeDB reads of the stream: the same to the last digit, and little of it read for
one symbol of one day."""

import argparse
import shutil
import sys
import time
from pathlib import Path

import readers
from stores import BUCKET, Stores
from stream import DAYS, FIRST, Answer, Stream, day_text

# A query of one symbol of one day may read so much of the rows.
SHARE_MAX = 0.05
# Small, so that a table of a test has as many row groups as a large one.
# Tables, by what they are called here; of those in a folder, what others do to them is tested too.
LABELS = {
    "folder": "Iceberg, folder",
    "sql": "Iceberg, SQL",
    "rest": "Iceberg, REST and S3",
    "delta": "Delta",
    "s3": "Delta, S3",
}
REPAIRED = ["folder", "delta", "rest", "s3"]
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
    parser.add_argument("--nessie", type=Path, help="the archive of the REST catalogue")
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
    stores = Stores(folder, arguments.nessie)
    if stores.rest:
        lake["rest"] = f"rest:{stores.rest},warehouse={BUCKET}"
    deltas = {"delta": f"{folder}/delta", "s3": f"s3://{BUCKET}/delta"}
    kinds = [*lake, *deltas]

    def publish(kind: str, table: str = "ticks", *words: str) -> list[dict]:
        place = ["--delta", f"{deltas[kind]}/{table}"] if kind in deltas else ["--iceberg", f"lake.{table}", "--catalog", lake[kind]]
        return stream.run("publish", "ticks", *place, *PUBLISH, *words)

    for day in range(DAYS - 1):
        stream.add(day, arguments.rows)
        for kind in kinds:
            publish(kind)
    # A late part, which overlaps, and a last day.
    stream.add(0, arguments.rows // 10)
    stream.add(DAYS - 1, arguments.rows)
    for kind in kinds:
        publish(kind)
    publish("folder", "entries", "--flatten", "levels", "--symbol-buckets", "4")
    publish("delta", "entries", "--flatten", "levels")
    answer = stream.answer()
    opened = readers.open_all(arguments.engines, arguments.home, folder, stores)
    for engine in opened:
        engine.kinds = tuple(kind for kind in engine.kinds if kind in kinds)
    symbol = "S0007"
    for engine in opened:
        for kind in engine.kinds:
            started = time.monotonic()
            compare(engine.name, LABELS[kind], engine.totals(kind, "ticks"), answer)
            rows, read = engine.one(kind, "ticks", symbol, day_text(FIRST + 1))
            expected = answer.by_day[FIRST + 1, symbol]
            if rows != expected:
                sys.exit(f"{engine.name}: {rows} rows of one symbol and day, not {expected}")
            share = read / answer.count
            print(f"{engine.name:10} {LABELS[kind]}: one symbol of one day: {rows} rows, {read} read ({share:.2%}), {time.monotonic() - started:.1f} s")
            if share > SHARE_MAX:
                sys.exit(f"{engine.name}: read {share:.1%} of the rows, more than {SHARE_MAX:.0%}")
        for kind in ["folder", "delta"]:
            entries = engine.entries(kind, "entries") if kind in engine.kinds else None
            if entries is None:
                continue
            empty = answer.count - entries["messages_with_entries"]
            if (entries["levels"], entries["level_sizes"], entries["rows"]) != (answer.levels, answer.level_sizes, answer.levels + empty):
                sys.exit(f"{engine.name}: the flattened table differs: {entries}")
            print(f"{engine.name:10} {LABELS[kind]}, flattened: {entries['rows']} rows, {entries['levels']} entries are equal")
    # What others do with a table, and what happens to the stream.
    for engine in opened:
        for kind in REPAIRED:
            if kind in engine.kinds and (done := engine.maintain(kind, "ticks")):
                print(f"{engine.name:10} {LABELS[kind]}: {done}")
                compare(engine.name, f"{LABELS[kind]} after its maintenance", engine.totals(kind, "ticks"), answer)
    stream.run("truncate", "ticks", "--from", f"{day_text(FIRST + DAYS - 1)}T12:00", "--yes")
    stream.add(DAYS, arguments.rows // 10)
    for kind in [kind for kind in REPAIRED if kind in kinds]:
        publish(kind)
        status = publish(kind, "ticks", "--status")[0]
        if not status["stale"]:
            sys.exit(f"the deletion is not noticed: {status}")
        repaired = publish(kind, "ticks", "--repair")[0]
        print(f"repaired   {LABELS[kind]}: {repaired['rows']} rows of {repaired['days']} days in place of {repaired['removed']}")
    answer = stream.answer()
    for engine in opened:
        for kind in REPAIRED:
            if kind in engine.kinds:
                compare(engine.name, f"{LABELS[kind]} after deletion and repair", engine.totals(kind, "ticks"), answer)
        engine.close()
    stores.close()
    print("all engines agree with TapeDB")


if __name__ == "__main__":
    main()
