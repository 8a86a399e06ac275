"""The directory of the DAG bundle, with one DAG file."""
