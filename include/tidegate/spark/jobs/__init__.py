"""The files that spark-submit starts, each by its path."""
