"""The services of docker-compose.yaml as processes on the loopback address.

Commands, environments, health checks and order are those of the file, the packages those of the
image. Ports are free ones, hosts 127.0.0.1, directories below one home; Postgres, Kafka and the S3
server are those of the tests.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from support.image_environment import ImageEnvironment
from support.process_memory import Peaks
from tidegate_local import airflow, kafka, postgres, processes, s3
from tidegate_local.ports import free_port

PROJECT = Path(__file__).parents[2]
VARIABLE = re.compile(r"\$\{(\w+)(?::[?-]([^}]*))?\}")
_HOSTS = "kafka|s3|api-server|spark-master"
# A host is followed by a port, quoted, or after `//` or `-ip=`; s3:// and `airflow api-server` are
# none.
_HOST = re.compile(
    rf"\b({_HOSTS})(?=:\d)|(?<=//)(spark-master)\b|(?<=')({_HOSTS})(?=')|^spark-master$|(?<=-ip=)s3"
)
_FOREIGN = ("AIRFLOW", "AWS_", "SPARK_", "TIDEGATE_", "PYSPARK_", "PG", "PYTHONPATH",
            "VIRTUAL_ENV", "JDK_JAVA_OPTIONS")  # fmt: skip
_TIMEOUT = 240.0
_ADDRESSES = re.compile("LISTENER|QUORUM|LOG_DIRS|NODE_ID|PROCESS_ROLES|HEAP_OPTS")


class Topology:
    """Starts services by name, each after those that it waits for; `close` ends all of them."""

    def __init__(
        self, home: Path, variables: dict[str, str], image: ImageEnvironment, memory: Peaks
    ) -> None:
        self.home = home
        self.image = image
        self.memory = memory
        form = yaml.safe_load((PROJECT / "docker-compose.yaml").read_text())
        self.services: dict[str, dict[str, Any]] = form["services"]
        inside = ("9092", "8333", "8080", "7077", "8081", "8082", "8974")
        self.ports = {port: str(free_port()) for port in inside}
        self.variables = {**variables, "AIRFLOW_PORT": self.ports["8080"]}
        self.outputs: dict[str, subprocess.CompletedProcess[str]] = {}
        self.directories = {
            "/opt/airflow": str(home / "airflow"),
            "/opt/spark-conf": str(home / "spark-conf"),
            "/opt/spark-work": str(home / "spark-work"),
            "/opt/tidegate/include": str(PROJECT / "include"),
            "/opt/tidegate": str(image.directory),
            "=/data": f"={home / 's3-data'}",
        }
        self._started: list[str] = []
        for name in ("airflow/logs", "airflow/secrets", "spark-conf", "spark-work", "s3-data"):
            (home / name).mkdir(parents=True)

    def up(self, name: str) -> None:
        """Start a service as Compose does; one that ends must end well, one that stays be healthy.

        `airflow-init` among those that it waits for comes first by itself.
        """
        form = self.services[name]
        for other in form.get("depends_on", {}):
            if other not in self._started:
                self.up(other)
        self._started.append(name)
        match name:
            case "postgres":
                self.memory.watch(name, postgres.start(self.home).pid)
            case "kafka":
                broker = kafka.start(
                    self.home / "kafka", port=int(self.ports["9092"]), settings=self._broker()
                )
                self.memory.watch(name, broker.pid)
            case "airflow-init" | "s3-bucket" | "loader":
                done = self.run(name)
                print(f"{name}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
                assert done.returncode == 0, f"{name}: {done.stderr[-4000:]}"
                self.outputs[name] = done
            case _:
                env = airflow._marked(self.environment(name), name, self.home)
                words = self.command(name)
                started = processes.start(name, words, home=self.home, env=env, cwd=self.home)
                self.memory.watch(name, started.pid)
                self._await_health(name)

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a service that ends, once more if it has run before."""
        words = self.command(name)
        with subprocess.Popen(
            words, env=self.environment(name), cwd=self.home, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as step:  # fmt: skip
            self.memory.watch(name, step.pid)
            out, err = step.communicate()
        return subprocess.CompletedProcess(words, step.returncode, out, err)

    def close(self) -> None:
        """End everything that was started, last first; tasks and their Spark included."""
        for name in reversed(self._started):
            match name:
                case "postgres":
                    postgres.stop(self.home)
                case "kafka":
                    kafka.stop(self.home / "kafka")
                case _:
                    airflow.stop(name, self.home)

    def command(self, name: str) -> list[str]:
        """Return what a service runs, with the addresses and directories of this machine."""
        form = self.services[name]
        words = [self._here(word) for word in (*form.get("entrypoint", ()), *form["command"])]
        if name == "airflow-init":  # its own words: the database is behind a socket
            database = postgres.running(self.home)
            assert database is not None
            address = f"postgres@/{postgres.DATABASE}?host={quote(str(database.socket_dir))}"
            words[-1] = words[-1].replace("airflow@postgres:5432/airflow", f"'{address}'")
            assert address in words[-1]
        if name == "s3":  # beside Airflow: its other ports must not be the default ones
            parts = [part + kind for part in s3._PARTS for kind in (".port", ".port.grpc")]
            words += [f"-{part}={free_port()}" for part in parts if part != "s3.port"]
            words = [word.replace("0.0.0.0", "127.0.0.1") for word in words]
        return words

    def environment(self, name: str) -> dict[str, str]:
        """Return a service's variables beside those of the image; no Airflow's of this machine's.

        What listens is bound to the loopback address, and to the ports that were chosen.
        """
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
        given = self.services[name].get("environment", {})
        bound = {
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__PORT": self.ports["8080"],
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_HOST": "127.0.0.1",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_SERVER_PORT": self.ports["8974"],
        }
        given = {key: self._here(str(value)) for key, value in given.items()}
        if self.services[name]["image"] != "tidegate:local":
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            return {**inherited, "PATH": path, **given}
        return {
            **inherited,
            **self.image.variables,
            **bound,
            **given,
            "AIRFLOW_HOME": str(self.home / "airflow"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def over_their_limit(self) -> dict[str, float]:
        """Return the services that took more than their `mem_limit`, with what they took, in MB."""
        limits = {name: form["mem_limit"] for name, form in self.services.items()}
        unit = {"m": 1, "g": 1024}
        return {
            name: taken
            for name, taken in self.memory.megabytes.items()
            if taken > int(limits[name][:-1]) * unit[limits[name][-1]]
        }

    def s3_environment(self) -> dict[str, str]:
        """Return the variables with which the lake is read."""
        given = self.environment("loader")
        return {name: text for name, text in given.items() if name.startswith("AWS_")}

    def _here(self, text: str) -> str:
        """Return a text of the file with variables, ports, hosts and directories of this machine.

        A value of a variable stays as it is.
        """
        if (whole := VARIABLE.fullmatch(text)) and whole[1] in self.variables:
            return self.variables[whole[1]]
        text = VARIABLE.sub(lambda m: self.variables.get(m[1], m[2]), text)
        text = _HOST.sub("127.0.0.1", text)
        text = re.sub(r"\b\d{4}\b", lambda m: self.ports.get(m[0], m[0]), text)
        for inside, here in self.directories.items():
            text = text.replace(inside, here)
        return text

    def _broker(self) -> dict[str, str]:
        given = self.services["kafka"]["environment"]
        return {
            name.removeprefix("KAFKA_").lower().replace("_", "."): value
            for name, value in given.items()
            if not _ADDRESSES.search(name)
        }

    def _await_health(self, name: str) -> None:
        """Run the service's own health check until it succeeds."""
        test = self.services[name].get("healthcheck", {}).get("test")
        if test is None:
            return
        _, *words = [self._here(word) for word in test]
        if words[0] == "wget":  # need not be on this machine
            script = f"import urllib.request as u; u.urlopen('{words[-1]}', timeout=4)"
            words = ["python", "-c", script]
        began = time.monotonic()
        while True:
            done = subprocess.run(
                words, env=self.environment(name), capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                print(f"{name} is healthy after {time.monotonic() - began:.1f} s")
                return
            log = self.home / "logs" / f"{name}.log"
            assert processes.find(name, home=self.home), f"{name} ended: {_tail(log)}"
            assert time.monotonic() - began < _TIMEOUT, f"{name}: {done.stderr}\n{_tail(log)}"
            time.sleep(1.0)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
