"""Apache Kafka: one broker that is its own controller (KRaft), topics of one replica, clients in Java.

Acknowledged means appended to the log file, so in the operating system's hands, which syncs when it likes
(`log.flush.interval.messages`, the default). That is `async`. Producers keep the default `acks=all`: with one
replica it waits for the same as `acks=1`, which would turn idempotence off.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from common.process import INSTALL_SECONDS_MAX, free_port, output, server
from . import PACKED, Case

_HERE = Path(__file__).parent.parent / "kafka"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_CLUSTER = "dGFwZWRiLXJpdmFscy0wMA"
# As in bin/kafka-server-start.sh.
_BROKER_JVM = ("-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
# To make the folder that a broker starts in.
_FORMAT_SECONDS_MAX = 120
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"

_FOR_THROUGHPUT = {
    "producer.linger.ms": "20",
    "producer.batch.size": "1000000",
    "producer.buffer.memory": str(64 << 20),
    "consumer.max.poll.records": "10000",
    "consumer.max.partition.fetch.bytes": str(8 << 20),
}
_FOR_LATENCY = {"producer.linger.ms": "0"}
_LZ4 = {"producer.compression.type": "lz4"}


class Kafka:
    """See the module."""

    key = "kafka"
    # Broker and client compile their hot paths.
    rehearsal_seconds = 10.0
    cases: tuple[Case, ...] = (
        Case("default", "Kafka, defaults", measures_latency=True),
        Case("tuned", "Kafka, large batches", _FOR_THROUGHPUT),
        Case("tuned-lz4", "Kafka, large batches, lz4", {**_FOR_THROUGHPUT, **_LZ4}),
        Case(
            "packed",
            f"Kafka, large batches, {PACKED} records a message",
            {**_FOR_THROUGHPUT, "packed": str(PACKED)},
        ),
        Case(
            "packed-lz4",
            f"Kafka, large batches, lz4, {PACKED} records a message",
            {**_FOR_THROUGHPUT, **_LZ4, "packed": str(PACKED)},
        ),
        Case("hasty", "Kafka, no linger", _FOR_LATENCY, measures_throughput=False, measures_latency=True),
    )

    def __init__(self, cache: Path) -> None:
        self._jars = cache / "kafka-jars"
        self._classes = cache / "kafka-client"

    def install(self) -> None:
        """Jars with Maven, the client with javac."""
        pom, copied = _HERE / "pom.xml", self._jars / "pom.xml"
        if not (copied.exists() and copied.read_bytes() == pom.read_bytes()):
            shutil.rmtree(self._jars, ignore_errors=True)
            folder = f"-DoutputDirectory={self._jars}"
            mvn = ["mvn", "-B", "-q", "-f", str(pom), _PLUGIN, "-DincludeScope=runtime", folder]
            output(mvn, INSTALL_SECONDS_MAX)
            shutil.copyfile(pom, copied)
        sources = [str(path) for path in sorted((_HERE / "client").glob("*.java"))]
        javac = ["javac", "-d", str(self._classes), "-cp", f"{self._jars}/*", *sources]
        output(javac, INSTALL_SECONDS_MAX)

    @contextlib.contextmanager
    def serve(self, folder: Path) -> Iterator[str]:
        """With what a single broker needs, else as it comes."""
        port = free_port()
        config = folder / "server.properties"
        config.write_text(_properties(folder, port, free_port()), encoding="utf-8")
        java = ["java", *_BROKER_JVM, _QUIET, "-cp", f"{self._jars}/*"]
        tool = [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(config)]
        output(tool, _FORMAT_SECONDS_MAX)
        with server([*java, "kafka.Kafka", str(config)], port, folder / "server.log"):
            yield f"127.0.0.1:{port}"

    def program(self) -> list[str]:
        """A JVM as it comes but for the heap, which four pairs fill."""
        return ["java", "-Xmx2G", _QUIET, "-cp", f"{self._classes}:{self._jars}/*", "Main"]


def _properties(folder: Path, port: int, controller_port: int) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "log.dirs": str(folder / "logs"),
        "offsets.topic.replication.factor": "1",
    }
    return "".join(f"{key}={value}\n" for key, value in lines.items())
