"""The settings that `explain` shows of a run."""

from dataclasses import replace
from datetime import date

from support.handed_in import HERE
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.spark_engine import SparkEngine
from tidegate.pipelines.spec import Ingest, parse_spec
from tidegate.runs.client_options import InEffect, effective_settings, explain_settings
from tidegate.runs.run import Run


def test_the_deploy_mode_is_shown_where_the_driver_is_elsewhere() -> None:
    spec = parse_spec({"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"})
    assert isinstance(spec, Ingest)
    kafka = KafkaCluster("k", {"bootstrap.servers": "nowhere:1"})
    run = Run(spec, kafka, "dag", "r", date(2024, 5, 1), **HERE)
    usual = effective_settings(spec, kafka, {})
    assert explain_settings(run) == usual
    elsewhere = replace(
        run, engine=SparkEngine(None, SparkConnection("s", "yarn", deploy_mode="cluster"))
    )
    mode = InEffect("cluster", "connection")
    assert explain_settings(elsewhere) == {**usual, "spark.submit.deployMode": mode}
