"""What else can go wrong with a topic, each with a topic and streams of its own."""

import json
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from processes import SCHEMA, Kafka, Tape, counted, lines


@dataclass
class Place:
    """A topic between two databases."""

    broker: Kafka
    tape: Tape
    name: str
    partitions: int = 1
    settings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.folder = self.tape.folder / self.name
        self.folder.mkdir(parents=True)
        (self.folder / "schema").write_text(SCHEMA)
        for db, stream in ((self.source, "ticks"), (self.target, "copy")):
            self.tape.run("create", "--db", str(db), stream, "--schema", str(self.folder / "schema"))
        self.create()

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def target(self) -> Path:
        return self.folder / "target"

    def create(self) -> None:
        made = ("--topic", self.name, "--partitions", str(self.partitions), "--replication-factor", "1", *self.settings)
        self.broker.topic("--create", *made)

    def delete(self) -> None:
        self.broker.topic("--delete", "--topic", self.name)
        time.sleep(1)

    def load(self, numbers: range) -> None:
        self.tape.run("load", "--db", str(self.source), "ticks", text=lines(numbers))

    def export(self, *more: str, source: Path | None = None) -> list[str]:
        return ["kafka", "export", "--db", str(source or self.source), "ticks", *self.topic(), *more]

    def take(self, *more: str) -> list[str]:
        return ["kafka", "import", "--db", str(self.target), "copy", *self.topic(), *more]

    def topic(self) -> list[str]:
        return ["--brokers", f"127.0.0.1:{self.broker.port}", "--topic", self.name]

    def waits_for(self, messages: int) -> None:
        until = time.monotonic() + 120
        while (arrived := self.tape.count(self.target, "copy")) < messages:
            assert time.monotonic() < until, f"{self.name}: {arrived} of {messages} messages arrived"
            time.sleep(0.2)

    def log(self, name: str) -> str:
        return (self.tape.folder / f"{name}.log").read_text()


def second_exporter(place: Place) -> None:
    """It ends the first one; nothing is there twice."""
    place.load(range(500))
    place.tape.run(*place.export())
    first = place.tape.start("first", *place.export("--follow", "--commit-interval", "20ms"))
    time.sleep(3)
    second = place.tape.start("second", *place.export("--follow", "--commit-interval", "20ms"))
    at = 500
    until = time.monotonic() + 120
    while first.poll() is None:
        assert time.monotonic() < until, "the first export does not end"
        place.load(range(at, at + 10))
        at += 10
        time.sleep(0.2)
    assert "another exporter" in place.log("first"), place.log("first")
    assert second.poll() is None, place.log("second")
    taking = place.tape.start("taking", *place.take("--follow"))
    place.waits_for(at)
    for process in (second, taking):
        process.send_signal(signal.SIGINT)
        process.wait(60)
    counted(place.tape, place.target, "copy", at)


def recreated(place: Place) -> None:
    """An import ends, and reads it as another source; an export begins at its first message."""
    place.load(range(1000))
    place.tape.run(*place.export())
    place.tape.run(*place.take())
    place.delete()
    place.create()
    place.tape.fails("created again", *place.take())
    other = place.folder / "other"
    place.tape.run("create", "--db", str(other), "ticks", "--schema", str(place.folder / "schema"))
    place.tape.run("load", "--db", str(other), "ticks", text=lines(range(1000, 2500)))
    place.tape.run(*place.export(source=other))
    place.tape.fails("another record", *place.take())
    place.tape.run(*place.take("--source", "again"))
    counted(place.tape, place.target, "copy", 2500)
    # The broker has removed the group's offsets with the topic: all is sent again.
    place.delete()
    place.create()
    place.tape.run(*place.export())
    place.tape.run(*place.take("--source", "third"))
    assert place.tape.count(place.target, "copy") == 3500


def deleted_while_it_runs(place: Place) -> None:
    """Both end with an error."""
    place.load(range(100))
    sending = place.tape.start("sending", *place.export("--follow"))
    taking = place.tape.start("taken", *place.take("--follow"))
    place.waits_for(100)
    place.delete()
    until = time.monotonic() + 120
    at = 100
    while taking.poll() is None or sending.poll() is None:
        assert time.monotonic() < until, f"{taking.poll()}, {sending.poll()}: {place.log('taken')}{place.log('sending')}"
        place.load(range(at, at + 1))
        at += 1
        time.sleep(0.5)
    assert taking.returncode and sending.returncode
    for name in ("taken", "sending"):
        assert "no topic" in place.log(name) or "no such topic" in place.log(name), place.log(name)


def lost_records(place: Place) -> None:
    """An import ends, or goes on behind them; an export does not begin again."""
    place.load(range(1000))
    place.tape.run(*place.export())
    place.tape.run(*place.take())
    place.load(range(1000, 1500))
    place.tape.run(*place.export())
    file = place.folder / "offsets.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "%s", "partition": 0, "offset": -1}]}' % place.name)
    place.broker.tool("DeleteRecordsCommand", "--offset-json-file", str(file))
    place.tape.fails("has lost the offsets", *place.take())
    place.tape.run(*place.take("--on-lost-records", "skip", "--on-bad-record", "bad"))
    assert place.tape.count(place.target, "copy") == 1000
    assert place.tape.count(place.target, "bad") == 1
    place.load(range(1500, 2000))
    place.tape.run(*place.export())
    # The position is written with the next message, so up to here the records are lost for each run.
    place.tape.run(*place.take("--on-lost-records", "skip", "--on-bad-record", "bad"))
    assert place.tape.count(place.target, "bad") == 1
    place.tape.run(*place.take())
    assert place.tape.count(place.target, "copy") == 1500
    # Neither records nor an offset of the group state how far it is.
    place.broker.tool("DeleteRecordsCommand", "--offset-json-file", str(file))
    forget_group(place)
    place.tape.fails("--from-sequence", *place.export())
    place.load(range(2000, 2100))
    place.tape.run(*place.export("--from-sequence", "2000"))
    place.tape.run(*place.take("--on-lost-records", "skip"))
    assert place.tape.count(place.target, "copy") == 1600


def added_partitions(place: Place) -> None:
    """Both use them while they run."""
    place.load(range(1000))
    sending = place.tape.start("adding", *place.export("--follow", "--set", "topic.metadata.refresh.interval.ms=1000"))
    taking = place.tape.start("added", *place.take("--follow", "--refresh", "1s"))
    place.waits_for(1000)
    place.broker.topic("--alter", "--topic", place.name, "--partitions", "5")
    at = 1000
    while "new partitions" not in place.log("added") or at < 3000:
        assert at < 100_000, place.log("added")
        place.load(range(at, at + 200))
        at += 200
        time.sleep(0.3)
    place.load(range(at, at + 2000))
    place.waits_for(at + 2000)
    for process in (sending, taking):
        process.send_signal(signal.SIGINT)
        process.wait(60)
    lanes = [json.loads(line) for line in place.tape.run(*place.take("--status", "--json")).splitlines()]
    # At the end of each is the marker of a transaction.
    assert len(lanes) == 5 and all(lane["next"] and lane["waiting"] <= 1 for lane in lanes), lanes
    counted(place.tape, place.target, "copy", at + 2000, is_ordered=False)


def forget_group(place: Place) -> None:
    """As its retention would."""
    names = place.broker.groups()
    found = [name for name in names if name.endswith(f"-{place.name}")]
    assert len(found) == 1, f"{found} of {names}"
    place.broker.tool("consumer.group.ConsumerGroupCommand", "--delete", "--group", found[0])


def lost_group(place: Place) -> None:
    """The headers of the last records state how far an export is."""
    place.load(range(1000))
    place.tape.run(*place.export())
    forget_group(place)
    place.load(range(1000, 1500))
    place.tape.run(*place.export())
    place.tape.run(*place.take())
    counted(place.tape, place.target, "copy", 1500)


def too_large(place: Place) -> None:
    """It ends with the reason, and continues with smaller batches."""
    place.load(range(1000))
    place.tape.fails("max.message.bytes", *place.export())
    place.tape.run(*place.export("--set", "batch.size=900", "--set", "compression.type=none"))
    place.tape.run(*place.take())
    counted(place.tape, place.target, "copy", 1000)


def bad_records(place: Place) -> None:
    """An import ends at the first; skips them; or keeps them."""
    good = '{"symbol":"A","timestamp":1704200000000000000,"n":%d,"price":"1.5","size":1}\n'
    text = good % 0 + "{\n" + good % 1 + '{"n":2}\n' + good % 2
    place.broker.tool("ConsoleProducer", "--topic", place.name, text=text)
    place.tape.fails(f"offset 1 of {place.name}/0", *place.take())
    assert place.tape.count(place.target, "copy") == 1
    place.tape.run(*place.take("--on-bad-record", "bad"))
    counted(place.tape, place.target, "copy", 3)
    assert place.tape.count(place.target, "bad") == 2
    place.tape.run(*place.take("--source", "again", "--on-bad-record", "skip"))
    assert place.tape.count(place.target, "copy") == 6


def run(broker: Kafka, tape: Tape) -> None:
    """All of them."""
    if broker.process is None:
        broker.start()
    cases: list[tuple[Callable[[Place], None], int, tuple[str, ...]]] = [
        (second_exporter, 2, ()),
        (recreated, 2, ()),
        (deleted_while_it_runs, 2, ()),
        (lost_records, 1, ()),
        (added_partitions, 1, ()),
        (lost_group, 3, ()),
        (too_large, 1, ("--config", "max.message.bytes=1000")),
        (bad_records, 1, ()),
    ]
    for case, partitions, settings in cases:
        name = case.__name__
        case(Place(broker, tape, name, partitions, settings))
        print(f"  kafka, {name.replace('_', ' ')}: as documented", flush=True)
