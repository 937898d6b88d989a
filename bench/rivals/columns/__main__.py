"""`bench/rivals/run columns`: the command line, and the rounds."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from common.command import add_options, run
from common.machine import Machine
from common.report import Report
from storage.__main__ import count
from storage.bars import bars
from storage.dataset import DataError, Dataset
from storage.quotes import quotes
from storage.worker import WorkerError

from . import ours
from .rivals import TITLES
from .table import case, table
from .worker import measure

_THREADS = (1, 2)


def main() -> None:
    """Runs the benchmark; failures are one line and exit code 1."""
    run(_arguments(), _run, DataError, WorkerError)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/rivals/run columns", description=__doc__)
    parser.add_argument("--rows", type=count, default=count("20M"), help="bars, such as 20M or 100k (default 20M)")
    parser.add_argument(
        "--rounds", type=count, default=5, help="rounds over all rivals and TapeDB; medians count (default 5)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("TAPEDB_DATA") or None,
        help="folder with us-equity-ticks; without it quotes are left out (default $TAPEDB_DATA)",
    )
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=list(TITLES), help="rivals, such as duckdb,arcticdb"
    )
    add_options(parser)
    args = parser.parse_args()
    if unknown := [key for key in args.only if key not in TITLES]:
        parser.error(f"--only: {', '.join(unknown)} is none of {', '.join(TITLES)}")
    return args


def _run(args: argparse.Namespace, folder: Path) -> None:
    if not args.tapedb.exists():
        raise DataError(
            f"{args.tapedb} is not there; cargo build --release -p tapedb-cli, or name it with --tapedb"
        )
    datasets = _datasets(args, folder)
    machine, report = Machine(), Report("rivals-columns")
    for number in range(args.rounds):
        _note(f"round {number + 1} of {args.rounds}")
        # Every rival in turn, so that other load on the machine affects them all.
        for dataset in datasets:
            for rival in args.only:
                for threads in _THREADS:
                    _measure(rival, threads, dataset, report, folder)
        data = args.data if len(datasets) > 1 else None
        ours.measure(args.tapedb, args.rows, data, folder, report)
    rows = report.rows(machine.line())
    if args.json:
        print("\n".join(row.json() for row in rows))
        return
    print(f"{rows[0].machine}; {args.rounds} rounds\n")
    for dataset in datasets:
        print(table(dataset.name, dataset.expected.rows, rows))


def _datasets(args: argparse.Namespace, folder: Path) -> list[Dataset]:
    _note(f"bars: {args.rows:,} rows")
    datasets = [bars(args.tapedb, args.rows, folder)]
    if args.data:
        _note(f"quotes of {args.data}")
        recorded = quotes(args.data, folder)
        datasets += [recorded] if recorded else []
    return datasets


def _measure(rival: str, threads: int, dataset: Dataset, report: Report, folder: Path) -> None:
    path = folder / f"{dataset.name}.{rival}"
    result, found = measure(rival, threads, dataset, path)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if found != dataset.expected:
        raise DataError(f"{rival}, {dataset.name}: {dataset.expected} were written, {found} read")
    rows = dataset.expected.rows
    report.add(case(rival, "size", dataset.name), "size", "bytes/row", result.bytes / rows)
    seconds = {"sum": result.sum_seconds, "arrow": result.arrow_seconds, "write": result.write_seconds}
    for what, taken in seconds.items():
        report.add(case(rival, f"{what}.{threads}", dataset.name), "rate", "rows/s", rows / taken)


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
