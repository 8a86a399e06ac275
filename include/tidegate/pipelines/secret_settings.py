"""Spark settings of a pipeline file that hold a secret, or would show one."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.settings.secrets import secret_settings
from tidegate.settings.setting import Place
from tidegate.settings.table import judge

__all__ = ["refused", "secret_settings"]


def refused(conf: Mapping[str, str]) -> str | None:
    """Return the complaints about a pipeline's Spark settings as one line; None: there are none."""
    return "; ".join(judge(Place.SPARK, conf).complaints) or None
