import json

import numpy as np
import pytest
from sklearn.decomposition import PCA

from unspot import LEACE, Dataset, Eraser
from unspot.report.contents import Views
from unspot.report.views import make_views


def test_maps_are_principal_components_of_the_training_rows(rows, views):
    model = PCA(2).fit(rows.train.X)
    expected = model.transform(rows.test.X)
    for ours, theirs in zip(
        (views.before.points.x, views.before.points.y), expected.T, strict=True
    ):
        assert abs(np.corrcoef(ours, theirs)[0, 1]) > 0.9999


def test_erasing_more_brings_the_classes_closer(views):
    before, means_gone, all_gone = (panel.witness for panel in views.panels)
    assert before.distance > means_gone.distance > all_gone.distance
    assert all_gone.distance <= all_gone.noise


def test_points_are_the_test_rows_with_their_names_and_classes(rows, views):
    assert views.names == tuple(rows.test.names)
    assert [views.classes[code] for code in views.codes] == list(rows.test.z)


def test_a_sample_of_points_keeps_the_shares_of_the_classes(rows):
    views = make_views(lambda X: X, rows, max_points=90)
    assert len(views.codes) == len(views.before.points.x) == 90
    assert np.bincount(views.codes).tolist() == [30, 30, 30]


def test_same_seed_same_pictures(rows):
    first, second = (make_views(lambda X: X, rows, max_points=50) for _ in range(2))
    assert first == second
    other = make_views(lambda X: X, rows, max_points=50, random_state=1)
    assert first.names != other.names


def test_survives_json(views):
    assert Views.from_dict(json.loads(json.dumps(views.to_dict()))) == views


def test_takes_estimators_erasers_and_functions(rows):
    estimator = LEACE().fit(rows.train.X, rows.train.z)
    panels = [make_views(e, rows).after[0] for e in (estimator, estimator.eraser_)]
    assert panels[0].name == panels[1].name == "LEACE"
    assert panels[0].points == panels[1].points
    assert make_views(lambda X: X, rows).after[0].name == "erased"


def test_maps_by_tsne(rows):
    views = make_views(lambda X: X, rows, map_kind="tsne", max_points=60)
    assert views.map_kind == "tsne"
    assert np.isfinite(views.before.points.x).all()


def test_one_feature_gives_a_flat_map():
    rng = np.random.default_rng(0)
    data = Dataset.from_arrays(rng.normal(size=(60, 1)), np.arange(60) % 2, random_state=0)
    views = make_views(Eraser.projection(np.eye(1)), data)
    assert set(views.before.points.y) == {0.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"map_kind": "umap"}, "Got map_kind='umap', but expected 'pca' or 'tsne'"),
        ({"max_points": 1}, "Got max_points=1, but expected at least 2"),
    ],
)
def test_errors(rows, options, message):
    with pytest.raises(ValueError, match=message):
        make_views(lambda X: X, rows, **options)
