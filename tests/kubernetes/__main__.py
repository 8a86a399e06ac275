"""Run the tests on a Kubernetes of one node: `make test-kubernetes`.

It is built from Go modules, which takes minutes once, and is kept in the cache by the hash of its
sources. It runs in a network namespace of its own, with nothing pulled and nothing faked. Where
root, Go or a program is missing, one line says so.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

from tidegate.launch import jars

HERE = Path(__file__).parent
SOURCES = HERE / "cluster"
PROJECT = HERE.parents[1]
HOME = Path("/tmp/tgk8s")  # the paths of sockets must be short
PROGRAMS = ("go", "containerd", "runc", "iptables", "conntrack", "ip", "tini", "openssl")
JARS = ("spark-kafka", "spark-s3")


def missing() -> str:
    """Return what this machine lacks, or nothing."""
    if os.getuid():
        return "root"
    return ", ".join(each for each in PROGRAMS if not shutil.which(each))


def binaries() -> Path:
    """Return the directory with the cluster's programs, built if they are not in the cache."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".go", ".mod", ".sum"):
            digest.update(path.read_bytes())
    found = jars.cache_dir() / f"kubernetes-{digest.hexdigest()[:16]}"
    if not found.exists():
        print("building Kubernetes, once: about 6 minutes on 2 idle cores", flush=True)
        new = found.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        subprocess.run([SOURCES / "build.sh"], env={**os.environ, "BIN": str(new)}, check=True)
        new.rename(found)
    return found


def jars_of_image() -> Path:
    """Return the directory of jars that each container has: Spark's, and those of Kafka and S3."""
    found = HOME / "jars"
    found.mkdir(parents=True, exist_ok=True)
    own = (Path(pyspark.__file__).parent / "jars").glob("*.jar")
    for jar in (*own, *(path for name in JARS for path in jars.ensure_jars(name))):
        if not (found / jar.name).exists():
            shutil.copy(jar, found / jar.name)
    return found


def main(arguments: list[str]) -> int:
    if lacks := missing():
        print(f"tests on Kubernetes are skipped: this machine lacks {lacks}")
        return 0
    env = {
        **os.environ,
        "W": str(HOME),
        "BIN": str(binaries()),
        "VENV": str(Path(sys.executable).parents[1]),
        "SPARK_JARS": str(jars_of_image()),
    }
    try:
        subprocess.run([SOURCES / "start.sh"], env=env, check=True)
        pytest = [sys.executable, "-m", "pytest", "-m", "kubernetes", "-p", "no:xdist"]
        return subprocess.run(
            [HOME / "k", *pytest, *(arguments or [str(HERE)])], env=env, cwd=PROJECT, check=False
        ).returncode
    finally:
        subprocess.run([SOURCES / "stop.sh", "--purge"], env=env, check=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
