"""What runs of tests are given: the real stores, and an engine that starts nothing."""

from typing import Any

from support.toy_engine import ToyEngine
from tidegate.egress.takeover import ProcessSenders
from tidegate.lake.store import STORES
from tidegate.pipelines import pipeline_files

TOY = ToyEngine()
HERE: Any = {"stores": STORES, "engine": TOY}
"""What a run is given whose steps start no application."""
OUTGOING: Any = {**HERE, "senders": ProcessSenders(), "pipelines": pipeline_files}
"""What a run of an egress is given, too."""
