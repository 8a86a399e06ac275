"""What a broker answers, without one."""

from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.maintenance import cursor_moves


def broker_has(monkeypatch, topic_id):
    marks = {0: Watermarks(0, 40, 50), 1: Watermarks(2, 5, 5)}
    identities = {"t": TopicIdentity(topic_id, {0: 0, 1: 0})}
    seen = Survey("cluster", identities, {"t": marks})
    monkeypatch.setattr(cursor_moves, "survey", lambda *_: seen)
