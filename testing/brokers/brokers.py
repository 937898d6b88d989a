"""Messages of a stream through a broker into another stream, while processes are killed: each arrives once.

An export, an import and the broker run; one of the three is killed (SIGKILL) now and then and started again. In the end the second
stream has each message of the first one once, and those of a symbol in their order. Then: how fast each is alone, and for Kafka what
else can go wrong (`adversities.py`).
"""

import argparse
import contextlib
import json
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import adversities
from processes import STEP_SECONDS_MAX, SCHEMA, Broker, Kafka, Nats, Tape, counted, load

def storm(broker: Broker, tape: Tape, messages: int, kills: int, seed: int) -> None:
    """Kills while messages are on their way."""
    folder, dice = tape.folder, random.Random(seed)
    source, target = folder / "source", folder / "target"
    schema = folder / "schema"
    schema.write_text(SCHEMA)
    tape.run("create", "--db", str(source), "ticks", "--schema", str(schema))
    tape.run("create", "--db", str(target), "copy", "--schema", str(tape.folder / "schema"))
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
        tape.run("create", "--db", str(target), "copy", "--schema", str(tape.folder / "schema"))
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
    parser.add_argument("--steps", default="storm,rates,adversities", help="what is run")
    parser.add_argument("brokers", nargs="*")
    args = parser.parse_args()
    for name in args.brokers:
        folder = args.home / f"run-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        broker = {"nats": Nats, "kafka": Kafka}[name](args.home, folder / "broker")
        tape = Tape(args.tapedb, folder)
        try:
            if "storm" in args.steps:
                storm(broker, tape, args.messages, args.kills, args.seed)
            if "rates" in args.steps:
                rates(broker, tape, args.messages)
            if "adversities" in args.steps and isinstance(broker, Kafka):
                adversities.run(broker, Tape(args.tapedb, folder / "adversities"))
        finally:
            broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
