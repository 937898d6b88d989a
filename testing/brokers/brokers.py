"""Messages of a stream through a broker into another stream, while processes are killed: each arrives once.

An export, an import and the broker run; one of the three is killed (SIGKILL) now and then and started again. In the end the second
stream has each message of the first one once, and those of a symbol in their order.
"""

import argparse
import contextlib
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

SCHEMA = "message Tick { n: i64, price: decimal(18,4), size: i64 }"
SYMBOLS = [f"S{n:03}" for n in range(100)] + ["BRK.B", "a b"]
CHUNKS = 10
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
        tool = [*self.java(), "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", f"127.0.0.1:{self.port}"]
        for attempt in range(10):
            made = subprocess.run([*tool, *words], capture_output=True, text=True, timeout=120)
            if made.returncode == 0:
                return
            time.sleep(1)
        sys.exit(f"{words}: {made.stdout}{made.stderr}")

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


def counted(tape: Tape, db: Path, stream: str, messages: int) -> None:
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
        assert last.get(symbol, -1) < n, f"message {n} of {symbol} is behind {last[symbol]}"
        seen[n], last[symbol] = 1, n
        total += 1
    assert read.wait() == 0, "the stream cannot be read"
    assert total == messages, f"{total} of {messages} messages arrived; the first that is missing is {seen.index(0)}"


def storm(broker: Broker, tape: Tape, messages: int, kills: int, seed: int) -> None:
    """Kills while messages are on their way."""
    folder, dice = tape.folder, random.Random(seed)
    source, target = folder / "source", folder / "target"
    schema = folder / "schema"
    schema.write_text(SCHEMA)
    tape.run("create", "--db", str(source), "--create", "ticks", "--schema", str(schema))
    tape.run("create", "--db", str(target), "--create", "copy", "--schema", str(tape.folder / "schema"))
    broker.start()
    broker.prepare()
    export = ["export", "--db", str(source), "ticks", *broker.place(), *broker.export_options(), "--follow"]
    take = ["import", "--db", str(target), "copy", *broker.place(), *broker.import_options(), "--follow"]
    begin: dict[str, Callable[[], subprocess.Popen[bytes]]] = {
        "export": lambda: tape.start("export", broker.name, *export),
        "import": lambda: tape.start("import", broker.name, *take),
    }
    running = {"export": begin["export"]()}
    loading = threading.Thread(target=load, args=(tape, source, messages, 0.2))
    started = time.monotonic()
    loading.start()
    # The import needs the topic, which an export may make.
    time.sleep(2)
    running["import"] = begin["import"]()
    left, next_kill, moved, before = kills, time.monotonic() + 1, time.monotonic(), -1
    try:
        while True:
            time.sleep(0.2)
            arrived = tape.count(target, "copy")
            if arrived != before:
                before, moved = arrived, time.monotonic()
            if arrived >= messages and left <= 0 and not loading.is_alive():
                break
            assert time.monotonic() - moved < STEP_SECONDS_MAX, f"nothing arrives; {arrived} of {messages} are there"
            for name, process in list(running.items()):
                if process.poll() is not None:
                    log = (folder / f"{name}.log").read_text()[-1500:]
                    # A broker that is away at the start is an error: a supervisor starts the command again.
                    assert "again" in log or "check the address" in log, f"the {name} ended with {process.returncode}: {log}"
                    running[name] = begin[name]()
            if left > 0 and time.monotonic() >= next_kill:
                victim = dice.choice(["export", "import", "broker"])
                if victim == "broker":
                    broker.kill()
                    time.sleep(dice.random() * 2)
                    broker.start()
                else:
                    running[victim].kill()
                    running[victim].wait()
                    running[victim] = begin[victim]()
                left -= 1
                print(f"  killed the {victim} when {arrived:,} had arrived", flush=True)
                next_kill = time.monotonic() + 1 + dice.random() * 3
        seconds = time.monotonic() - started
    finally:
        for process in running.values():
            process.send_signal(signal.SIGINT)
        for process in running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
        loading.join()
    counted(tape, target, "copy", messages)
    print(f"{broker.name}: {messages:,} messages, {kills} kills, each is there once ({messages / seconds:,.0f} a second)", flush=True)


def rates(broker: Broker, tape: Tape, messages: int) -> None:
    """How fast an export and an import are, alone, of what is there."""
    source = tape.folder / "source"
    for encoding in ("json", "row"):
        place = [word.replace("TICKS", f"R{encoding}").replace("ticks", f"r{encoding}") for word in broker.place()]
        if isinstance(broker, Kafka):
            broker.topic("--create", "--topic", f"r{encoding}", "--partitions", "3", "--replication-factor", "1")
        options = broker.export_options()
        done = json.loads(tape.run(broker.name, "export", "--db", str(source), "ticks", *place, *options, "--format", encoding, "--json"))
        target = tape.folder / encoding
        tape.run("create", "--db", str(target), "--create", "copy", "--schema", str(tape.folder / "schema"))
        taken = json.loads(tape.run(broker.name, "import", "--db", str(target), "copy", *place, "--json"))
        assert done["messages"] == taken["messages"] == messages, (done, taken)
        print(
            f"{broker.name} {encoding}: export {done['messages_per_second']:,.0f}, "
            f"import {taken['messages_per_second']:,.0f} messages a second",
            flush=True,
        )
        shutil.rmtree(target)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tapedb", required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("brokers", nargs="*")
    args = parser.parse_args()
    for name in args.brokers:
        folder = args.home / f"run-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        broker = {"nats": Nats, "kafka": Kafka}[name](args.home, folder / "broker")
        tape = Tape(args.tapedb, folder)
        try:
            storm(broker, tape, args.messages, args.kills, args.seed)
            rates(broker, tape, args.messages)
        finally:
            broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
