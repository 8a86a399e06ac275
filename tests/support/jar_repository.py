"""A repository of jars in a directory, from which Spark fetches `spark.jars.packages`."""

import shutil
from collections.abc import Mapping
from pathlib import Path

IVY = """
<ivysettings>
  <settings defaultResolver="none"/>
  <resolvers><filesystem name="none"><artifact pattern="/nowhere/[artifact].jar"/></filesystem>
  </resolvers>
</ivysettings>
"""
_POM = "<project><modelVersion>4.0.0</modelVersion>{}<dependencies>{}</dependencies></project>"


def settings(directory: Path, jars: Mapping[str, Path]) -> dict[str, str]:
    """Make it of jars by `group:artifact:version`; return the settings by which Spark asks it
    alone. The first jar depends on the others.
    """
    first, *others = jars
    for coordinates, file in jars.items():
        group, artifact, version = coordinates.split(":")
        place = directory / "repository" / group.replace(".", "/") / artifact / version
        place.mkdir(parents=True)
        shutil.copy(file, place / f"{artifact}-{version}.jar")
        needed = map(_dependency, others if coordinates == first else ())
        (place / f"{artifact}-{version}.pom").write_text(
            _POM.format(_named(coordinates), "".join(needed))
        )
    (directory / "ivysettings.xml").write_text(IVY)
    return {
        "spark.jars.repositories": (directory / "repository").as_uri(),
        "spark.jars.ivySettings": str(directory / "ivysettings.xml"),
        "spark.jars.ivy": str(directory / "ivy"),
    }


def _named(coordinates: str) -> str:
    parts = zip(("groupId", "artifactId", "version"), coordinates.split(":"), strict=True)
    return "".join(f"<{name}>{value}</{name}>" for name, value in parts)


def _dependency(coordinates: str) -> str:
    return f"<dependency>{_named(coordinates)}</dependency>"
