"""Batches of every shape of table: vectors erased, the rest untouched, the schema kept."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unspot import Eraser
from unspot.maps import Oblique
from unspot.scale import erase_arrow_batch, erase_batch, erased_schema, width_out

D, R = 4, 2
RNG = np.random.default_rng(0)
ERASER = Eraser.projection(np.linalg.qr(RNG.normal(size=(D, R)))[0])
X = RNG.normal(size=(6, D)).astype(np.float32)


def _vectors(kind, X=X):
    values = pa.array(X.ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(values, X.shape[1])
    offsets = np.arange(len(X) + 1) * X.shape[1]
    if kind == "large":
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def _batch(kind):
    others = {
        "id": pa.array(range(6), pa.uint16()),
        "name": pa.array(["a", None, "c", "d", "e", "f"]).dictionary_encode(),
        "when": pa.array([None, *range(5)], pa.timestamp("ms", "UTC")),
    }
    return pa.record_batch({"id": others["id"], "emb": _vectors(kind), **others})


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize("reduce", [False, True])
def test_vector_columns(kind, reduce):
    batch = _batch(kind)
    erased = erase_arrow_batch(ERASER, batch, "emb", reduce=reduce)
    expected = ERASER.reduce(X) if reduce else ERASER(X)
    np.testing.assert_array_equal(np.array(erased["emb"].to_pylist(), np.float32), expected)
    for name in ("id", "name", "when"):
        assert erased[name].equals(batch[name])
    width = R if reduce else D
    same = batch.schema.field("emb").type
    assert erased.schema.field("emb").type == (
        pa.list_(pa.field("item", pa.float32()), width) if kind == "fixed" else same
    )
    assert erased.schema == erased_schema(batch.schema, ["emb"], ERASER, reduce=reduce)
    erased.validate(full=True)


def test_slices_of_batches():
    for kind in ("list", "large", "fixed"):
        erased = erase_arrow_batch(ERASER, _batch(kind).slice(2, 3), "emb")
        np.testing.assert_array_equal(
            np.array(erased["emb"].to_pylist(), np.float32), ERASER(X)[2:5]
        )


def test_tables_of_many_chunks_and_of_none():
    table = pa.Table.from_batches([_batch("list"), _batch("list")])
    erased = erase_arrow_batch(ERASER, table, "emb")
    assert isinstance(erased, pa.Table)
    np.testing.assert_array_equal(
        np.array(erased["emb"].to_pylist(), np.float32), np.vstack([ERASER(X), ERASER(X)])
    )
    empty = erase_arrow_batch(ERASER, table.slice(0, 0), "emb", reduce=True)
    assert empty.num_rows == 0
    assert empty.schema.names == table.schema.names


def test_number_columns_in_any_order():
    wide = pa.record_batch({f"e_{j}": X[:, j] for j in (2, 0, 3, 1)} | {"id": np.arange(6)})
    erased = erase_arrow_batch(ERASER, wide, "e_0,e_1,e_2,e_3")
    assert erased.schema == wide.schema
    found = np.stack([erased[f"e_{j}"].to_numpy() for j in range(D)], axis=1)
    np.testing.assert_array_equal(found, ERASER(X))


@pytest.mark.parametrize("features", [None, "e_*"])
def test_number_columns_are_taken_in_the_order_of_the_fit(features):
    fitted = Eraser(ERASER.maps, {"features": [f"e_{j}" for j in range(D)]})
    wide = pa.record_batch({f"e_{j}": X[:, j] for j in (2, 0, 3, 1)} | {"price": np.ones(6)})
    erased = erase_arrow_batch(fitted, wide, features)
    found = np.stack([erased[f"e_{j}"].to_numpy() for j in range(D)], axis=1)
    np.testing.assert_array_equal(found, ERASER(X))
    assert erased["price"].equals(wide["price"])


def test_reduced_number_columns_have_new_names():
    wide = pa.record_batch({"id": np.arange(6)} | {f"e_{j}": X[:, j] for j in range(D)})
    erased = erase_arrow_batch(ERASER, wide, "e_*", reduce=True)
    assert erased.schema.names == ["id", "reduced_0", "reduced_1"]
    np.testing.assert_array_equal(erased["reduced_1"].to_numpy(), ERASER.reduce(X)[:, 1])
    clash = pa.record_batch({"reduced_0": np.arange(6)} | {f"e_{j}": X[:, j] for j in range(D)})
    with pytest.raises(ValueError, match="would have the column 'reduced_0' twice"):
        erase_arrow_batch(ERASER, clash, "e_*", reduce=True)


@pytest.mark.parametrize(
    ("dtype", "kept"), [("f2", "f2"), ("f4", "f4"), ("f8", "f8"), ("i4", "f8"), ("u1", "f8")]
)
def test_floats_keep_their_precision_and_integers_become_doubles(dtype, kept):
    whole = np.abs(X * 9).astype(dtype)
    erased = erase_arrow_batch(ERASER, pa.record_batch({"emb": _vectors("fixed", whole)}), "emb")
    values = erased["emb"].flatten().to_numpy(zero_copy_only=False)
    assert values.dtype == kept
    np.testing.assert_array_equal(values.reshape(-1, D), ERASER(whole))


def test_schema_metadata_is_kept_unless_it_lies():
    schema = pa.schema(
        [pa.field(f"e_{j}", pa.float32(), metadata={"unit": "m"}) for j in range(D)],
        metadata={"pandas": "{}", "mine": "yes"},
    )
    same = erased_schema(schema, schema.names, ERASER, reduce=False)
    assert same.equals(schema, check_metadata=True)
    reduced = erased_schema(schema, schema.names, ERASER, reduce=True)
    assert reduced.metadata == {b"mine": b"yes"}


def test_an_oblique_eraser_reduces_to_its_rank():
    left = np.eye(D)[:, :1]
    eraser = Eraser((Oblique(left, left, np.zeros(D)),))
    assert width_out(eraser, reduce=True) == D - 1
    erased = erase_arrow_batch(eraser, _batch("fixed"), "emb", reduce=True)
    assert erased.schema.field("emb").type.list_size == D - 1


@given(
    n=st.integers(0, 12),
    kind=st.sampled_from(["list", "large", "fixed"]),
    reduce=st.booleans(),
    cut=st.integers(0, 12),
)
@settings(max_examples=40, deadline=None)
def test_erasing_pieces_is_erasing_the_whole(n, kind, reduce, cut):
    rows = np.random.default_rng(n).normal(size=(n, D))
    batch = pa.record_batch({"emb": _vectors(kind, rows)})
    whole = erase_arrow_batch(ERASER, batch, "emb", reduce=reduce)
    pieces = [erase_arrow_batch(ERASER, part, "emb", reduce=reduce)
              for part in (batch.slice(0, cut), batch.slice(cut))]  # fmt: skip
    together = pa.Table.from_batches(pieces)
    found = np.array(together["emb"].to_pylist(), dtype=float)
    np.testing.assert_allclose(found, np.array(whole["emb"].to_pylist(), dtype=float), rtol=1e-12)


# -- bad input ----------------------------------------------------------------------------------


def test_rows_of_another_width():
    with pytest.raises(
        ValueError, match=r"Got vectors of length 3 in x.npy, but expected rows of 4"
    ):
        erase_batch(ERASER, np.zeros((2, 3)), where="x.npy")
    with pytest.raises(ValueError, match=r"Got an array of shape \(4,\) in the batch"):
        erase_batch(ERASER, np.zeros(4))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_with_the_count_and_the_first_row(dtype, bad):
    rows = np.ones((5, D), dtype)
    rows[3, 1] = rows[4, 0] = bad
    message = r"Got 2 values of NaN or infinity in x\.npy \(the first in row 103\)"
    with pytest.raises(ValueError, match=message):
        erase_batch(ERASER, rows, where="x.npy", first_row=100)
    with pytest.raises(ValueError, match=message):
        erase_batch(ERASER, np.asfortranarray(rows), where="x.npy", first_row=100)


def test_huge_numbers_are_not_taken_for_infinity():
    rows = np.full((5, D), 1e30, np.float32)
    np.testing.assert_array_equal(erase_batch(ERASER, rows), ERASER(rows))


#: It makes the first of two equal numbers larger, by a fifth.
GROWS = Eraser.projection(np.array([[np.cos(np.pi / 8)], [np.sin(np.pi / 8)]]))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("reduce", [False, True])
def test_numbers_that_erasure_makes_infinite_are_named_by_their_row(dtype, reduce):
    rows = np.array([[1, 1], [0.7, 0.7], [1, 1]], dtype)
    rows[1:] *= np.finfo(dtype).max
    assert np.isfinite(erase_batch(GROWS, rows[:2], reduce=reduce)).all()
    with pytest.raises(ValueError, match=r"Got row 12 of x\.npy.* beyond .*float.*wider type"):
        erase_batch(GROWS, rows, reduce=reduce, where="x.npy", first_row=10)


def test_numbers_too_large_for_the_narrower_of_two_columns():
    wide = pa.record_batch({"a": np.array([1, 6e4], "f2"), "b": np.array([1, 6e4], "f8")})
    with pytest.raises(ValueError, match=r"Got row 1 of .*float16 \(6\.55e\+04\)"):
        erase_arrow_batch(GROWS, wide, "a,b")


def test_missing_columns_show_the_near_ones():
    with pytest.raises(ValueError, match=r"Got column 'embb', but the batch has .* mean 'emb'"):
        erase_arrow_batch(ERASER, _batch("list"), "embb")
