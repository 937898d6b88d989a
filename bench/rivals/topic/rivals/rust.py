"""Rivals in Rust: packages of the workspace in `rust`."""

import os
import shutil
import sys
from pathlib import Path

from common.process import ProcessError, output

_WORKSPACE = Path(__file__).parent.parent / "rust"
# CMake builds Aeron; libclang reads the headers that rivals' crates bind to. Both from PyPI.
_TOOLS = _WORKSPACE / "requirements.txt"


def build(package: str, cache: Path) -> None:
    """Builds the programs of one of its packages."""
    manifest = str(_WORKSPACE / "Cargo.toml")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest]
    output([*command, "--package", package, "--target-dir", str(_target(cache))], **_environment(cache))


def build_probe(cache: Path) -> None:
    """Builds what measures how far apart the cores are."""
    build("tapedb-rival-rules", cache)


def program(name: str, cache: Path) -> list[str]:
    """Runs what `build` made."""
    return [str(_target(cache) / "release" / name)]


def probe(cache: Path) -> list[str]:
    """Runs what `build_probe` made."""
    return program("tapedb-rival-probe", cache)


def libraries(crate: str, cache: Path) -> Path:
    """Where the newest build of a crate has put the shared libraries that it has built itself."""
    folders = (_target(cache) / "release" / "build").glob(f"{crate}-*/out/build/lib")
    return max(folders, key=lambda folder: folder.stat().st_mtime)


def _target(cache: Path) -> Path:
    return cache / "topic-rust"


def _environment(cache: Path) -> dict[str, str]:
    tools = _install_tools(cache)
    found = sorted(path.parent for path in tools.rglob("libclang*.so*"))
    if not found:
        raise ProcessError(f"no libclang in {tools}")
    # That libclang comes without the compiler's own headers.
    headers = output(["cc", "-print-file-name=include"]).strip()
    return {
        "PATH": f"{tools / 'bin'}:{os.environ['PATH']}",
        "LIBRARY_PATH": str(_stand_in(tools)),
        "LIBCLANG_PATH": str(found[0]),
        "BINDGEN_EXTRA_CLANG_ARGS": f"-I{headers}",
    }


def _stand_in(tools: Path) -> Path:
    """A folder with an empty libbsd: `rusteron` links it even where Aeron was built without, as there is none."""
    folder = tools / "stand-in"
    folder.mkdir(exist_ok=True)
    output(["ar", "rcs", str(folder / "libbsd.a")])
    return folder


def _install_tools(cache: Path) -> Path:
    tools = cache / "topic-build-tools"
    installed = tools / "installed.txt"
    if not (installed.exists() and installed.read_bytes() == _TOOLS.read_bytes()):
        shutil.rmtree(tools, ignore_errors=True)
        output([sys.executable, "-m", "venv", str(tools)])
        install = [str(tools / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-deps"]
        output([*install, "--only-binary", ":all:", "-r", str(_TOOLS)])
        shutil.copyfile(_TOOLS, installed)
    return tools
