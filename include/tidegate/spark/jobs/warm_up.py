"""Load what an ingest loads, so that the JVM can put it into an archive when it ends."""

import signal

from tidegate.spark.parent_death import end_with_parent


def run() -> None:
    """Load it. Needs no argument."""
    end_with_parent(signal.SIGKILL)
    from tidegate.spark.warm_up_driver import main

    main()


if __name__ == "__main__":
    run()
