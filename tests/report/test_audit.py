"""The page of an audit record: every word of it is there, and none of it is markup."""

from dataclasses import replace

import numpy as np
import pytest

from unspot import Dataset, Eraser
from unspot.evaluation.audit import AuditRecord, Settings
from unspot.evaluation.results import Evaluation, Row, Value
from unspot.report.html import render, sections
from unspot.report.reading import read_contents


@pytest.fixture(scope="module")
def evaluation():
    row = Row("neighbours", "A_50%", "", Value(1.0), Value(0.75), "higher")
    return Evaluation("dropped on rows", (row,), {"eraser": {"method": "dropped"}})


@pytest.fixture(scope="module")
def record(nasty, evaluation, make_certificate):
    rng = np.random.default_rng(0)
    z, y = (np.array(nasty[:2])[rng.integers(2, size=90)] for _ in range(2))
    data = Dataset.from_arrays(rng.normal(size=(90, 3)), z, y, random_state=0)
    certificate = replace(
        make_certificate(0.34, leaks=False, p_value=0.6),
        detectable=None,
        metadata={"eraser": {"method": "dropped"}},
    )
    return AuditRecord.of(
        certificate,
        Eraser.projection(np.eye(3)[:, 1:], method="dropped"),
        data,
        utility=evaluation,
        settings=Settings(concept=nasty[1]),
        purpose=nasty[0],
        operator=nasty[4],
    )


def test_everything_that_an_auditor_asks_is_there(record):
    parts = {part.title: part for part in read_contents(record).audit}
    assert parts["Not covered"].sentences == record.threat_model.not_covered
    assert parts["Certify again when"].sentences == record.certify_again_when
    assert dict(parts["Hashes"].facts) == record.hashes()
    assert dict(parts["Purpose"].facts)["purpose"] == record.purpose
    assert "period" not in dict(parts["Purpose"].facts)  # not given
    assert dict(parts["Rows and power"].facts)["detectable advantage"] == "none"
    assert dict(parts["Cost of the erasure"].facts) == {"A_50%": "1.00 → 0.75"}


def test_the_section_is_only_on_pages_of_records(record, evaluation):
    for results, expected in ((record, True), (record.certificate, False), (evaluation, False)):
        contents = read_contents(results)
        assert ('<section id="audit">' in render(contents)) == expected
        assert (("audit", "Audit") in sections(contents, None)) == expected


def test_a_record_stands_beside_the_evaluation_of_its_eraser(record, evaluation):
    contents = read_contents([evaluation, record])
    assert contents.columns == ("dropped",)
    assert contents.audit
    assert contents.headline.tone == "good"
    assert read_contents({"before": record, "after": record}).columns == ("after",)


def test_words_of_users_are_no_markup(record, nasty):
    page = render(read_contents(record))
    assert nasty[0] not in page
    assert "&lt;script&gt;window.hacked = 1" in page
    assert nasty[4] not in page
