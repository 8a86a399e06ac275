"""The golden files have the sections of tests that exist, each test in one module."""

import re
from collections import Counter
from pathlib import Path

from support.golden import HOME, sections


def test_each_section_is_of_one_test():
    tests = Counter(
        name
        for path in Path(__file__).parent.glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)\([^)]*\bgolden\b", path.read_text(), re.MULTILINE)
    )
    kept = {name.split()[0] for path in HOME.iterdir() for name in sections(path.stem)}
    assert kept == tests.keys()
    assert {name for name, times in tests.items() if times > 1} == set()
