"""The same messages as the command reads, of recorded market data."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

import tapedb
from conftest import DATA


def command():
    """The `tapedb` command of this tree, if it was built."""
    stated = os.environ.get("TAPEDB_COMMAND")
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", pathlib.Path(__file__).parents[2] / "target"))
    built = [path for profile in ("release", "debug") if (path := target / profile / "tapedb").exists()]
    return stated or (str(built[0]) if built else shutil.which("tapedb"))


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """A database with recorded trades and quotes, imported by the command."""
    if not DATA or not command():
        pytest.skip("there is no recorded data (TAPEDB_DATA), or no command")
    folder = pathlib.Path(DATA) / "us-equity-ticks"
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".md", ".txt"))
    if not files:
        pytest.skip("there are no US equity ticks among the recorded data")
    path = tmp_path_factory.mktemp("real") / "db"
    smallest = min(files, key=lambda file: file.stat().st_size)
    done = subprocess.run(
        [command(), "import", "--db", path, "--create", "--stream", "us", "--format", "us-equity-ticks", smallest],
        capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    return path


def test_messages_are_those_of_the_command(imported):
    read = subprocess.Popen([command(), "read", "--db", imported, "us", "--output", "json"], stdout=subprocess.PIPE, text=True)
    with tapedb.open(imported, "r") as db:
        count = 0
        for m, line in zip(db["us"].cursor(), read.stdout):
            if count < 20_000 or count % 97 == 0:
                assert json.loads(m.to_json()) == json.loads(line)
            count += 1
            if count == 200_000:
                break
        assert count > 1_000
    read.kill()
    read.wait()
    read.stdout.close()


def test_columns_are_those_of_the_messages(imported):
    pytest.importorskip("numpy")
    with tapedb.open(imported, "r") as db:
        stream = db["us"]
        name = stream.types[0]
        times, symbols = [], []
        for m in stream.cursor(types=name):
            times.append(m.time)
            symbols.append(m.symbol)
            if len(times) == 100_000:
                break
        read = 0
        for batch in stream.arrow(name, []):
            part = slice(read, read + len(batch))
            known = len(times[part])
            assert batch["time"].view("i8")[:known].tolist() == times[part]
            assert batch["symbol"][:known].tolist() == symbols[part]
            read += len(batch)
            if read >= len(times):
                break
        assert min(read, len(times)) == len(times) > 1_000
