"""The steps of docker-compose.yaml: `prepare ADDRESS`, `bucket`, `load`."""

from __future__ import annotations

import os
import sys
from functools import partial

from tidegate.errors import TidegateError


def main(arguments: list[str]) -> int:
    """Run a step with this environment. Return its exit code."""
    say = partial(print, flush=True)
    try:
        match arguments:
            case ["prepare", address]:
                from tidegate_local.compose import prepare

                prepare.prepare(os.environ, address)
            case ["bucket"]:
                from tidegate_local.compose import bucket

                say(bucket.ensure(os.environ))
            case ["load"]:
                from tidegate_local.compose import loader

                loader.load(os.environ, say)
            case _:
                print("usage: prepare ADDRESS | bucket | load", file=sys.stderr)
                return 2
    except TidegateError as error:
        text = "; ".join(line.strip() for line in str(error).splitlines() if line.strip())
        print(f"tidegate: {arguments[0]} failed: {text}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
