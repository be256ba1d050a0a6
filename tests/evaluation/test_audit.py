"""Audit records: every change is found, and the JSON is what the schema says."""

import copy
import hashlib
import json
from dataclasses import fields, replace
from importlib.resources import files

import jsonschema
import numpy as np
import pytest

from unspot import LEACE, Dataset, Eraser, Split
from unspot._version import __version__
from unspot.evaluation.audit import (
    FORMAT,
    AuditRecord,
    Settings,
    Source,
    ThreatModel,
    canonical_sha256,
    file_sha256,
)
from unspot.evaluation.certificate import AttackerReport, Certificate
from unspot.evaluation.results import Evaluation, Row, Value
from unspot.evaluation.verification import (
    TOLERANCE,
    check_content,
    check_numbers,
    check_source,
    read_record,
)

SCHEMA = json.loads(files("unspot.evaluation").joinpath("certificate.schema.json").read_text())


def certificate_of(*advantages, **changes):
    """A certificate with attackers of these advantages over guessing one of two classes."""
    attackers = tuple(
        AttackerReport(f"attacker-{i}", 0.5 + a, 0.5 + a, a, (a - 0.02, a + 0.02), 0.4, 1.0)
        for i, a in enumerate(advantages or (0.01, 0.02))
    )
    facts = {
        "attack_p_value": 0.4,
        "p_value": 0.3,
        "detectable": 0.03,
        "majority": 0.5,
        "alpha": 0.05,
        "n_classes": 2,
        "n_attack_rows": 700,
        "n_test_rows": 400,
        "attack_rows": "unseen",
        "budget": "quick",
        "rows_of_class": {"f": 200, "m": 200},
        "metadata": {
            "eraser": {"method": "dropped", "concept_name": "gender"},
            "random_state": 0,
            "versions": {"torch": "1", "unspot": "2"},
        },
    }
    return Certificate(attackers=attackers, **{**facts, **changes})


@pytest.fixture(scope="module")
def data():
    """Rows with a task, in which no m is a nurse."""
    rng = np.random.default_rng(0)
    z = np.repeat(["f", "m"], 30)
    y = np.where(z == "f", np.array(["nurse", "cook"])[np.arange(60) % 2], "cook")
    return Dataset.from_arrays(rng.normal(size=(60, 3)), z, y, random_state=0)


@pytest.fixture(scope="module")
def eraser():
    return Eraser.projection(np.eye(3)[:, 1:], method="dropped")


@pytest.fixture(scope="module")
def record(data, eraser):
    rows = (
        Row("neighbours", "A_50%", "", Value(1.0), Value(0.8), "higher"),
        Row("attack", "Strongest attacker", "share", Value(0.9), Value(0.5), "lower"),
        Row("task", "Task accuracy", "share", Value(0.9, 0.01), None, "higher", "undefined."),
    )
    return AuditRecord.of(
        certificate_of(),
        eraser,
        data,
        utility=Evaluation("dropped on data", rows),
        settings=Settings(concept="gender", alpha=0.1),
        purpose="Rank letters\n  blind to gender: für alle.",
        operator="A. Auditor",
    )


@pytest.fixture(scope="module")
def content(record):
    """The record as its file has it."""
    return json.loads(record.to_json())


# -- what is in a record ---------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was(record, content):
    assert AuditRecord.from_dict(content) == record
    assert content["format"] == FORMAT
    assert content["purpose"] == "Rank letters blind to gender: für alle."


def test_rows_of_each_cell_with_the_empty_ones(record, data):
    test = data.test
    expected = {
        z: {y: int(np.sum((test.z == z) & (test.y == y))) for y in ("cook", "nurse")}
        for z in ("f", "m")
    }
    assert record.rows_of_cell == expected
    assert record.rows_of_cell["m"]["nurse"] == 0


def test_cells_of_a_cross_fit_are_those_of_all_rows(data, eraser):
    record = AuditRecord.of(certificate_of(attack_rows="cross-fit"), eraser, data)
    assert sum(sum(cells.values()) for cells in record.rows_of_cell.values()) == 60


def test_no_cells_without_a_task(data, eraser):
    without = Dataset(*(Split(part.X, part.z) for part in data))
    assert AuditRecord.of(certificate_of(), eraser, without).rows_of_cell == {}


def test_the_cost_is_kept_and_what_attackers_recover_is_not_repeated(record):
    assert [row.key for row in record.utility] == ["neighbours", "task"]


def test_an_eraser_in_memory_has_the_hash_of_its_file(record, eraser, tmp_path):
    path = tmp_path / "e.safetensors"
    eraser.save(path)
    assert record.sources["eraser"].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_rows_in_memory_are_known_by_a_fingerprint(record, data, eraser):
    assert not record.sources["test"].sha256
    test = data.test
    changed = replace(data, test=Split(test.X + 1e-3, test.z, test.y))
    again = AuditRecord.of(certificate_of(), eraser, changed)
    assert again.sources["test"].fingerprint != record.sources["test"].fingerprint
    assert again.sources["train"] == record.sources["train"]


def test_the_rows_of_the_fit_have_the_fingerprint_in_the_eraser(data):
    fitted = LEACE().fit(data.train.X, data.train.z)
    record = AuditRecord.of(certificate_of(), fitted, data)
    assert record.sources["train"].fingerprint == fitted.eraser_.metadata["fingerprint"]
    assert AuditRecord.of(certificate_of(), None, data).sources.keys() == {
        "train", "validation", "test",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("attack_rows", "needle"),
    [("unseen", "not fitted on"), ("seen", "was fitted on"), ("cross-fit", "fold by fold")],
)
def test_the_threat_model_says_who_learned_from_what(attack_rows, needle):
    found = ThreatModel.of(certificate_of(attack_rows=attack_rows))
    assert any("700" in text and needle in text for text in found.adversary_has)
    assert any("attacker-0, attacker-1" in text for text in found.adversary_may)


def test_the_threat_model_says_what_is_counted_as_independent():
    rows, groups = (
        " ".join(ThreatModel.of(certificate_of(metadata=facts)).not_covered)
        for facts in ({}, {"n_test_groups": 1060})
    )
    assert "test rows as independent" in rows
    assert "1,060" in groups
    assert "test rows as independent" not in groups


# -- the schema ------------------------------------------------------------------------------------


def test_the_schema_describes_a_record(content):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(content, SCHEMA)


@pytest.mark.parametrize(
    ("kind", "part", "more"),
    [
        (AuditRecord, SCHEMA, {"format"}),
        (ThreatModel, SCHEMA["properties"]["threat_model"], set()),
        (AttackerReport, SCHEMA["$defs"]["attacker"], set()),
        (Source, SCHEMA["$defs"]["source"], set()),
        (Settings, SCHEMA["$defs"]["settings"], set()),
        (Row, SCHEMA["$defs"]["row"], set()),
    ],
)
def test_the_schema_has_every_field(kind, part, more):
    assert set(part["properties"]) == {field.name for field in fields(kind)} | more


def test_the_schema_has_every_name_of_a_certificate():
    assert set(SCHEMA["$defs"]["certificate"]["properties"]) == set(certificate_of().to_dict())


def test_the_schema_refuses_what_is_no_record(content):
    for name in content:
        wrong = {**content, name: 3}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_numbers_and_several_concepts_are_as_the_schema_says(data, eraser):
    line = AttackerReport("ridge", None, None, 0.01, (-0.02, 0.03), 0.4, None, r2=0.01)
    number = certificate_of(
        kind="continuous",
        n_classes=0,
        majority=0.0,
        rows_of_class={},
        metadata={"concept": "age", "eraser": {}},
    )
    number = replace(number, attackers=(line,))
    several = Certificate.of_several({"gender": certificate_of(), "age": number}, ("A note.",))
    for certificate in (number, several):
        record = AuditRecord.of(certificate, eraser, data, settings=Settings(kind="age=continuous"))
        content = json.loads(record.to_json())
        jsonschema.validate(content, SCHEMA)
        assert AuditRecord.from_dict(content) == record
        assert all(check.ok for check in check_content(content))
    card = AuditRecord.of(number, eraser, data).to_model_card()
    assert "at most 3.0 % of the variance" in card
    card = AuditRecord.of(several, eraser, data).to_model_card()
    assert "**Concept age:** HOLDS" in card
    assert not AuditRecord.of(number, eraser, data).rows_of_cell


# -- every change is found -------------------------------------------------------------------------


def leaves(value, path=()):
    """Where the single values of nested data are."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, (dict, list)) and item:
            yield from leaves(item, (*path, key))
        else:
            yield (*path, key)


def changed(content, path):
    """A copy in which one value is another one: the smallest change of a number."""
    copied = copy.deepcopy(content)
    inside = copied
    for key in path[:-1]:
        inside = inside[key]
    old = inside[path[-1]]
    if isinstance(old, float):
        new = float(np.nextafter(old, 2))
    elif isinstance(old, str):
        new = old + " "
    elif isinstance(old, bool) or not isinstance(old, int):
        new = not old
    else:
        new = old + 1
    inside[path[-1]] = new
    return copied


def test_a_change_of_any_value_is_found(content):
    paths = list(leaves(content))
    assert len(paths) > 80
    for path in paths:
        if path != ("sha256",):
            assert canonical_sha256(changed(content, path)) != content["sha256"], path
    assert check_content(content)[0].ok
    assert not check_content(changed(content, ("sha256",)))[0].ok
    assert not check_content(changed(content, ("certificate", "alpha")))[0].ok


def test_a_record_that_was_changed_is_not_read(content):
    with pytest.raises(ValueError, match="does not match its sha256"):
        AuditRecord.from_dict({**content, "operator": "Somebody else"})


def test_names_that_later_versions_add_are_hashed_too(content):
    later = {**content, "later": 1}
    later["sha256"] = canonical_sha256(later)
    assert AuditRecord.from_dict(later).operator == "A. Auditor"
    assert not check_content({**later, "later": 2})[0].ok


def test_the_hash_needs_no_unspot(record):
    """The recipe of the docs."""
    text = record.to_json()
    rest = json.loads(text)
    stated = rest.pop("sha256")
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(canonical.encode()).hexdigest() == stated == record.sha256


def test_neither_order_nor_layout_matters(content, tmp_path):
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(dict(reversed(content.items())), ensure_ascii=True))
    assert all(check.ok for check in check_content(read_record(path)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("verdict", "LEAKS"),
        ("leaks", True),
        ("upper_bound", 0.001),
        ("sentence", "Nothing is left."),
        ("next_step", "Nothing."),
        ("attack_p_value", 1.0),
    ],
)
@pytest.mark.parametrize("of_part", [False, True])
def test_what_does_not_follow_is_found_even_with_a_new_hash(content, name, value, of_part):
    forged = copy.deepcopy(content)
    certificate = forged["certificate"]
    certificate["metadata"]["versions"]["unspot"] = __version__
    if of_part:
        certificate = json.loads(Certificate.from_dict(certificate).to_json())
        forged["certificate"]["parts"] = {"age": certificate}
        forged["certificate"]["sentence"] = Certificate.from_dict(forged["certificate"]).sentence
    assert check_content(forged)[1].ok
    certificate[name] = value
    forged["sha256"] = canonical_sha256(forged)
    unchanged, verdict = check_content(forged)
    assert unchanged.ok
    assert not verdict.ok
    assert name in verdict.reason


@pytest.mark.parametrize(
    ("text", "needle"),
    [
        ('{"format": "unspot-certificate/1", "format": "unspot-certificate/1"}', "twice"),
        ('{"format": "unspot-certificate/1"}', "is missing"),
        ('{"format": "other"}', "no audit record"),
        ("[]", "an object"),
        ("{", "Expecting"),
    ],
)
def test_what_is_no_record_is_an_error(text, needle, tmp_path):
    path = tmp_path / "audit.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=needle) as raised:
        read_record(path)
    assert "certify --audit" in str(raised.value)


def test_a_plain_certificate_and_nan_are_errors(content, tmp_path):
    path = tmp_path / "audit.json"
    path.write_text(certificate_of().to_json())
    with pytest.raises(ValueError, match="without hashes"):
        read_record(path)
    path.write_text(json.dumps(changed(content, ("certificate", "p_value")) | {"period": "x"}))
    read_record(path)
    broken = copy.deepcopy(content)
    broken["certificate"]["p_value"] = float("nan")
    path.write_text(json.dumps(broken))
    with pytest.raises(ValueError, match="cannot be verified"):
        read_record(path)


# -- files -----------------------------------------------------------------------------------------


def test_the_hash_of_a_folder_is_that_of_its_list_of_files(tmp_path):
    for name, text in (("b.parquet", "2"), ("in/a.parquet", "1"), ("_temporary/x.parquet", "no")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    lines = "".join(
        f"{hashlib.sha256(text).hexdigest()}  {name}\n"
        for name, text in (("b.parquet", b"2"), ("in/a.parquet", b"1"))
    )
    assert file_sha256(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()
    (tmp_path / "in" / "a.parquet").write_text("3")
    assert file_sha256(tmp_path) != hashlib.sha256(lines.encode()).hexdigest()


def test_files_are_compared_and_those_not_given_are_left_out(tmp_path):
    path = tmp_path / "x.npy"
    path.write_bytes(b"rows")
    source = Source("rows.npy", hashlib.sha256(b"rows").hexdigest())
    assert check_source("data", source, path, "--data").ok
    path.write_bytes(b"Rows")
    found = check_source("data", source, path, "--data")
    assert found.ok is False
    assert source.sha256 in found.reason
    left_out = check_source("attack_rows", source, None, "--attack-rows")
    assert left_out.ok is None
    assert "--attack-rows" in left_out.reason
    in_memory = check_source("test", Source("data", fingerprint="1"), None, "--test")
    assert in_memory.ok is None
    assert "--test" not in in_memory.reason  # there is no such option


# -- numbers again ---------------------------------------------------------------------------------


def test_the_same_numbers_again():
    assert check_numbers(certificate_of(), certificate_of()).ok
    assert "last digit" in check_numbers(certificate_of(), certificate_of()).reason


def test_small_differences_are_tolerated_and_versions_named():
    metadata = {"versions": {"torch": "3", "unspot": "2"}}
    near = certificate_of(0.01, 0.02 + TOLERANCE / 2, metadata=metadata)
    found = check_numbers(certificate_of(), near)
    assert found.ok
    assert "attacker-1" in found.reason
    assert "torch 1 then, 3 now" in found.reason
    assert "unspot" not in found.reason
    assert not check_numbers(certificate_of(), certificate_of(0.01, 0.02 + 2 * TOLERANCE)).ok


def test_another_verdict_or_other_attackers_are_found():
    leaks = certificate_of(p_value=0.001)
    found = check_numbers(certificate_of(), leaks)
    assert found.ok is False
    assert "LEAKS" in found.reason
    assert check_numbers(certificate_of(), certificate_of(0.01)).ok is False


def test_words_of_another_version_are_not_compared(content):
    content["certificate"]["sentence"] = "As another version puts it."
    assert check_content(content)[1].ok


def test_bounds_and_counts_that_somebody_made_up_are_found():
    """With the same verdict and the same advantages."""
    honest = certificate_of()
    narrow = [replace(r, interval=(r.advantage, r.advantage)) for r in honest.attackers]
    for forged in (
        replace(honest, attackers=tuple(narrow)),
        replace(honest, detectable=0.001),
        replace(honest, n_test_rows=100 * honest.n_test_rows),
    ):
        assert check_numbers(forged, honest).ok is False


def test_what_somebody_made_up_of_one_of_several_concepts_is_found():
    worst, other = certificate_of(0.3, p_value=0.001), certificate_of(0.2)
    honest = Certificate.of_several({"age": worst, "sex": other, "age × sex": worst}, ())
    held = certificate_of(0.01, attack_p_value=1.0)
    for part, needle in (
        (held, f"{other.verdict}, but HOLDS was certified"),
        (certificate_of(0.2 + 2 * TOLERANCE), "(sex: attacker-0)"),
        (replace(other, n_test_rows=4000), "sex: n_test_rows is 400, but 4000"),
        (replace(other, parts={"inside": held}), "sex: other concepts"),
    ):
        found = check_numbers(replace(honest, parts={**honest.parts, "sex": part}), honest)
        assert found.ok is False
        assert needle in found.reason
    without = {name: part for name, part in honest.parts.items() if name != "sex"}
    assert (
        "other concepts than in the certificate: sex"
        in check_numbers(replace(honest, parts=without), honest).reason
    )
    near = certificate_of(0.2 + TOLERANCE / 2)
    assert check_numbers(replace(honest, parts={**honest.parts, "sex": near}), honest).ok


# -- the card of a model ---------------------------------------------------------------------------


def test_the_card_has_what_a_reader_of_a_model_needs(record):
    card = record.to_model_card()
    found = record.certificate
    assert card.startswith(f"## Concept erasure: {found.verdict}\n")
    for needle in (
        found.sentence,
        record.sha256,
        record.sources["eraser"].sha256,
        "gender",
        "A. Auditor",
        "f 200, m 200",
        "4.0 points",
        *record.threat_model.not_covered,
        *record.certify_again_when,
    ):
        assert needle in card
    assert "Population" not in card  # not given
