import copy
import json
from itertools import product

import pytest

from unspot.io.files import split_name
from unspot.report.contents import VIEWS_FORMAT, Views
from unspot.report.files import PathNumbers, read_result, read_results
from unspot.report.html import render
from unspot.report.reading import read_contents


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
        ("[" * 100_000, "which is not JSON .*nested too deeply"),
        ('{"rows": 3, "name": "x"}', "rows is 3, but expected a list"),
        (
            '{"rows": [{"key": "a", "label": "b", "unit": "", "before": null, "after": null, '
            '"direction": "x"}], "name": "x"}',
            r"rows\[0\]\.direction is 'x', but expected 'lower' or 'higher' or 'none'",
        ),
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


# -- files that somebody edited --------------------------------------------------------------------


def results_of(make_evaluation, make_certificate):
    """One small result of every kind, as its file has it."""
    panels = [
        {
            "name": name,
            "witness": {
                "grid": [0.0, 1.0],
                "curves": [[0.5, 0.5], []],
                "distance": 0.1,
                "noise": 0.2,
            },
            "points": {"x": [0.0, 1.0], "y": [1.0, 0.0]},
        }
        for name in ("original", "A")
    ]
    small = {"classes": ["a", "b"], "codes": [0, 1], "names": ["p", "q"], "map_kind": "pca"}
    points = [{"rank": r, "held_out": 0.1 * r, "attack": 0.2 * r, "loss": None} for r in (4, 2)]
    evaluation = json.loads(make_evaluation().to_json())
    evaluation["details"]["gaps"] = evaluation["details"]["gaps"][:2]
    inner = {"method": "LEACE", "parameters": {"rank": 2}}
    evaluation["metadata"]["eraser"]["inner"] = inner
    certificate = json.loads(make_certificate().to_json())
    certificate["metadata"] = evaluation["metadata"]
    return {
        "evaluation": evaluation,
        "certificate": certificate,
        "path": {"format": "unspot-path/1", "method": "LEOPARD", "points": points},
        "views": {"format": VIEWS_FORMAT, **small, "before": panels[0], "after": panels[1:]},
    }


def places(content, at=()):
    """The way to every value, however deep."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in pairs:
        yield (*at, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*at, key))


def edited(content, place, value):
    content = copy.deepcopy(content)
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return content


OTHERS = (None, 0, -7, 10**400, 1e308, "x", True, float("nan"), [], ["x"], {}, {"x": []})


@pytest.mark.parametrize("kind", ["evaluation", "certificate", "path", "views"])
def test_an_edited_value_is_shown_or_refused_in_one_sentence(
    tmp_path, monkeypatch, kind, make_evaluation, make_certificate
):
    content = results_of(make_evaluation, make_certificate)[kind]
    (tmp_path / "e.json").write_text(make_evaluation().to_json(), encoding="utf-8")
    monkeypatch.setattr("unspot.report.html.LIBRARIES", ())  # large, and the same on every page
    file = tmp_path / "x.json"
    files = [str(file), *([str(tmp_path / "e.json")] if kind == "views" else [])]
    for place, value in product(places(content), OTHERS):
        file.write_text(json.dumps(edited(content, place, value)))
        try:
            results, found = read_results(files)
        except ValueError as error:
            message = str(error)
        else:
            assert render(read_contents(results), found)
            continue
        assert message.startswith(f"Got {file}, which "), (place, value)
        assert "--json" in message
