import json

import pytest

from unspot.report.contents import Views
from unspot.report.files import PathNumbers, read_result, read_results, split_name


def test_reads_what_evaluate_wrote(tmp_path, make_evaluation):
    evaluation = make_evaluation()
    file = tmp_path / "e.json"
    file.write_text(evaluation.to_json(), encoding="utf-8")
    assert read_result(file) == evaluation


def test_reads_what_certify_wrote(tmp_path, make_certificate):
    certificate = make_certificate()
    file = tmp_path / "c.json"
    file.write_text(certificate.to_json(), encoding="utf-8")
    found = read_result(file)
    assert found.strongest.name == "trees"
    assert tuple(found.strongest.interval) == certificate.strongest.interval


def test_reads_paths_and_views(tmp_path, views):
    path = {"format": "unspot-path/1", "method": "LEOPARD", "points": [{"rank": 2}]}
    for name, content in (("p.json", path), ("v.json", views.to_dict())):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    assert read_result(tmp_path / "p.json") == PathNumbers("LEOPARD", ({"rank": 2},))
    assert isinstance(read_result(tmp_path / "v.json"), Views)


def test_names_sort_results(tmp_path, make_evaluation, make_certificate, views):
    texts = {
        "e.json": make_evaluation().to_json(),
        "c.json": make_certificate().to_json(),
        "v.json": json.dumps(views.to_dict()),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    entries = [f"A={tmp_path}/e.json", f"A={tmp_path}/c.json", f"{tmp_path}/v.json"]
    results, found = read_results(entries)
    assert {name: len(listed) for name, listed in results.items()} == {"A": 2}
    assert found == views


def test_a_file_with_an_equals_sign_is_a_file(tmp_path):
    file = tmp_path / "rank=3.json"
    file.write_text("{}")
    assert split_name(str(file)) == ("", file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "which is not JSON"),
        ("[1, 2]", "which holds no result of unspot"),
        ('{"a": 1}', "which holds no result of unspot"),
        ('{"rows": [{}], "metadata": {}}', "which is incomplete"),
        ('{"attackers": [{"name": "x"}], "leaks": true}', "which is incomplete"),
        ('{"format": "unspot-views/1"}', "which is incomplete"),
    ],
)
def test_other_files_are_named_with_the_way_out(tmp_path, text, message):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        read_result(file)
    assert str(file) in str(error.value)
    assert "--json" in str(error.value)
