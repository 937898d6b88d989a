"""`bench/rivals/run storage`: the command line, and the rounds."""

import argparse
import os
import sys
from pathlib import Path

from common.command import add_options, run
from common.machine import Machine
from common.report import Report, Row

from .bars import bars
from .dataset import DataError, Dataset
from .ours import ours_from_file, ours_from_run
from .quotes import quotes
from .rivals import TITLES
from .table import case, is_of_same_rows, table
from .worker import WorkerError, measure

_THREADS = (1, 2)


def main() -> None:
    """Runs the benchmark; failures are one line and exit code 1."""
    run(_arguments(), _run, DataError, WorkerError)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/rivals/run storage", description=__doc__)
    parser.add_argument(
        "--rows", type=count, default=count("20M"), help="bars, such as 20M or 100k (default 20M)"
    )
    parser.add_argument(
        "--rounds", type=count, default=5, help="rounds over all rivals; medians count (default 5)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=os.environ.get("TAPEDB_DATA") or None,
        help="folder with us-equity-ticks; without it quotes are left out (default $TAPEDB_DATA)",
    )
    parser.add_argument(
        "--ours",
        type=Path,
        help="output of `tapedb bench storage --json` (default: run it, shorter than usual)",
    )
    add_options(parser)
    return parser.parse_args()


def count(text: str) -> int:
    """`20M`, `100k` or plain digits; at least 1."""
    factor = {"k": 1_000, "M": 1_000_000}.get(text[-1:], 1)
    try:
        number = int(text.rstrip("kM")) * factor
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count such as 5, 100k or 20M")
    return number


def _run(args: argparse.Namespace, folder: Path) -> None:
    if not args.tapedb.exists():
        raise DataError(
            f"{args.tapedb} is not there; cargo build --release -p tapedb-cli, or name it with --tapedb"
        )
    # First, so that a mistake in it is not found out at the end.
    ours = _ours(args, folder)
    datasets = _datasets(args, folder)
    machine, report = Machine(), Report("rivals-storage")
    for number in range(args.rounds):
        _note(f"round {number + 1} of {args.rounds}")
        _round(datasets, report, folder)
    found = report.rows(machine.line())
    _print(args, datasets, found, ours)


def _ours(args: argparse.Namespace, folder: Path) -> list[Row]:
    if args.ours:
        return ours_from_file(args.ours)
    _note("TapeDB")
    return ours_from_run(args.tapedb, args.rows, args.rounds, args.data, folder)


def _datasets(args: argparse.Namespace, folder: Path) -> list[Dataset]:
    _note(f"bars: {args.rows:,} rows")
    datasets = [bars(args.tapedb, args.rows, folder)]
    if args.data:
        _note(f"quotes of {args.data}")
        recorded = quotes(args.data, folder)
        datasets += [recorded] if recorded else []
    return datasets


def _round(datasets: list[Dataset], report: Report, folder: Path) -> None:
    """Every rival in turn, so that other load on the machine affects them all."""
    for dataset in datasets:
        for rival in TITLES:
            for threads in _THREADS:
                _measure(rival, threads, dataset, report, folder)


def _measure(rival: str, threads: int, dataset: Dataset, report: Report, folder: Path) -> None:
    path = folder / f"{dataset.name}.{rival}"
    result, found = measure(rival, threads, dataset, path)
    path.unlink()
    if found != dataset.expected:
        raise DataError(f"{rival}, {dataset.name}: {dataset.expected} were written, {found} read")
    rows = dataset.expected.rows
    report.add(case(rival, "size", dataset.name), "size", "bytes/row", result.bytes / rows)
    report.add(case(rival, f"read.{threads}", dataset.name), "rate", "rows/s", rows / result.read_seconds)
    report.add(case(rival, f"write.{threads}", dataset.name), "rate", "rows/s", rows / result.write_seconds)


def _print(args: argparse.Namespace, datasets: list[Dataset], found: list[Row], ours: list[Row]) -> None:
    if args.json:
        print("\n".join(row.json() for row in [*found, *ours]))
        return
    print(f"{found[0].machine}; {args.rounds} rounds\n")
    for dataset in datasets:
        rows = dataset.expected.rows
        if not is_of_same_rows(dataset.name, rows, ours):
            raise DataError(f"{dataset.name}: TapeDB's figures are of other rows than the rivals' {rows:,}")
        print(table(dataset.name, rows, found, ours))
    if ours:
        print(f"TapeDB: {ours[0].machine}; {ours[0].n} runs")


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
