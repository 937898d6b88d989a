"""A process that writes a data set with one rival, reads it back, and says how long each took.

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

from .dataset import Dataset, mapped
from .sums import Sums


@dataclass(frozen=True)
class Task:
    """What to measure. The file at `path` is made by the worker, and stays."""

    rival: str
    threads: int
    source: str
    path: str
    texts: dict[str, list[str]]


@dataclass(frozen=True)
class Result:
    """What was measured and found."""

    write_seconds: float
    read_seconds: float
    bytes: int
    rows: int
    columns: dict[str, int]


class WorkerError(Exception):
    """A rival failed; says what it printed."""


def measure(rival: str, threads: int, dataset: Dataset, path: Path) -> tuple[Result, Sums]:
    """Runs one worker; what it found is not checked yet."""
    task = Task(rival, threads, str(dataset.source), str(path), dataset.texts)
    command = [sys.executable, "-m", __name__, json.dumps(asdict(task))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise WorkerError(
            f"{rival} with {dataset.name} failed, exit code {done.returncode}: {done.stderr.strip()}"
        )
    result = Result(**json.loads(done.stdout))
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
    read = subject.reader(path, task.texts, task.threads)
    read()
    sums = Sums()
    read_seconds = _seconds(lambda: sums.add(read()))
    return Result(write_seconds, read_seconds, path.stat().st_size, sums.rows, sums.columns)


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    _main()
