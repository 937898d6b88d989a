"""Rivals in Java: jars by a `pom.xml`, and a program that is compiled when it is run."""

import shutil
from pathlib import Path

from common.process import output

_HERE = Path(__file__).parent.parent / "java"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def install(name: str, cache: Path) -> None:
    """Jars with Maven, the program, in the folder of that name, with javac."""
    jars, classes = _folders(name, cache)
    pom, copied = _HERE / name / "pom.xml", jars / "pom.xml"
    if not (copied.exists() and copied.read_bytes() == pom.read_bytes()):
        shutil.rmtree(jars, ignore_errors=True)
        folder = f"-DoutputDirectory={jars}"
        output(["mvn", "-B", "-q", "-f", str(pom), _PLUGIN, "-DincludeScope=runtime", folder])
        shutil.copyfile(pom, copied)
    sources = [str(path) for part in ("rules", name) for path in sorted((_HERE / part).glob("*.java"))]
    output(["javac", "-d", str(classes), "-cp", f"{jars}/*", *sources])


def program(name: str, main: str, options: list[str], cache: Path) -> list[str]:
    """Runs a class of what `install` made."""
    jars, classes = _folders(name, cache)
    return ["java", *options, "-cp", f"{classes}:{jars}/*", main]


def _folders(name: str, cache: Path) -> tuple[Path, Path]:
    return cache / f"topic-{name}-jars", cache / f"topic-{name}-classes"
