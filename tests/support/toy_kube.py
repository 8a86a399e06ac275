"""A Kubernetes in memory, as far as `tidegate.launch.kube_client.KubeClient` asks it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tidegate.launch.kube_client import SparkPod

RUNNING = SparkPod("", "uid-1", "Running", None, "", "", is_kept=True, kind="egress")


@dataclass
class ToyKube:
    """Pods by name, Secrets by name. `ends`: a pod that is deleted ends with 143. `away`: no answer
    to any question. What happened is in `done`.
    """

    namespace: str = "spark"
    pods: dict[str, SparkPod] = field(default_factory=dict)
    secrets: dict[str, dict[str, bytes]] = field(default_factory=dict)
    output: list[tuple[str, str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    ends: bool = True
    away: bool = False

    def _ask(self) -> None:
        if self.away:
            raise OSError("Kubernetes: connection refused")

    def add(self, name: str, *codes: int, **more: object) -> SparkPod:
        """Add a pod: one that runs, or one whose containers have ended with these codes."""
        ended = {"codes": codes, "phase": "Failed" if any(codes) else "Succeeded"}
        pod = replace(RUNNING, name=name, **(ended if codes else {}), **more)
        self.pods[name] = pod
        return pod

    def pod(self, name: str) -> SparkPod | None:
        self._ask()
        return self.pods.get(name)

    def pods_of(self, attempt: str | None, role: str = "driver") -> list[SparkPod]:
        self._ask()
        return [
            pod
            for name, pod in self.pods.items()
            if (attempt is None or attempt in name) and ("-exec-" in name) == (role == "executor")
        ]

    def log_lines(self, _: str) -> Iterator[tuple[str, str]]:
        self._ask()
        yield from self.output

    def delete_pod(self, pod: SparkPod) -> None:
        self._ask()
        self.done.append(f"delete {pod.name}")
        now = self.pods.get(pod.name)
        if now is None:
            return
        if self.ends and not now.has_ended:
            now = self.pods[pod.name] = replace(now, codes=(143,), phase="Failed")
        if not now.is_kept and now.has_ended:
            del self.pods[pod.name]

    def let_go(self, pod: SparkPod) -> None:
        self._ask()
        self.done.append(f"let go {pod.name}")
        self.pods[pod.name] = replace(self.pods[pod.name], is_kept=False)

    @contextmanager
    def secret(self, name: str, attempt: str, content: Mapping[str, bytes]) -> Iterator[None]:
        self._ask()
        assert attempt in name
        self.secrets[name] = dict(content)
        try:
            yield
        finally:
            del self.secrets[name]

    def own(self, secret: str, pod: SparkPod) -> None:
        assert secret in self.secrets
        self.done.append(f"{pod.name} owns {secret}")
