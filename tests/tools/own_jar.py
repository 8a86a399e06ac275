"""Compile Tidegate's own class into the jar that is committed beside it: `make jars-own`.

Needs a JDK and the jars of Kafka's client. Equal sources make equal bytes.
"""

import subprocess
import tempfile
import zipfile
from pathlib import Path

from tidegate.launch import jars, spark_jars

SOURCE = spark_jars.TIMESTAMPS.with_name("SourceTimestamps.java")


def build_jar(into: Path) -> None:
    """Write the jar. CalledProcessError or FileNotFoundError if there is no compiler."""
    clients = [path for path in jars.lock_paths("spark-kafka") if "kafka-clients" in path.name]
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [
                "javac", "-Xlint:-options", "--release", "8", "-g:none",
                "-cp", str(clients[0]), "-d", directory, str(SOURCE),
            ],
            check=True,
        )  # fmt: skip
        with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as jar:
            for path in sorted(Path(directory).rglob("*.class")):
                name = zipfile.ZipInfo(str(path.relative_to(directory)))
                name.external_attr = 0o644 << 16
                jar.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    build_jar(spark_jars.TIMESTAMPS)
    print(spark_jars.TIMESTAMPS)
