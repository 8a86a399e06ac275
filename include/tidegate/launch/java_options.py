"""Options of Java for Spark's processes."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.launch import cds_archive

NO_CORE_DUMP = "-XX:-CreateCoredumpOnCrash"  # it would hold passwords and keys
# Avro makes room for as much as a damaged record says that it has: above these it is an error.
_LONGEST = 64 << 20  # bytes of a text
_MOST_ITEMS = 16 << 20  # of an array or a map
AVRO_LIMITS = (
    f"-Dorg.apache.avro.limits.string.maxLength={_LONGEST}",
    f"-Dorg.apache.avro.limits.bytes.maxLength={_LONGEST}",
    f"-Dorg.apache.avro.limits.collectionItems.maxLength={_MOST_ITEMS}",
)
EXECUTOR = " ".join([NO_CORE_DUMP, *AVRO_LIMITS])
# C1 alone and full optimisation break even between 400,000 records (9.2 s against 11.9 s) and a
# million (15.1 s against 13.5 s).
_SMALL = 750_000  # records. Below, optimising code fully costs more than it saves (ADR 14)
# An archive that does not fit is ignored, as is a class that cannot be archived: not worth a line.
CLASS_ARCHIVE = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
# C2 only for code that every record passes through: the rest of an application runs once.
_OPTIMISE_HOT_CODE = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=20000",
    "-XX:Tier4CompileThreshold=100000",
    "-XX:Tier4BackEdgeThreshold=400000",
)


def driver_options(records: int, conf: Mapping[str, str], *, archived: bool = True) -> str:
    """Return the options of a driver that reads or writes about so many records.

    `archived`: the archive of classes, if there is one, is of its Spark and jars.
    """
    # Metaspace's initial limit of 21 MB would cost several full collections while Spark starts.
    options = [NO_CORE_DUMP, *AVRO_LIMITS, "-XX:-UsePerfData", "-XX:MetaspaceSize=256m"]
    options += ["-XX:TieredStopAtLevel=1"] if records < _SMALL else _OPTIMISE_HOT_CODE
    # Larger young generations and G1 were tried: the times were within 5 %.
    if "GC" not in conf.get("spark.driver.extraJavaOptions", ""):  # given two, no JVM starts
        options.append("-XX:+UseSerialGC" if records < _SMALL else "-XX:+UseParallelGC")
    if archived and (archive := cds_archive.find_archive()):
        options += [*CLASS_ARCHIVE, f"-XX:SharedArchiveFile={archive}"]
    return " ".join(options)
