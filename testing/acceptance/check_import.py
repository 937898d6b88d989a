#!/usr/bin/env python3
"""Imports real market data with the real binary, reads it back, and compares every field of every message with what an
independent reader finds in the files.

    check_import.py --tapedb target/release/tapedb --data DIR [--only us-equity-ticks] [--quick]

DIR holds the folders us-equity-ticks, fx-ticks and binance-raw-ws and their MANIFEST.tsv; what else it holds is named as skipped
(`check_dbn.py` compares files of Databento). Each folder becomes a stream of a fresh temporary database, with small log files, so that there is
much to seal and to merge. The stream is then sealed, merged, and moved to the cold tier: after each of these, all messages in
the order of time and in that of arrival must be what they were (a checksum over times, symbols, types and bodies), and `check`
must find nothing. What is in the cold tier at the end is compared with the files. The expected order is that of `tapedb import
--help`: by time, messages of the same time in the order of their files, then of their lines. Both sides are streamed: memory
stays flat. `--quick` takes some lines of every file. Exit code 0: no difference.
"""

import argparse
import gzip
import heapq
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter, deque

# The readers are small: no compiled copy beside them.
sys.dont_write_bytecode = True

import readers  # noqa: E402
import stages  # noqa: E402

QUICK_LINES = 2000
DIFFERENCES_SHOWN = 5

encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tapedb", required=True, help="the binary")
    parser.add_argument("--data", required=True, help="folder of the market data")
    parser.add_argument("--only", choices=sorted(readers.FORMATS), help="one format")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_LINES} lines of every file")
    args = parser.parse_args()
    args.tapedb = os.path.abspath(args.tapedb)
    manifest = read_manifest(args.data)
    good = True
    tell_what_is_skipped(args.data)
    with tempfile.TemporaryDirectory(prefix="tapedb-acceptance-") as folder:
        root = args.data
        if args.quick:
            root = os.path.join(folder, "data")
            manifest = shorten(args.data, root, manifest, args.only)
        for form in sorted(readers.FORMATS):
            if args.only in (None, form):
                size = stages.FILE_SIZE_QUICK if args.quick else stages.FILE_SIZE
                good &= check_format(args.tapedb, root, form, manifest, os.path.join(folder, "db"), size)
    print("no difference" if good else "DIFFERENT")
    sys.exit(0 if good else 1)


def tell_what_is_skipped(root):
    """Folders of recorded data that have no independent reader here."""
    folders = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name not in readers.FORMATS)
    if folders:
        print(f"SKIPPED: not compared here: {', '.join(folders)}")


def read_manifest(root):
    """Rows of every file."""
    rows = {}
    with open(os.path.join(root, "MANIFEST.tsv"), encoding="utf-8") as lines:
        for line in itertools.islice(lines, 1, None):
            path, _, _, count = line.rstrip("\n").split("\t")
            rows[path] = count
    return rows


def check_format(tapedb, root, form, manifest, db, file_size):
    """Imports one format, seals, merges and chills it, reads it back, compares."""
    begin = time.monotonic()
    found = Found()
    paths = readers.files(root, form)
    try:
        stream = stages.Stream(tapedb, db, form, file_size)
        stream.create_for(os.path.join(root, paths[0]))
        stream.run("import", "--stream", form, "--format", form, os.path.join(root, form))
        import_seconds = time.monotonic() - begin
        for difference in stream.through_all_stages():
            found.differ(difference)
    except stages.Failed as failure:
        print(failure)
        return False
    command = [tapedb, "read", "--db", db, form, "--output", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        compare(expected(root, form, paths, found), reader.stdout, found)
        reader.stdout.close()
    if reader.returncode and not found.differences:
        found.differ(f"{form}: reading failed with exit code {reader.returncode}")
    check_counts(paths, manifest, found)
    report(form, paths, found, import_seconds, time.monotonic() - begin)
    return found.differences == 0


class Found:
    """What a comparison has counted."""

    def __init__(self):
        self.messages = 0
        self.entries = 0
        self.differences = 0
        self.rows = Counter()
        self.days = Counter()

    def differ(self, text):
        self.differences += 1
        if self.differences <= DIFFERENCES_SHOWN:
            print(text)


def expected(root, form, paths, found):
    """`(time, file index, symbol, package)` of all files in the expected order."""

    def rows(index, path):
        last = None
        for time_ns, symbol, package in readers.FORMATS[form](os.path.join(root, path)):
            if last is not None and time_ns < last:
                found.differ(f"{path}: time goes back to {readers.iso(time_ns)}: the expected order is not known")
            last = time_ns
            found.rows[path] += 1
            yield time_ns, index, symbol, package

    def order(row):
        return row[0], row[1]

    return heapq.merge(*(rows(index, path) for index, path in enumerate(paths)), key=order)


def compare(rows, lines, found):
    """Message by message; the canonical JSON as text first, field by field where it differs."""
    day_ns = 86_400_000_000_000
    iso, days = readers.iso, found.days
    for row, line in itertools.zip_longest(rows, lines):
        if row is None or line is None:
            found.differ(f"message {found.messages}: {'missing' if line is None else 'one too many'}: {row or line}")
            return
        time_ns, _, symbol, package = row
        message = {"$type": package["$type"], "symbol": symbol, "timestamp": iso(time_ns)}
        message.update(package)
        if encode(message) != line.decode().rstrip("\n"):
            fields(message, json.loads(line), found)
        found.messages += 1
        found.entries += len(package["entries"])
        days[symbol, time_ns // day_ns] += 1


def fields(want, have, found):
    """Tells the fields in which two messages differ; the order of fields does not matter."""
    if want == have:
        return
    names = [name for name in want.keys() | have.keys() if want.get(name) != have.get(name)]
    text = "; ".join(f"{name}: file {want.get(name)}, TapeDB {have.get(name)}" for name in sorted(names))
    found.differ(f"message {found.messages} {want['symbol']} {want['timestamp']}: {text[:1000]}")


def check_counts(paths, manifest, found):
    for path in paths:
        rows, want = found.rows[path], manifest.get(path.replace(os.sep, "/"))
        if want is None:
            found.differ(f"{path}: not in the manifest")
        elif str(rows) != want:
            found.differ(f"{path}: {rows} rows read, the manifest says {want}")


def report(form, paths, found, import_seconds, seconds):
    print(f"{form}: {len(paths)} files, {found.messages:,} messages, {found.entries:,} entries; imported in "
          f"{import_seconds:.1f} s, compared after {seconds:.1f} s; {found.differences} differences")
    for (symbol, day), count in sorted(found.days.items()):
        date = readers.iso(day * 86_400_000_000_000)[:10]
        print(f"  {symbol:<12} {date} {count:>10,}")
    sys.stdout.flush()


def shorten(data, root, manifest, only):
    """Copies some lines of every file; returns the manifest of the copies."""
    rows = {}
    for form in readers.FORMATS:
        for path in readers.files(data, form) if only in (None, form) else []:
            copy = os.path.join(root, path)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            make = shorten_zip if path.endswith(".zip") else shorten_gzip
            make(os.path.join(data, path), copy)
            key = path.replace(os.sep, "/")
            rows[key] = str(min(QUICK_LINES, int(manifest[key])))
    return rows


def some_of(lines):
    """The first and the last lines: those before and after a market's session come in bursts with long pauses."""
    half = QUICK_LINES // 2
    first = list(itertools.islice(lines, half))
    return first + list(deque(lines, maxlen=QUICK_LINES - half))


def shorten_zip(path, copy):
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED) as short:
        for name in archive.namelist():
            with archive.open(name) as member:
                short.writestr(name, b"".join(some_of(member)))


def shorten_gzip(path, copy):
    with gzip.open(path) as lines, gzip.open(copy, "wb", compresslevel=1) as short:
        short.writelines(some_of(lines))


if __name__ == "__main__":
    main()
