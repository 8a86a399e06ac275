"""Airflow's own command line accepts the commands of the docs."""

import shlex

from support.doc_pages import DOCS, fenced


def test_airflow_commands_of_the_docs() -> None:
    """Commands, options and dates; nothing is called."""
    from airflow.cli.cli_parser import get_parser

    shells = [block for path in DOCS for block in fenced(path.read_text(), "")]
    lines = [line.strip() for block in shells for line in block.splitlines()]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("airflow ")]
    assert commands
    for words in commands:
        get_parser().parse_args(words)
