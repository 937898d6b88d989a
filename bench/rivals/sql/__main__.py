"""`bench/rivals/run sql`: the command line, and the rounds."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from common.command import add_options, run
from common.machine import Machine
from common.process import ProcessError
from common.report import Report, Row
from storage.__main__ import count
from storage.dataset import DataError
from storage.worker import WorkerError

from .answer import Answer, answer
from .queries import COLUMNS, QUERIES, Hour, Query
from .rivals import TAKES_ANY, TITLES, WITHOUT, questdb_server
from .table import table
from .worker import Task, measure

_THREADS = "1,2"


def main() -> None:
    """Runs the benchmark; failures are one line and exit code 1."""
    run(_arguments(), _run, DataError, WorkerError)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/rivals/run sql", description=__doc__)
    parser.add_argument(
        "--rows",
        type=count,
        default=count("20M"),
        help="bars that are summed up, and those that an hour is taken of; quotes are a quarter of them",
    )
    parser.add_argument(
        "--rounds", type=count, default=5, help="rounds over all rivals and TapeDB; medians count (default 5)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("TAPEDB_DATA") or None,
        help="folder with us-equity-ticks; without it the case asof.real is left out (default $TAPEDB_DATA)",
    )
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=list(TITLES),
        help="rivals, such as duckdb,polars",
    )
    parser.add_argument(
        "--threads",
        type=lambda text: [int(count) for count in text.split(",")],
        default=_THREADS,
        help="numbers of threads, each on as many cores (default 1,2)",
    )
    add_options(parser)
    args = parser.parse_args()
    if unknown := [key for key in args.only if key not in TITLES]:
        parser.error(f"--only: {', '.join(unknown)} is none of {', '.join(TITLES)}")
    return args


def _run(args: argparse.Namespace, folder: Path) -> None:
    machine, report = Machine(), Report("rivals-sql")
    if "questdb" in args.only:
        try:
            questdb_server.install()
        except (ProcessError, OSError) as error:
            _note(f"QuestDB is left out: {error}")
            args.only = [rival for rival in args.only if rival != "questdb"]
    queries = [query for query in QUERIES if args.data or query.case != "asof.real"]
    for number in range(args.rounds):
        _note(f"round {number + 1} of {args.rounds}")
        db = folder / "ours.tapedb"
        _ours(args, db, report)
        if number == 0:
            names = {name for query in queries for name in query.tables}
            hour = _hour(args.tapedb, db, folder)
            queries = [query.of_hour(hour) for query in queries]
            sources = {name: _exported(args.tapedb, db, name, folder) for name in sorted(names)}
            expected = {query.case: _answer(args.tapedb, db, query, folder) for query in queries}
        shutil.rmtree(db)
        # Every rival in turn, so that other load on the machine affects them all.
        for query in queries:
            for rival in args.only:
                for threads in args.threads:
                    if (rival, query.case) not in WITHOUT and (rival != "pandas" or threads == 1):
                        _measure(rival, query, threads, hour, sources, expected[query.case], folder, report)
    rows = report.rows(machine.line())
    if args.json:
        print("\n".join(row.json() for row in rows))
        return
    print(f"{rows[0].machine}; {args.rounds} rounds\n")
    print(table([query.case for query in queries], rows))


def _ours(args: argparse.Namespace, db: Path, report: Report) -> None:
    """One run of `tapedb bench sql`, which checks what it finds, and leaves its database."""
    cases = ",".join(query.case for query in QUERIES)
    quotes = max(args.rows * 53 // 200, 1000)
    command = [args.tapedb, "bench", "sql", "--json", "--runs", "1", "--keep", "--db", db, "--only", cases]
    command += ["--messages", args.rows, "--history", args.rows, "--quotes", quotes, "--trades", max(args.rows // 20, 100)]
    command += ["--threads", ",".join(map(str, args.threads))]
    command += ["--data", args.data] if args.data else []
    for row in map(Row.parse, filter(str.strip, _output(command).decode().splitlines())):
        report.add(row.case, row.metric, row.unit, row.value)


def _hour(tapedb: Path, db: Path, folder: Path) -> Hour:
    """An hour in the middle of the history, of its first symbol."""
    path = folder / "hour.arrow"
    query = "SELECT min(symbol) AS symbol, min(time) AS first, max(time) AS last FROM history"
    _output([tapedb, "sql", "--db", db, query, "--out", path])
    (found,) = pa.ipc.open_stream(path.open("rb")).read_all().to_pylist()
    first, last = (int(found[name].timestamp()) for name in ("first", "last"))
    start = (first + (last - first) // 2) * 10**9
    return Hour(found["symbol"], start, start + 3600 * 10**9)


def _exported(tapedb: Path, db: Path, name: str, folder: Path) -> Path:
    """The rows of a table as an Arrow stream; symbols as texts."""
    path = folder / f"{name}.arrow"
    _output([tapedb, "sql", "--db", db, f"SELECT {COLUMNS[name]} FROM {name} ORDER BY time", "--out", path])
    return path


def _answer(tapedb: Path, db: Path, query: Query, folder: Path) -> Answer:
    path = folder / "answer.arrow"
    _output([tapedb, "sql", "--db", db, query.text, "--out", path])
    found = answer(pa.ipc.open_stream(path.open("rb")).read_all())
    path.unlink()
    return found


def _output(command: list[object]) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name != "TAPEDB_DATA"}
    done = subprocess.run([str(part) for part in command], capture_output=True, env=environment)
    if done.returncode:
        raise DataError(f"{' '.join(map(str, command))} failed: {done.stderr.decode().strip()}")
    return done.stdout


def _measure(
    rival: str,
    query: Query,
    threads: int,
    hour: Hour,
    sources: dict[str, Path],
    expected: Answer,
    folder: Path,
    report: Report,
) -> None:
    own = folder / rival
    own.mkdir()
    tables = {name: str(sources[name]) for name in query.tables}
    seconds, found = measure(Task(rival, query.case, threads, tables, str(own), (hour.symbol, hour.start, hour.end)))
    shutil.rmtree(own)
    if not found.is_near(expected, 2 if (rival, query.case) in TAKES_ANY else 0):
        raise DataError(f"{rival}, {query.case}: TapeDB found {expected}, the rival {found}")
    suffix = "" if threads == 1 else f".{threads}"
    report.add(f"{rival}.{query.case}{suffix}", "time", "ms", seconds * 1e3)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
