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


FORMATS = ["us-equity-ticks", "fx-ticks", "binance-raw-ws"]
# Messages that are compared of each format; the rest are counted.
COMPARED = int(os.environ.get("TAPEDB_REAL_MESSAGES", "10000"))


@pytest.fixture(scope="module", params=FORMATS)
def imported(request, tmp_path_factory):
    """A database with recorded market data of a format, imported by the command."""
    if not DATA or not command():
        pytest.skip("there is no recorded data (TAPEDB_DATA), or no command")
    folder = pathlib.Path(DATA) / request.param
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".md", ".txt"))
    if not files:
        pytest.skip(f"there is no {request.param} among the recorded data")
    path = tmp_path_factory.mktemp("real") / "db"
    smallest = min((file for file in files if file.stat().st_size > 10_000), key=lambda file: file.stat().st_size)
    done = subprocess.run(
        [command(), "import", "--db", path, "--create", "--stream", "market", "--format", request.param, smallest],
        capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    return path


def values(array):
    """A column as messages have its values."""
    if array.dtype.kind in "Mm":
        return [None if time == -(2**63) else time for time in array.view("i8").tolist()]
    return array.tolist()


def plain(value):
    """A value as messages have it: a polymorphic record is a struct with the name of its type, and one for each alternative."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict) and isinstance(value.get("type"), str) and value["type"] in value:
        return {"type": value["type"], **{name: plain(field) for name, field in value[value["type"]].items()}}
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    return value


def same(a, b):
    if isinstance(a, dict) and isinstance(b, dict):
        # A record that can be of one type alone has no name in columns.
        return all(same(a[name], b[name]) for name in a if name in b or name != "type")
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(b, float) and b != b:
        return a is None or a != a
    return a == b


def test_messages_are_those_of_the_command(imported):
    """The command is the Rust cursor: every field of every message, in its order."""
    read = subprocess.Popen([command(), "read", "--db", imported, "market", "--output", "json"], stdout=subprocess.PIPE, text=True)
    with tapedb.open(imported, "r") as db:
        count = 0
        for m, line in zip(db["market"].cursor(), read.stdout):
            if count < COMPARED or count % 97 == 0:
                assert json.loads(m.to_json()) == json.loads(line)
            count += 1
        assert count == db["market"].stats().messages > 1_000
    assert read.stdout.read() == "" and read.wait() == 0
    read.stdout.close()


@pytest.mark.parametrize("sealed", [False, True], ids=["as it is", "sealed"])
def test_columns_are_those_of_the_messages(imported, sealed):
    pytest.importorskip("numpy")
    if sealed:
        with tapedb.open(imported) as db:
            db["market"].seal()
    with tapedb.open(imported, "r") as db:
        stream = db["market"]
        for name in stream.types:
            messages = stream.cursor(types=name)
            read = 0
            for batch in stream.arrow(name, decimals=18, sequences=True):
                columns = {column: values(array) for column, array in batch.to_numpy().items()}
                # Where there is a field of the name, the header's column has a longer one.
                number = "message_sequence" if "message_sequence" in columns else "sequence"
                fields = [column for column in columns if column not in ("time", "symbol", number, "space")]
                for row, m in enumerate(messages.take(len(batch))):
                    assert (m.time, m.symbol, getattr(m, number)) == (columns["time"][row], columns["symbol"][row], columns[number][row])
                    found = m.to_dict()
                    assert all(same(found[field], plain(columns[field][row])) for field in fields), (found, {field: columns[field][row] for field in fields})
                read += len(batch)
                if read >= COMPARED:
                    break
            assert read >= min(COMPARED, stream.table(name, []).count())


def test_a_table_loaded_again_is_the_stream(imported, tmp_path):
    pytest.importorskip("pyarrow")
    with tapedb.open(imported, "r") as db, tapedb.open(tmp_path / "copy") as copies:
        stream = db["market"]
        copy = copies.create("copy", stream.schema)
        bounds = stream.stats()
        end = bounds.first_time + (bounds.last_time - bounds.first_time) // 20 + 1
        with copy.loader() as load:
            for name in stream.types:
                load.append_table(stream.table(name, end=end, decimals="raw"), type=name)
        for name in stream.types:
            pairs = zip(stream.cursor(types=name, end=end), copy.cursor(types=name), strict=True)
            assert all((m.time, m.symbol, m.to_json()) == (n.time, n.symbol, n.to_json()) for m, n in pairs)
