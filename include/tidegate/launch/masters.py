"""What an application needs by the master that it runs on, and by the places that it opens."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from tidegate.core.locations import IN_USE, Scheme, schemes_of
from tidegate.errors import ConfigurationError
from tidegate.launch import spark_jars, token_settings
from tidegate.launch.spark_connection import LOCAL, SparkConnection
from tidegate.launch.submission import CLASS_PATH, PACKAGES, Submission, join_lists
from tidegate.spark.hadoop_files import LOCAL_FILES, WITHOUT_SHELL

_TASK_TRIES = "spark.task.maxFailures"
_CLASS_PATH_END = "SPARK_DIST_CLASSPATH"
_SHELL_LESS = re.compile(r"/hadoop-bare-naked-local-fs-[0-9.]+\.jar(:|$)")
# Executors elsewhere look for it where they do not find the jars that Spark hands to them.
_WITHOUT_SHELL = {f"spark.hadoop.{LOCAL_FILES}": WITHOUT_SHELL}


def for_places(given: Submission, *places: str, spark: SparkConnection = LOCAL) -> Submission:
    """Add the settings and jars for the buckets among the places that Spark reads or writes.

    Raises ConfigurationError if the Spark connection lacks their jars, or is of too old a Spark.
    """
    for scheme in schemes_of(places):
        given = _for_buckets(given, scheme, spark)
    return given


def _for_buckets(given: Submission, scheme: Scheme, spark: SparkConnection) -> Submission:
    from tidegate.lake.bucket_kinds import buckets_of  # it loads obstore

    try:
        spark_jars.refuse_lacking_bucket(spark.jars, scheme, spark.home)
    except ConfigurationError as error:
        raise ConfigurationError(f"Spark connection {spark.id!r}: {error}") from None
    found = [str(path) for path in spark_jars.jar_files(spark.jars, scheme.library, spark.home)]
    conf = {**buckets_of(scheme.example).spark_conf(), **given.conf}
    if scheme.secrets:
        conf = join_lists(conf, f"spark.hadoop.{IN_USE}", scheme.name)
    fetched = spark_jars.package_coordinates(spark.jars, scheme.library, spark.home)
    # At the end: the archive of classes needs the class path to begin as when it was made.
    theirs = given.env.get(_CLASS_PATH_END) or os.environ.get(_CLASS_PATH_END)
    end = ":".join(filter(None, [*found, theirs]))
    return replace(
        given,
        conf=join_lists(conf, PACKAGES, fetched),
        jars=(*given.jars, *found),
        env={**given.env, **({_CLASS_PATH_END: end} if found else {})},
    )


def for_master(given: Submission, master: str) -> Submission:
    """For a local master, remove the jars that only executors on other machines need, and let
    Spark open local files without a shell.

    Raises ConfigurationError for a master that retries tasks (`local[2,4]`) if each must run once:
    it overrides `spark.task.maxFailures`.
    """
    if given.kafka:
        tokens = token_settings.tokens_of([given.kafka])
        login = token_settings.tokens_for_master(tokens, master)
        given = replace(given, conf={**given.conf, **login})
    if master.partition("[")[0] != "local":
        return given
    tries = re.fullmatch(r"local\[([^,\]]*),\s*(\d+)\s*\]", master)
    if tries and int(tries[2]) > 1 and given.conf.get(_TASK_TRIES) == "1":
        raise ConfigurationError(
            f"Spark master {master!r}: it runs a failed task up to {tries[2]} times, and so would "
            f"send records twice; make it local[{tries[1]}], the task's own retries send the rest"
        )
    class_path = given.conf.get(CLASS_PATH, ""), given.env.get(_CLASS_PATH_END, "")
    local_jars = ":".join(class_path).split(":")
    conf = {**_WITHOUT_SHELL, **given.conf} if _SHELL_LESS.search(class_path[0]) else given.conf
    return replace(
        given,
        conf=conf,
        jars=tuple(jar for jar in given.jars if jar not in local_jars),
        # Otherwise Spark looks up this machine's host name, which may not resolve.
        env={**given.env, "SPARK_LOCAL_IP": "127.0.0.1"},
    )
