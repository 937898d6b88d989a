"""What pages say works: their programs run, and the reference is that of the docstrings."""

import json
import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest

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
    if "topic" in body and sys.platform != "linux":
        pytest.skip("topics need Linux")
    program = tmp_path / "program.py"
    program.write_text(body)
    # A process of its own: dataclasses and fork handlers are as for a user.
    done = subprocess.run([sys.executable, program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_the_tutorial_runs(tmp_path, monkeypatch):
    pytest.importorskip("polars")
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "python/examples/tutorial.ipynb").read_text())
    names = {"__name__": "tutorial"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        assert cell["outputs"] == [], "the notebook is stored without outputs"
    assert names["replayed"] == names["recorded"] > 0


EXAMPLES = {"recorder.py": ["demo.tapedb", "--seconds", "1"], "backtest.py": ["demo.tapedb", "--seconds", "1"], "books.py": ["demo.tapedb"]}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name, tmp_path):
    program = ROOT / "python/examples" / name
    done = subprocess.run([sys.executable, program, *EXAMPLES[name]], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"


def test_the_reference_is_that_of_the_docstrings():
    page = ROOT / "docs/PYTHON-API.md"
    made = runpy.run_path(str(ROOT / "python/reference.py"))["page"]()
    if os.environ.get("TAPEDB_WRITE_REFERENCE"):
        page.write_text(made)
    assert page.read_text() == made, "TAPEDB_WRITE_REFERENCE=1 python/check test writes it"
