"""No fenced block of README and how-tos is forgotten: a test runs it, or judges it for a reason."""

import ast
import json
import re

import botocore.session
import botocore.validate
import pytest

from support.doc_pages import DOCS, FENCED, PROJECT, fenced, named, page
from support.snippets import PAGES, RUN

EXAMPLES = {
    named(path): FENCED.findall(path.read_text())
    for path in DOCS
    if named(path) == "README.md" or named(path).startswith("docs/how-to/")
}


def test_each_page_with_an_example_is_listed() -> None:
    assert {name for name, blocks in EXAMPLES.items() if blocks} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_each_block_has_a_test(name: str) -> None:
    """In the order of the page. The named test exists; one without servers runs no block, so that
    there is a reason. (`translate` is run by a unit test: it needs no server.)
    """
    found = EXAMPLES[name]
    assert len(found) == len(PAGES[name]), [text.splitlines()[0] for _, text in found]
    for (language, text), block in zip(found, PAGES[name], strict=True):
        assert language == block.language
        assert text.startswith(block.begins)
        file, _, test = block.test.partition("::")
        tree = ast.parse((PROJECT / file).read_text())
        assert test in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
        if not file.startswith(("tests/integration/", "tests/e2e/")):
            assert block.not_run or test == "test_the_example_of_the_docs"
        assert not (block.not_run and block.test == RUN)


def test_what_other_tools_are_told() -> None:
    """Targets of make, files that are copied, the rule of a bucket, operations of Kafka's ACLs."""
    make, compose = fenced(page("README.md"), "")[0], fenced(page("docs/how-to/containers.md"), "")
    targets = re.findall(r"^make (\w+)", make, re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in page("Makefile") for target in targets)
    assert (PROJECT / re.findall(r"^cp (\S+)", compose[0])[0]).is_file()
    steps = re.findall(r"^ (\w+) {3,}", fenced(page("README.md"), "text")[0], re.MULTILINE)
    assert steps == ["plan", "stage", "publish"]
    (rule,) = fenced(page("docs/how-to/s3.md"), "json")
    s3 = botocore.session.get_session().get_service_model("s3")
    shape = s3.operation_model("PutBucketLifecycleConfiguration").input_shape
    form = {"Bucket": "bucket", "LifecycleConfiguration": json.loads(rule)}
    report = botocore.validate.ParamValidator().validate(form, shape)
    assert not report.has_errors(), report.generate_report()
    acls = fenced(page("docs/how-to/secured-cluster.md"), "sh")[-1]
    from kafka.admin import ACLOperation

    for operation in re.findall(r"--operation (\w+)", acls):
        assert re.sub(r"(?<!^)(?=[A-Z])", "_", operation).upper() in ACLOperation.__members__
