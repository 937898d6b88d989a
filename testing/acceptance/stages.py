"""What becomes of a stream's messages: imported into log files, sealed into segments, merged, moved to the cold tier. At
each stage they must be what they were."""

import json
import subprocess

# Of log files: small, so that much is sealed and merged; smaller where there are few messages.
FILE_SIZE = "4MiB"
FILE_SIZE_QUICK = "256KiB"


class Failed(Exception):
    """A command that should have succeeded did not."""


class Stream:
    """A stream of a temporary database."""

    def __init__(self, tapedb, db, name, file_size=FILE_SIZE):
        self.tapedb, self.db, self.name, self.file_size = tapedb, db, name, file_size

    def run(self, command, *args):
        """Runs a command of the binary on the database; gives what it printed."""
        line = [self.tapedb, command, "--db", self.db, *args]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{' '.join(line)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def create_for(self, path):
        """Creates the stream with the schema that importing one of its files gives, and small log files."""
        first = Stream(self.tapedb, self.db + ".first", self.name)
        first.run("import", "--create", "--stream", self.name, "--format", self.name, path)
        schema = self.db + ".schema"
        with open(schema, "w", encoding="utf-8") as out:
            out.write(first.run("desc", self.name))
        self.run("create", self.name, "--schema", schema, "--file-size", self.file_size)

    def through_all_stages(self):
        """Takes the stream from stage to stage; yields what is different after one, in words."""
        imported = self.sums()
        yield from self.compared("sealed and merged", imported, lambda: self.run("seal", self.name))
        tiers = self.tiers()
        if set(tiers) - {"hot"}:
            yield f"{self.name}: sealed segments are {tiers}"
        print(f"{self.name}: {imported[0]['messages']:,} messages imported, sealed and merged into {len(tiers)} segments")
        self.run("alter", self.name, "--cold")
        yield from self.compared("moved to the cold tier", imported, lambda: self.run("seal", self.name))
        tiers = self.tiers()
        if set(tiers) != {"cold"}:
            yield f"{self.name}: segments of the cold tier are {tiers}"

    def compared(self, stage, before, work):
        """Does some work, and compares."""
        work()
        after = self.sums()
        if after != before:
            yield f"{self.name}, {stage}: {after}, but before {before}"
        self.run("check", self.name, *self.thoroughly())

    def thoroughly(self):
        """Decodes with the reference decoder too, where the binary has one."""
        known = subprocess.run([self.tapedb, "check", "--help"], capture_output=True, text=True).stdout
        return ["--thorough"] if "--thorough" in known else []

    def sums(self):
        """Number, bytes and checksum of all messages: in order of time, and of arrival, which sequence numbers tell."""
        orders = [[], ["--from-sequence", "0"]]
        read = [json.loads(self.run("read", self.name, "--output", "none", "--json", *order)) for order in orders]
        return [{key: one[key] for key in ("messages", "body_bytes", "checksum", "types")} for one in read]

    def tiers(self):
        """The tier of each segment."""
        lines = map(json.loads, self.run("inspect", self.name, "--json").splitlines())
        return [line["tier"] for line in lines if line.get("kind") == "segment"]
