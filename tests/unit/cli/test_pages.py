"""`tidegate docs`: pages, sections and errors, from a checkout."""

import re
from pathlib import Path

import pytest

from tidegate import errors
from tidegate.cli import main, pages

PROJECT = Path(__file__).parents[3]
PACKAGE = PROJECT / "include/tidegate"


def docs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *topic: str
) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["tidegate", "docs", *topic])
    with pytest.raises(SystemExit) as ended:
        main.run()
    return int(ended.value.code or 0), *capsys.readouterr()


def test_the_list_names_each_page_for_users(monkeypatch, capsys) -> None:
    code, out, _ = docs(monkeypatch, capsys)
    names = [line.split()[0] for line in out.splitlines()]
    assert code == 0
    assert {"index", "runbook", "how-to/own-kafka", "errors"} <= set(names)
    assert not any(name.startswith("internals/") for name in names)
    assert "how-to/s3" in names


@pytest.mark.parametrize("topic", ["how-to/s3", "s3", "docs/how-to/s3.md", "s3.md"])
def test_a_page_by_its_name_or_path(monkeypatch, capsys, topic) -> None:
    expected = (PROJECT / "docs/how-to/s3.md").read_text()
    assert docs(monkeypatch, capsys, topic)[:2] == (0, expected)


def test_a_section_ends_at_the_next_of_its_level(monkeypatch, capsys) -> None:
    code, out, _ = docs(monkeypatch, capsys, "runbook#open-claim")
    assert (code, out.splitlines()[0]) == (0, "## Open claim")
    assert re.findall(r"(?m)^## .*", out) == ["## Open claim"]


def test_a_comment_in_a_block_of_code_is_no_heading(monkeypatch, capsys) -> None:
    _, out, _ = docs(monkeypatch, capsys, "send#send-files-to-a-topic")
    assert "# include/pipelines/" in out
    assert out.count("```") % 2 == 0


def test_an_error_by_its_name(monkeypatch, capsys) -> None:
    code, out, _ = docs(monkeypatch, capsys, "SenderAlive")
    assert (code, out.splitlines()[0]) == (0, "### SenderAlive")
    assert "What to do" in out


@pytest.mark.parametrize(
    ("topic", "says"),
    [
        ("runbok", "no page is named 'runbok'; did you mean 'runbook'?"),
        ("SenderAlife", "did you mean 'SenderAlive'?"),
        ("runbook#open-clam", "runbook has no section 'open-clam'; did you mean 'open-claim'?"),
        ("doctor#zzzz", "doctor has no section 'zzzz'; there are: "),
        ("internals/storage", "no page is named 'internals/storage'"),
        ("zzzz", "no page is named 'zzzz': `tidegate docs` lists them"),
        ("../README", "no page is named '../README'"),
    ],
)
def test_a_topic_that_there_is_not(monkeypatch, capsys, topic, says) -> None:
    code, out, err = docs(monkeypatch, capsys, topic)
    assert (code, out) == (2, "")
    assert says in err


def test_each_topic_that_a_message_names_exists() -> None:
    """In the code, and as the page of an error."""
    named = {
        topic.rstrip(".")
        for path in PACKAGE.rglob("*.py")
        for topic in re.findall(r"tidegate docs ([\w/#.-]+)", path.read_text())
    }
    assert {"guarantees", "secured-cluster", "configuration"} <= named
    named |= {each.page for each in vars(errors).values() if getattr(each, "page", "")}
    for topic in named - {"TOPIC"}:
        assert pages._find_topic(pages._pages(), topic)
