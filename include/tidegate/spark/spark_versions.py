"""What differs between the supported lines of Spark, for code that runs inside an application."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession

from tidegate.core.offsets import Window
from tidegate.settings import spark_lines
from tidegate.spark.task_size import count_tasks


def read_kafka(spark: SparkSession, options: Mapping[str, str], window: Window) -> DataFrame:
    """Return the records of a window, by options that `source_options` has made for it.

    Spark 3.5 ignores the largest size of a task, and is given the number of tasks instead.
    """
    given = dict(options)
    if spark_lines.is_partial(spark.version):
        given["minpartitions"] = str(count_tasks(window, int(options["maxrecordsperpartition"])))
    return spark.read.format("kafka").options(**given).load()


def metadata_column(frame: DataFrame) -> Column:
    """Return the hidden column of a frame of files, also where a file has a column of its name."""
    if hasattr(frame, "metadataColumn"):
        return frame.metadataColumn("_metadata")
    java: Any = frame._jdf.metadataColumn("_metadata")
    return Column(java)  # Spark 3.5


def error_condition(error: AnalysisException) -> str:
    """Return the name of an error's condition, as PATH_NOT_FOUND."""
    ask: Any = getattr(error, "getCondition", None) or error.getErrorClass  # Spark 3.5
    return ask() or ""


def error_message(error: AnalysisException) -> str:
    """Return the message of an error, without Java's stack."""
    ask: Any = getattr(error, "getMessage", None)
    return (ask() if ask else getattr(error, "desc", None)) or ""  # Spark 3.5
