"""Make the two images of the test cluster as OCI archives: nothing is pulled.

pause.tar: the sandbox container (one static binary).
spark.tar: a nearly empty image with Spark's entrypoint. Its /usr, JDK, Python and Spark are
the node's own, mounted read-only into every container by containerd's base runtime spec.

Usage: images.py PAUSE_BINARY ENTRYPOINT OUT_DIR
"""

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path


def layer(entries: list[tuple[str, str, object]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, kind, value in entries:
            info = tarfile.TarInfo(path)
            info.mode = 0o755
            if kind == "dir":
                info.type, info.mode = tarfile.DIRTYPE, int(value)
                tar.addfile(info)
            elif kind == "link":
                info.type, info.linkname = tarfile.SYMTYPE, str(value)
                tar.addfile(info)
            else:
                data = value if isinstance(value, bytes) else str(value).encode()
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def image(out: Path, name: str, entries: list[tuple[str, str, object]], config: dict) -> None:
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, media: str) -> dict:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    oci = "application/vnd.oci.image"
    tar = blob(layer(entries), f"{oci}.layer.v1.tar")
    conf = blob(
        json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [tar["digest"]]},
            }
        ).encode(),
        f"{oci}.config.v1+json",
    )
    manifest = blob(
        json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{oci}.manifest.v1+json",
                "config": conf,
                "layers": [tar],
            }
        ).encode(),
        f"{oci}.manifest.v1+json",
    )
    manifest["annotations"] = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    with tarfile.open(out, "w") as archive:

        def add(path: str, data: bytes) -> None:
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))

        add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add("index.json", json.dumps({"schemaVersion": 2, "manifests": [manifest]}).encode())
        for digest, data in blobs.items():
            add(f"blobs/sha256/{digest}", data)


def main() -> None:
    pause, entrypoint, out = (Path(a) for a in sys.argv[1:4])
    # Mount points for what the base runtime spec brings; merged /usr as in Debian.
    skeleton: list[tuple[str, str, object]] = [
        *(
            (d, "dir", 0o755)
            for d in ("usr", "etc", "proc", "sys", "dev", "opt", "var", "run", "root")
        ),
        ("tmp", "dir", 0o1777),
        ("var/tmp", "dir", 0o1777),
        *((d, "link", f"usr/{d}") for d in ("bin", "sbin", "lib", "lib64")),
        (
            "etc/passwd",
            "file",
            "root:x:0:0:root:/root:/bin/sh\nspark:x:185:0:spark:/opt/spark/work-dir:/bin/bash\n",
        ),
        ("etc/group", "file", "root:x:0:\nspark:x:185:\n"),
    ]
    image(
        out / "pause.tar",
        "tidegate.test/pause:1",
        [*skeleton, ("pause", "file", pause.read_bytes())],
        {"Entrypoint": ["/pause"], "User": "65535"},
    )
    image(
        out / "spark.tar",
        "tidegate.test/spark:4.0.4",
        [
            *skeleton,
            ("opt/entrypoint.sh", "file", entrypoint.read_bytes()),
            ("work-dir", "dir", 0o777),
        ],
        {
            "Entrypoint": ["/opt/entrypoint.sh"],
            "User": "185",
            "WorkingDir": "/work-dir",
            "Env": [
                "PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "SPARK_HOME=/opt/spark",
                "JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64",
                "PYSPARK_PYTHON=/opt/venv/bin/python",
                "PYSPARK_DRIVER_PYTHON=/opt/venv/bin/python",
                "LANG=C.UTF-8",
            ],
        },
    )


main()
