"""A spark-submit that a test makes."""

from pathlib import Path

from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.launch.submission import Submission


def fake(tmp_path: Path, script: str, kafka: KafkaCluster | None = None) -> Submission:
    """Make a spark-submit of a few lines of shell."""
    binary = tmp_path / "spark-submit"
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    return Submission(
        binary=str(binary), application="job.py", args=("job.json",), name="flights r1",
        conf={"spark.a": "1 2"}, jars=("a.jar", "b.jar"), env={"COLOUR": "blue"}, kafka=kafka,
    )  # fmt: skip
