"""Tidegate's plugin, for an Airflow that does not find the one of an installed Tidegate itself."""

from importlib.metadata import entry_points

# Airflow reports a second plugin of one name as an error.
if not entry_points(group="airflow.plugins", name="tidegate"):
    from tidegate.ui.plugin import TidegatePlugin as TidegatePlugin
