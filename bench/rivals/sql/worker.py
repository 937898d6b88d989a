"""A process that loads the tables of a query into one rival, runs it once to warm up, and then again, timed.

It may run on so many cores as it has threads. Its input is a `Task` as JSON in its only argument, its
output one line.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from storage.worker import WorkerError

from .answer import Answer, answer
from .queries import Hour


@dataclass(frozen=True)
class Task:
    """What to measure. Files of the rival itself are made in `folder`; `hour` is what the case of that name is about."""

    rival: str
    case: str
    threads: int
    tables: dict[str, str]
    folder: str
    hour: tuple[str, int, int]


def measure(task: Task) -> tuple[float, Answer]:
    """Runs one worker: seconds, and what was found."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(asdict(task))], capture_output=True, text=True
    )
    if done.returncode:
        raise WorkerError(
            f"{task.rival}, {task.case} failed, exit code {done.returncode}: {done.stderr.strip()[-500:]}"
        )
    # A library may print before.
    seconds, rows, columns = json.loads(done.stdout.splitlines()[-1])
    return seconds, Answer(rows, [tuple(column) for column in columns])


def _main() -> None:
    from .rivals import rival

    task = Task(**json.loads(sys.argv[1]))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: task.threads])
    tables = {name: _table(path) for name, path in task.tables.items()}
    run = rival(task.rival).prepare(task.case, tables, Path(task.folder), task.threads, Hour(*task.hour))
    run()
    started = time.perf_counter()
    found = run()
    seconds = time.perf_counter() - started
    result = answer(found if isinstance(found, pa.Table) else pa.table(found))
    print(json.dumps([seconds, result.rows, result.columns]))


def _table(path: str) -> pa.Table:
    """The rows, with times that have no zone: not all rivals have nanoseconds with one."""
    table = pa.ipc.open_stream(pa.memory_map(path)).read_all()
    return table.set_column(0, "time", table["time"].cast(pa.timestamp("ns")))


if __name__ == "__main__":
    _main()
