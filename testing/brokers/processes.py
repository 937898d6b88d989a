"""Brokers and the command as processes, and the messages that are sent through them."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path

SCHEMA = "message Tick { n: i64, price: decimal(18,4), size: i64 }"
SYMBOLS = [f"S{n:03}" for n in range(100)] + ["BRK.B", "a b"]
STEP_SECONDS_MAX = 600


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Broker:
    """A process that listens on a port, and can be killed and started again."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder, self.port = home, folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        with (self.folder / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.folder)
        until = time.monotonic() + 120
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.1)
        sys.exit(f"the broker does not start:\n{(self.folder / 'broker.log').read_text()[-2000:]}")

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()


class Nats(Broker):
    name = "nats"

    def command(self) -> list[str]:
        config = self.folder / "nats.conf"
        config.write_text(f'listen: "127.0.0.1:{self.port}"\njetstream {{ store_dir: "{self.folder}/store" }}\n')
        return [str(self.home / "venv/bin/nats-server"), "-c", str(config)]

    def prepare(self) -> None:
        """The export makes the JetStream stream."""

    def place(self) -> list[str]:
        return ["--server", f"nats://127.0.0.1:{self.port}", "--jetstream", "TICKS"]

    def export_options(self) -> list[str]:
        return ["--create-stream"]

    def import_options(self) -> list[str]:
        return []


class Kafka(Broker):
    name = "kafka"
    jvm = ("-Xms512M", "-Xmx512M", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")

    def java(self) -> list[str]:
        return ["java", *self.jvm, "-cp", f"{self.home}/jars/*"]

    def command(self) -> list[str]:
        config = self.folder / "server.properties"
        if not config.exists():
            controller = free_port()
            lines = {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
                "log.dirs": str(self.folder / "logs"),
                "offsets.topic.replication.factor": "1",
                "offsets.topic.num.partitions": "4",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                "transaction.state.log.num.partitions": "4",
                "auto.create.topics.enable": "false",
            }
            config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            tool = [*self.java(), "kafka.tools.StorageTool", "format", "-t", "dGFwZWRiLWJyb2tlcnMtMA", "-c", str(config)]
            subprocess.run(tool, check=True, capture_output=True, timeout=120)
        return [*self.java(), "kafka.Kafka", str(config)]

    def prepare(self) -> None:
        self.topic("--create", "--topic", "ticks", "--partitions", "3", "--replication-factor", "1")

    def topic(self, *words: str) -> None:
        self.tool("TopicCommand", *words)

    def groups(self) -> list[str]:
        return self.tool("consumer.group.ConsumerGroupCommand", "--list").split()

    def tool(self, name: str, *words: str, text: str = "") -> str:
        """One of Kafka's own tools."""
        tool = [*self.java(), f"org.apache.kafka.tools.{name}", "--bootstrap-server", f"127.0.0.1:{self.port}"]
        for _ in range(10):
            made = subprocess.run([*tool, *words], input=text, capture_output=True, text=True, timeout=120)
            if made.returncode == 0:
                return made.stdout
            time.sleep(1)
        sys.exit(f"{name} {words}: {made.stdout}{made.stderr}")

    def place(self) -> list[str]:
        return ["--brokers", f"127.0.0.1:{self.port}", "--topic", "ticks"]

    def export_options(self) -> list[str]:
        return ["--record-time", "now"]

    def import_options(self) -> list[str]:
        return ["--refresh", "2s"]


class Tape:
    """The command."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program, self.folder = program, folder

    def run(self, *words: str, text: str | None = None) -> str:
        done = subprocess.run([self.program, *words], input=text, capture_output=True, text=True, timeout=STEP_SECONDS_MAX)
        if done.returncode != 0:
            sys.exit(f"{' '.join(words)}: {done.stderr}")
        return done.stdout

    def fails(self, why: str, *words: str) -> None:
        done = subprocess.run([self.program, *words], capture_output=True, text=True, timeout=STEP_SECONDS_MAX)
        assert done.returncode != 0 and why in done.stderr, f"{' '.join(words)}: {done.returncode}, {done.stdout}{done.stderr}"

    def start(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen([self.program, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def count(self, db: Path, stream: str) -> int:
        found = subprocess.run([self.program, "streams", "--db", str(db), "--json"], capture_output=True, text=True)
        rows = [json.loads(line) for line in found.stdout.splitlines()]
        return next((row["messages"] for row in rows if row.get("stream", row.get("name")) == stream), 0)


def lines(numbers: range) -> str:
    out = []
    for n in numbers:
        symbol = SYMBOLS[n * 7 % len(SYMBOLS)]
        time_ns = 1_704_200_000_000_000_000 + n * 1_000_003
        out.append(f'{{"symbol":"{symbol}","timestamp":{time_ns},"n":{n},"price":"{n % 9973}.{n % 10000:04}","size":{n % 500}}}\n')
    return "".join(out)


def load(tape: Tape, db: Path, messages: int, pause: float) -> None:
    """In chunks, so that the last ones arrive while the others are on their way."""
    step = 250_000
    for begin in range(0, messages, step):
        tape.run("load", "--db", str(db), "ticks", text=lines(range(begin, min(begin + step, messages))))
        time.sleep(pause)


def counted(tape: Tape, db: Path, stream: str, messages: int, is_ordered: bool = True) -> None:
    """Each message once, and those of a symbol in the order of their numbers."""
    read = subprocess.Popen(
        [tape.program, "read", "--db", str(db), stream, "--output", "csv"], stdout=subprocess.PIPE, text=True
    )
    assert read.stdout
    head = read.stdout.readline().rstrip("\n").split(",")
    at_n, at_symbol = head.index("n"), head.index("symbol")
    seen, last, total = bytearray(messages), dict[str, int](), 0
    for line in read.stdout:
        row = line.rstrip("\n").split(",")
        n, symbol = int(row[at_n]), row[at_symbol]
        assert not seen[n], f"message {n} is there twice"
        assert not is_ordered or last.get(symbol, -1) < n, f"message {n} of {symbol} is behind {last[symbol]}"
        seen[n], last[symbol] = 1, n
        total += 1
    assert read.wait() == 0, "the stream cannot be read"
    assert total == messages, f"{total} of {messages} messages arrived; the first that is missing is {seen.index(0)}"
