"""Bugs that the nets must find: each takes out guards, as a wrong change of the code would."""

import pytest

from mutants import MUTANTS

_DEATH = (
    "a claim needs the proof of the sender's death, no plan is made while a sender may be alive"
)
BUGS: dict[str, tuple[str, ...]] = {
    "interleavings": (
        "the overlap check",
        "an abandoned attempt is not brought to the judge, abandoned attempts",
        "an attempt is given up before its files go",
        "the judge is asked at each try",
    ),
    "crashes": (
        "offsets without a row are looked into",
        "finished attempts stay",
        _DEATH,
        "a checkpoint has the newest gap",
        "replaced files are deleted when the new ones are placed",
    ),
    "edits": (
        "a chunk that is covered in part is not done",
        "a skipped chunk is not done",
        "a finished attempt of a skipped chunk is sealed",
        "a commit is compared with the decodings of live rows",
        "another cluster",
    ),
    "senders": (
        "the marks of a plan that is not committed stay",
        "an attempt that was superseded may have sent",
        "a release ends its own claim only",
        "a plan is one sender's",
    ),
}
"""The names of mutants that are planted together, by the net that finds them."""


RARE = ("an attempt is given up before its files go", "a skipped chunk is not done")
"""They show in few orders: minutes are needed to find them."""


def plant(names: str, patch: pytest.MonkeyPatch) -> None:
    """Take out these guards until the patch is undone."""
    mutants = {mutant.name: mutant for mutant in MUTANTS}
    for name in names.split(", "):
        mutants[name].plant(patch)
