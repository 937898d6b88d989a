"""An object store and a REST catalogue of others on this machine: moto's S3, and Nessie, whose tables are in it."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

BUCKET = "lake"
MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


class Stores:
    """The servers; they end with this object."""

    def __init__(self, folder: Path, nessie: Path | None) -> None:
        import boto3

        self.moto = subprocess.Popen([sys.executable, "-c", MOTO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.moto.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self.moto.stdout.readline())}"
        # Of this process and of those that it starts.
        os.environ.update(
            {
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": "us-east-1",
                "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_ALLOW_HTTP": "true",
            }
        )
        boto3.client("s3", endpoint_url=self.endpoint, region_name="us-east-1").create_bucket(Bucket=BUCKET)
        self.rest = ""
        self.nessie = self.start_nessie(folder, nessie) if nessie else None

    def start_nessie(self, folder: Path, jar: Path) -> subprocess.Popen:
        s3 = "nessie.catalog.service.s3.default-options"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": "0",
            "quarkus.management.port": "0",
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": BUCKET,
            f"nessie.catalog.warehouses.{BUCKET}.location": f"s3://{BUCKET}/warehouse",
            f"{s3}.endpoint": self.endpoint,
            f"{s3}.path-style-access": "true",
            f"{s3}.region": "us-east-1",
            f"{s3}.access-key": "urn:nessie-secret:quarkus:secrets.s3",
            "secrets.s3.name": "test",
            "secrets.s3.secret": "test",
        }
        java = Path(os.environ["JAVA_25"]) / "bin" / "java"
        log = folder / "nessie.log"
        words = [f"-D{key}={value}" for key, value in settings.items()]
        process = subprocess.Popen([java, "-Xmx512m", *words, "-jar", jar], stdout=log.open("w"), stderr=subprocess.STDOUT)
        for _ in range(180):
            time.sleep(1)
            if found := re.search(r"istening on: (http://[\d.]+:\d+)", log.read_text()):
                self.rest = f"{found[1]}/iceberg"
                return process
            if process.poll() is not None:
                break
        raise RuntimeError(f"Nessie does not start: {log.read_text()[-2000:]}")

    def close(self) -> None:
        """Ends the servers."""
        if self.nessie:
            self.nessie.terminate()
            self.nessie.wait()
        assert self.moto.stdin is not None
        self.moto.stdin.close()
        self.moto.wait()
