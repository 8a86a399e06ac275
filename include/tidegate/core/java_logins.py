"""Failed logins in Java's words: refused, or without an answer of KDC or token endpoint."""

import re

# Java's clients call both a failed login. Java hides why a token could not be had: "while
# retrieving token". The next run's planner, which asks for one itself, then says it.
_AWAY = re.compile(
    r"connection (refused|reset)|timed out|no route|unreachable|unknownhost"
    r"|cannot (contact any kdc|get a kdc reply)|a service is not available"
    r"|response code (408|429|5\d\d)|while retrieving token from callback handler",
    re.IGNORECASE,
)


def is_away(said: str) -> bool:
    """Return whether these names and messages of Java's exceptions are of a missing answer."""
    return _AWAY.search(said) is not None
