"""What pages say works: their programs run, and the reference is that of the docstrings."""

import doctest
import inspect
import io
import json
import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

import tapedb
from conftest import START, needs_linux_for_topics

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["docs/PYTHON.md", "docs/PYTHON-COOKBOOK.md", "python/README.md", "README.md"]


def programs():
    for page in PAGES:
        text = (ROOT / page).read_text()
        for number, (info, body) in enumerate(re.findall(r"```(python[^\n]*)\n(.*?)```", text, re.DOTALL)):
            if "no-run" not in info:
                yield pytest.param(body, id=f"{page}:{number}")


@pytest.mark.parametrize("body", list(programs()))
def test_a_page_s_program_runs(body, tmp_path, monkeypatch):
    for name in ("polars", "pandas", "pyarrow", "duckdb"):
        if f"import {name}" in body or f"{name}." in body:
            pytest.importorskip(name)
    needs_linux_for_topics(body)
    program = tmp_path / "program.py"
    program.write_text(body)
    # A process of its own: dataclasses and fork handlers are as for a user.
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


NOTEBOOKS = ["tutorial.ipynb", "order_books.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    # Plots are drawn, and not shown.
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = json.loads((ROOT / "python/examples" / name).read_text())
    names = {"__name__": "notebook"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8
    for number, cell in enumerate(cells):
        *lines, last = "".join(cell["source"]).splitlines()
        exec(compile("".join(cell["source"]), f"{name}, cell {number}", "exec"), names)
        assert cell["outputs"] == [], "the notebook is stored without outputs"
        # What a notebook would show at the end of a cell.
        shown = names.get(last.strip())
        for show in ("_repr_html_", "__repr__"):
            if hasattr(shown, show) and not isinstance(shown, type):
                assert getattr(shown, show)()
    assert names["recorded"] > 0 and names.get("replayed", names["recorded"]) == names["recorded"]


EXAMPLES = {"recorder.py": ["demo.tapedb", "--seconds", "1"], "backtest.py": ["demo.tapedb", "--seconds", "1"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name, tmp_path):
    program = ROOT / "python/examples" / name
    done = subprocess.run([sys.executable, program, *EXAMPLES[name]], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"


def test_every_example_is_tested():
    assert {path.name for path in (ROOT / "python/examples").iterdir() if path.is_file()} == {*EXAMPLES, *NOTEBOOKS}


def documented():
    """Everything public that has examples in its documentation."""
    for name in tapedb.__all__:
        value = getattr(tapedb, name)
        members = vars(value).items() if isinstance(value, type) else ()
        for title, found in [(name, value), *((f"{name}.{member}", found) for member, found in members if not member.startswith("_"))]:
            if ">>>" in (getattr(found, "__doc__", None) or ""):
                yield pytest.param(found.__doc__, id=title)


@pytest.mark.parametrize("text", list(documented()))
def test_the_examples_of_the_reference_run(text, tmp_path, monkeypatch):
    """In a folder with a database `db` that has a stream of three ticks."""
    for library in ("numpy", "pandas", "polars", "duckdb"):
        if library in text or library == "numpy":
            pytest.importorskip(library)
    needs_linux_for_topics(text)
    monkeypatch.chdir(tmp_path)
    db = tapedb.open("my.tapedb")
    stream = db.create("ticks", "message Tick { price: decimal64, size: u32 }")
    with stream.loader() as load:
        for second, (symbol, price) in enumerate([("AIG", "48.35"), ("BAC", "31.07"), ("AIG", "48.36")]):
            load.append(symbol, START + second * 1_000_000_000, price=price, size=(second + 1) * 100)
    # Classes are defined in a module, as those of a program.
    names = {"tapedb": tapedb, "db": db, "stream": stream, "__name__": "__main__"}
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(text), names, "example", None, 0)
    out = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=out.write)
    assert test.examples and runner.failures == 0, out.getvalue()
    for value in test.globs.values():
        if isinstance(value, tapedb.Database):
            value.close()
    db.close()


def test_the_reference_is_that_of_the_docstrings():
    page = ROOT / "docs/PYTHON-API.md"
    made = runpy.run_path(str(ROOT / "python/reference.py"))["page"]()
    if os.environ.get("TAPEDB_WRITE_REFERENCE"):
        page.write_text(made)
    assert page.read_text() == made, "TAPEDB_WRITE_REFERENCE=1 python/check test writes it"
