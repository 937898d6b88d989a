"""TapeDB in Python beside DuckDB, Polars on Parquet and IPC, and ArcticDB, in the same run: `make bench-python`.

Bars of four integer prices and a volume, 500 symbols, one core. Each case checks its output, and prints the median of its rounds;
`--json` prints one object a line, as `tapedb bench` does. Beside the rate by the clock is that by the process's time on the processor,
which others that use the machine change less. Rivals that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

# One core for everybody: before the libraries start their threads.
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import tapedb  # noqa: E402

SCHEMA = "message Bar { open: i64, high: i64, low: i64, close: i64, volume: i64 }"
SYMBOLS = 500
START = 1_767_623_400_000_000_000


def bars(rows: int) -> dict[str, np.ndarray]:
    """Bars in time order: each symbol walks at random."""
    random = np.random.default_rng(1)
    symbol = np.arange(rows) % SYMBOLS
    close = 10_000 + np.cumsum(random.integers(-2, 3, rows), dtype="i8") % 1_000
    return {
        "time": START + np.arange(rows, dtype="i8") * 1_000_000,
        "symbol": symbol,
        "open": close - random.integers(0, 5, rows),
        "high": close + random.integers(0, 9, rows),
        "low": close - random.integers(0, 9, rows),
        "close": close,
        "volume": random.integers(1, 1_000, rows) * 100,
    }


class Laps:
    """How long each round of a case took: by the clock, and on the processor."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu: list[float] = []

    def __enter__(self) -> None:
        self.begun = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds.append(time.perf_counter() - self.begun[0])
        self.cpu.append(time.process_time() - self.begun[1])


class Bench:
    """Data, databases and files, and what is measured on them."""

    def __init__(self, folder: pathlib.Path, rows: int, rounds: int, as_json: bool, long: int) -> None:
        self.folder, self.rows, self.rounds, self.as_json, self.long = folder, rows, rounds, as_json, long
        self.columns = bars(rows)
        self.volume = int(self.columns["volume"].sum())
        self.closing = int(self.columns["close"].sum())
        self.db = tapedb.open(folder / "db")

    def frame(self):
        return self.frame_of(self.columns)

    def frame_of(self, columns: dict[str, np.ndarray]):
        import polars as pl

        names = pl.Series([f"S{i:03}" for i in range(SYMBOLS)])
        return pl.DataFrame(columns).with_columns(
            pl.col("time").cast(pl.Datetime("ns", "UTC")), symbol=names.gather(columns["symbol"]).cast(pl.Categorical)
        )

    def report(self, case: str, laps: Laps, rows: int) -> None:
        """Rows a second."""
        self.row(case, "speed", "Mrows/s", [rows / s / 1e6 for s in laps.seconds])
        self.row(case, "cpu", "Mrows/s", [rows / s / 1e6 for s in laps.cpu])

    def report_time(self, case: str, seconds: list[float]) -> None:
        self.row(case, "time", "ms", [s * 1e3 for s in seconds])

    def row(self, case: str, metric: str, unit: str, values: list[float]) -> None:
        values = sorted(values)
        found = {
            "bench": "python", "case": case, "metric": metric, "unit": unit, "value": round(statistics.median(values), 3),
            "min": round(values[0], 3), "max": round(values[-1], 3), "n": len(values), "machine": machine(),
        }
        if self.as_json:
            print(json.dumps(found), flush=True)
        else:
            spread = f"{values[0]:.2f} to {values[-1]:.2f}, n = {len(values)}"
            print(f"{case:<28} {metric:<14} {found['value']:>10.2f} {unit:<8} {spread}", flush=True)

    def measure(self, case: str, call: Callable[[], object], check: Callable[[object], bool], rows: int | None = None) -> None:
        laps = Laps()
        for _ in range(self.rounds):
            with laps:
                result = call()
            if not check(result):
                raise SystemExit(f"{case}: the output is wrong")
            del result
        self.report(case, laps, rows or self.rows)

    def load(self, *, is_measured: bool = True) -> None:
        """The stream that all reading cases read, and how fast it was loaded."""
        frame, laps = self.frame(), Laps()
        for number in range(self.rounds if is_measured else 1):
            stream = self.db.create(f"bars{number}", SCHEMA)
            with laps, stream.loader() as load:
                load.append_table(frame)
            if stream.stats().messages != self.rows:
                raise SystemExit("append_table: messages are missing")
            if number:
                self.db.delete(f"bars{number}")
        if is_measured:
            self.report("python.append_table", laps, self.rows)
        self.stream = self.db["bars0"]
        self.stream.seal()

    def load_remote(self) -> None:
        frame, laps = self.frame(), Laps()
        # A server in a process of its own: a core of its own where there are two.
        script = "import sys, tapedb; s = tapedb.serve(sys.argv[1]); print(s.url, flush=True); sys.stdin.read()"
        command = [sys.executable, "-P", "-c", script, str(self.folder / "served")]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert server.stdout and server.stdin
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(server.pid, range(os.cpu_count() or 1))
        try:
            with tapedb.open(server.stdout.readline().strip()) as db:
                for number in range(self.rounds):
                    stream = db.create(f"bars{number}", SCHEMA)
                    with laps, stream.loader() as load:
                        load.append_table(frame)
                    if stream.stats().messages != self.rows:
                        raise SystemExit("append_table.remote: messages are missing")
                    db.delete(f"bars{number}")
        finally:
            server.stdin.close()
            server.wait()
        self.report("python.append_table.remote", laps, self.rows)

    def read(self) -> None:
        stream = self.stream
        volume = lambda batches: sum(int(batch["volume"].sum()) for batch in batches)  # noqa: E731

        def drained(order: str) -> int:
            return sum(len(batch) for batch in stream.arrow(order=order))

        for case, order in (("python.arrow.time", "time"), ("python.arrow.symbol", "symbol")):
            if volume(stream.arrow(fields=["volume"], order=order)) != self.volume:
                raise SystemExit(f"{case}: the volume is wrong")
            self.measure(case, lambda order=order: drained(order), lambda rows: rows == self.rows)
        self.measure("python.polars", lambda: stream.table().to_polars(), lambda frame: frame["volume"].sum() == self.volume)
        self.measure("python.pandas", lambda: stream.table().to_pandas(), lambda frame: frame["volume"].sum() == self.volume)

    def messages(self) -> None:
        count = min(self.rows, 2_000_000)

        def read() -> int:
            closing = seen = 0
            for m in self.stream.cursor():
                closing += m.close + m.volume - m.volume
                m.symbol
                seen += 1
                if seen == count:
                    break
            return closing

        expected = int(self.columns["close"][:count].sum())
        self.measure("python.messages.read", read, lambda closing: closing == expected, count)
        number = iter(range(1_000))

        def append() -> int:
            stream = self.db.create(f"appended{next(number)}", "message Tick { price: decimal64, size: u32 }")
            with stream.loader() as load:
                append = load.append
                for i in range(count // 2):
                    append("AIG", i, price="48.35", size=100)
            return stream.stats().messages

        self.measure("python.messages.append", append, lambda messages: messages == count // 2, count // 2)

    def first_row(self) -> None:
        """The first message from a time on, of all symbols and of one, in a long stream: a new cursor each time."""
        stream, step = self.db.create("long", SCHEMA), 1_000_000
        columns = dict(self.columns)
        with stream.loader() as load:
            for first in range(0, self.long, self.rows):
                count = min(self.rows, self.long - first)
                columns["time"] = START + np.arange(first, first + count, dtype="i8") * step
                piece = {name: values[:count] for name, values in columns.items()}
                load.append_table(self.frame_of(piece))
        stream.seal()
        if stream.stats().messages != self.long:
            raise SystemExit("first_row: messages are missing")
        for case, symbol in (("python.first_row", None), ("python.first_row.symbol", SYMBOLS // 3)):
            seconds = []
            for round in range(self.rounds):
                row = self.long * (round + 1) // (self.rounds + 2)
                begun = time.perf_counter()
                m = next(iter(stream.cursor(start=START + row * step, symbols=None if symbol is None else f"S{symbol:03}")))
                seconds.append(time.perf_counter() - begun)
                # A row's symbol is its number within its piece.
                expected = row
                while symbol is not None and expected % self.rows % SYMBOLS != symbol:
                    expected += 1
                if m.time != START + expected * step:
                    raise SystemExit(f"{case}: the wrong message")
            self.report_time(case, seconds)
        self.db.delete("long")

    def memory(self) -> None:
        """Peak memory of a scan, and of `to_polars` and `to_pandas` beside their results, each in a process of its own."""
        script = """
import sys, tapedb, numpy, polars, pandas
def peak(restart=False):
    if restart:
        open("/proc/self/clear_refs", "w").write("5")
    with open("/proc/self/status") as file:
        found = dict(line.split(":") for line in file)
    return int(found["VmHWM"].split()[0]) << 10
db = tapedb.open(sys.argv[1], "r")
stream = db["bars0"]
before = peak()
if sys.argv[2] == "scan":
    rows = sum(len(batch) for batch in stream.arrow())
    print(rows, peak() - before)
else:
    for batch in stream.arrow(end=stream.stats().first_time + 1): pass
    before = peak(restart=True)
    if sys.argv[2] == "polars":
        frame = stream.table().to_polars()
        print(frame.estimated_size(), peak() - before, int(frame["volume"].sum()))
    else:
        frame = stream.table().to_pandas()
        print(int(frame.memory_usage().sum()), peak() - before, int(frame["volume"].sum()))
"""
        if not os.path.exists("/proc/self/clear_refs"):
            return
        for case in ("scan", "polars", "pandas"):
            command = [sys.executable, "-P", "-c", script, str(self.folder / "db"), case]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            size, grown, *volume = map(int, done.stdout.split())
            if size != self.rows if case == "scan" else volume != [self.volume]:
                raise SystemExit(f"memory.{case}: the output is wrong")
            if case == "scan":
                self.row("python.memory.scan", "peak", "MiB", [grown / (1 << 20)])
            else:
                self.row(f"python.memory.{case}", "peak to result", "ratio", [grown / size])

    def interrupt(self) -> None:
        """From Ctrl-C to the exception: of a cursor that waits for messages, a call that waits for a stopped server, and one that waits
        for a lost one."""
        waits = {
            "python.interrupt": "import tapedb\ns = tapedb.open(sys.argv[1]).create('t', 'message T { x: u8 }', exist_ok=True)\ncall = lambda: list(s.cursor(live=True))",
            "python.interrupt.batches": "import tapedb\ns = tapedb.open(sys.argv[1]).create('t', 'message T { x: u8 }', exist_ok=True)\ncall = lambda: list(s.arrow(live=True, every=60))",
            "python.interrupt.stopped": "signalled, call = signal.SIGSTOP, lambda: db.streams()",
            "python.interrupt.lost": "signalled, call = signal.SIGKILL, lambda: db.streams()",
        }
        for case, setup in waits.items():
            seconds = []
            for round in range(self.rounds):
                script = f"""
import os, signal, subprocess, sys, time
import tapedb
server = None
if "{case}".endswith(("stopped", "lost")):
    serving = "import sys, tapedb; s = tapedb.serve(sys.argv[1]); print(s.url, flush=True); sys.stdin.read()"
    server = subprocess.Popen([sys.executable, "-P", "-c", serving, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    db = tapedb.open(server.stdout.readline().strip(), reconnect_timeout=600)
{setup}
if server: server.send_signal(signalled)
try:
    print("ready", flush=True)
    while True:
        # The server may answer before the signal stops it, and an answer may be lost with the connection: the next call waits.
        try:
            call()
        except tapedb.Disconnected:
            pass
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
if server: server.kill()
os._exit(0)
"""
                command = [sys.executable, "-P", "-c", script, str(self.folder / f"{case}{round}")]
                child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                assert child.stdout
                child.stdout.readline()
                # Somewhere within the interval at which waits look for signals.
                time.sleep(0.2 + 0.01 * round)
                sent = time.monotonic()
                child.send_signal(signal.SIGINT)
                seconds.append(float(child.stdout.readline()) - sent)
                child.wait()
            self.report_time(case, seconds)

    def rivals(self) -> None:
        for rival in (self.parquet, self.duckdb, self.arctic):
            try:
                rival()
            except ImportError as error:
                print(f"{rival.__name__}: left out, {error}", file=sys.stderr)

    def parquet(self) -> None:
        import polars as pl
        import pyarrow.parquet as pq

        path = self.folder / "bars.parquet"
        self.measure("polars.write_parquet", lambda: self.frame().write_parquet(path), lambda _: path.exists())
        right = lambda frame: frame["volume"].sum() == self.volume  # noqa: E731
        self.measure("polars.scan_parquet", lambda: pl.scan_parquet(path).collect(), right)
        ipc = self.folder / "bars.arrow"
        self.frame().write_ipc(ipc, compression="uncompressed")
        self.measure("polars.scan_ipc", lambda: pl.scan_ipc(ipc).collect().clone(), right)
        self.measure("pyarrow.parquet.pandas", lambda: pq.read_table(path, use_threads=False).to_pandas(use_threads=False), right)

    def duckdb(self) -> None:
        import duckdb

        connection = duckdb.connect(str(self.folder / "bars.duckdb"))
        connection.execute("set threads = 1")
        frame = self.frame().to_arrow()  # noqa: F841: DuckDB finds it by its name
        connection.execute("create table bars as select * from frame order by time")
        right = lambda table: table["volume"].to_numpy().sum() == self.volume  # noqa: E731
        # Not through `execute`, which makes another copy of the rows.
        read = lambda: connection.sql("select * from bars").to_arrow_table()  # noqa: E731
        self.measure("duckdb.arrow", read, right)
        self.measure("duckdb.pandas", lambda: connection.execute("select * from bars").df(), lambda f: f["volume"].sum() == self.volume)
        connection.close()

    def arctic(self) -> None:
        import arcticdb

        library = arcticdb.Arctic(f"lmdb://{self.folder / 'arctic'}?map_size=20GB").get_library("bars", create_if_missing=True)
        # Symbols as numbers: texts would take it several times as long.
        frame = self.frame().with_columns(symbol=self.columns["symbol"]).to_pandas().set_index("time")
        frame.index = frame.index.tz_localize(None)
        self.measure("arcticdb.write", lambda: library.write("bars", frame, prune_previous_versions=True), lambda item: item.version >= 0)
        self.measure("arcticdb.pandas", lambda: library.read("bars").data, lambda f: f["volume"].sum() == self.volume)
        arrow = lambda: library.read("bars", output_format="pyarrow").data  # noqa: E731
        self.measure("arcticdb.arrow", arrow, lambda table: table["volume"].to_numpy().sum() == self.volume)


def machine() -> str:
    """Processor, memory and libraries, so that figures are compared with those of the same machine alone."""
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":")[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def run(bench: Bench, cases: str) -> Iterator[None]:
    bench.load(is_measured=cases in ("all", "load"))
    yield
    for group in (bench.read, bench.messages, bench.first_row, bench.memory, bench.load_remote, bench.interrupt, bench.rivals):
        if cases in ("all", group.__name__):
            group()
            yield


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=20_000_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--cases", default="all", help="load, read, messages, first_row, memory, load_remote, interrupt, rivals, or all")
    arguments.add_argument("--long", type=int, default=100_000_000, help="messages of the stream whose first rows are asked for")
    arguments.add_argument("--folder", type=pathlib.Path, help="where files go; by default a temporary folder")
    wanted = arguments.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tapedb-bench-", dir=wanted.folder))
    try:
        bench = Bench(folder, wanted.rows, wanted.rounds, wanted.json, wanted.long)
        if not wanted.json:
            print(f"{machine()}; {wanted.rows:,} bars, one core")
        for _ in run(bench, wanted.cases):
            pass
        bench.db.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
