"""`make fuzz MINUTES=…`: other seeds of the nets than `make test` tries, until the time is over.

Prints the seed of what it finds, and ends with 1: `SEED` repeats it.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from nets import crashes, interleavings
from nets.world import Now, playing


def main() -> int:
    first = int(os.environ.get("SEED", time.time_ns() // 1000 % 10**9))
    home = Path(tempfile.mkdtemp(prefix="tidegate-fuzz-"))
    with playing(home / "in") as world:
        known = crashes.states()
        Now.world = new = world.copy()
        Now.world = world
        interleavings.start(world)
        until = time.monotonic() + 60 * float(os.environ.get("MINUTES", "10"))
        seed = first
        while time.monotonic() < until:
            case = crashes.nested(known, seed)
            for what, wrong in (
                (case, crashes.judged(known[case.step], case)),
                ("interleaving", interleavings.judged(world, seed)),
                ("edits", interleavings.judged_edits(new, seed)),
                ("senders", interleavings.judged_senders(new, seed)),
            ):
                if wrong:
                    print(f"SEED={seed} {what}: {wrong[:5]}")
                    return 1
            seed += 1
    shutil.rmtree(home)
    print(f"{seed - first} seeds from {first}: nothing is lost or repeated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
