"""A process that writes a data set with one rival, sums up its columns and gets it as an Arrow table, and times each.

It may run on so many cores as it has threads, so that no library helps itself to more. Its input is a `Task`
as JSON in its only argument, its output a `Result` as one line.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from storage.dataset import Dataset, mapped
from storage.sums import Sums
from storage.worker import WorkerError


@dataclass(frozen=True)
class Task:
    """What to measure. The file or folder at `path` is made by the worker, and stays."""

    rival: str
    threads: int
    source: str
    path: str
    texts: dict[str, list[str]]


@dataclass(frozen=True)
class Result:
    """What was measured and found."""

    write_seconds: float
    sum_seconds: float
    arrow_seconds: float
    bytes: int
    rows: int
    columns: dict[str, int]


def measure(rival: str, threads: int, dataset: Dataset, path: Path) -> tuple[Result, Sums]:
    """Runs one worker; what it found is not checked yet."""
    task = Task(rival, threads, str(dataset.source), str(path), dataset.texts)
    command = [sys.executable, "-m", __name__, json.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise WorkerError(
            f"{rival} with {dataset.name} failed, exit code {done.returncode}: {done.stderr.strip()}"
        )
    # A library may print before.
    result = Result(**json.loads(done.stdout.splitlines()[-1]))
    return result, Sums(result.rows, result.columns)


def _main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: task.threads])
    print(json.dumps(asdict(_result(task))))


def _result(task: Task) -> Result:
    from .rivals import rival

    subject, source, path = rival(task.rival), mapped(Path(task.source)), Path(task.path)
    write_seconds = _seconds(lambda: subject.write(source, task.texts, path, task.threads))
    # Not to be in the way of the reads.
    os.sync()
    read = subject.summing(path, task.texts, task.threads)
    read()
    sums = Sums()
    sum_seconds = _seconds(lambda: sums.add(read()))
    batches = subject.batching(path, task.texts, task.threads)
    rows = batches().num_rows
    arrow_seconds = _seconds(lambda: batches())
    if rows != sums.rows:
        raise WorkerError(f"{task.rival}: the Arrow table has {rows} rows, the sums are of {sums.rows}")
    return Result(write_seconds, sum_seconds, arrow_seconds, _bytes(path), sums.rows, sums.columns)


def _bytes(path: Path) -> int:
    """What it takes on disk: a map of LMDB is larger than that."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_blocks * 512 if path.is_dir() else file.stat().st_size for file in files)


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    _main()
