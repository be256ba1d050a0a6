"""A file of an eraser loads as it was saved, or is refused by its name: nothing in between."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from unspot.eraser import Eraser, load
from unspot.lab.maps import Boundary, Fourier, FreeForm, Gaussianised, LayerNorm, Nystrom, Transport
from unspot.maps import (
    MAPS,
    Compress,
    Dense,
    Expand,
    Mixture,
    Normalise,
    Oblique,
    Projection,
    register_map,
)

RNG = np.random.default_rng(0)
BASIS = np.linalg.qr(RNG.normal(size=(5, 3)))[0]
X = RNG.normal(size=(4, 5))


def normal(*shape):
    return RNG.normal(size=shape)


ERASERS = {
    "projection": (Projection(BASIS),),
    "centred projection": (Projection(BASIS, normal(5)),),
    "oblique": (Oblique(normal(5, 2), normal(5, 2), normal(5)),),
    "compress, expand": (Compress(BASIS), Expand(BASIS)),
    "dense, layer_norm": (
        Dense(normal(5, 7), normal(7), relu=True),
        Dense(normal(7, 5), normal(5)),
        LayerNorm(5),
    ),
    "layer_norm": (LayerNorm(5, epsilon=1e-6),),
    "normalise": (Projection(BASIS), Normalise(5)),
    "nystrom": (Nystrom(normal(6, 5), normal(6, 4), 1.5),),
    "fourier": (Fourier(normal(5, 6), normal(6)),),
    "transport": (Transport(normal(3, 5), normal(3, 5, 5), normal(5, 3), normal(3)),),
    "transport by shifts": (Transport(normal(3, 5), None, normal(5, 3), normal(3)),),
    "free form": (
        FreeForm(coef=normal(5, 3), intercept=normal(3), left=normal(5, 3), centre=normal(3)),
    ),
    "free form by a network": (
        FreeForm(
            **{"coef": normal(5, 3), "intercept": normal(3)},
            **{"left": normal(5, 3), "centre": normal(3)},
            **{"hidden": normal(5, 4), "hidden_bias": normal(4), "hidden_coef": normal(4, 3)},
        ),
    ),
    "boundary": (
        Boundary(
            **{"coef": normal(5, 3), "intercept": normal(3), "damping": 0.5},
            **{"hidden": normal(5, 4), "hidden_bias": normal(4), "hidden_coef": normal(4, 3)},
        ),
    ),
    "gaussianised": (
        Gaussianised(
            **{"coef": normal(5, 3), "intercept": normal(3), "reach": 2.0, "shares": normal(3)},
            **{"centres": normal(2, 5), "rotations": normal(2, 5, 5)},
            knots=np.cumsum(normal(2, 3, 5, 4) ** 2, axis=-1),
        ),
    ),
    "mixture": (Mixture(normal(3, 4), normal(3, 5, 4), normal(5, 3), normal(3)),),
}
METADATA = {"method": "test", "classes": ["f", "m"], "n_features": 5}
ARRAYS = [
    (name, f"{i}.{field}")
    for name, maps in ERASERS.items()
    for i, m in enumerate(maps)
    for field in m.arrays()
]
VALUES = [
    (name, i, field)
    for name, maps in ERASERS.items()
    for i, m in enumerate(maps)
    for field in m.config()
]


class Saved:
    """A saved eraser, whose file can be changed in any way that safetensors allows."""

    def __init__(self, name, folder):
        self.eraser = Eraser(ERASERS[name], METADATA)
        self.path = folder / "some eraser.safetensors"
        self.eraser.save(self.path)
        with safe_open(self.path, framework="numpy") as file:
            self.header = file.metadata()
            self.arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118

    def write(self):
        save_file(self.arrays, self.path, self.header)

    def change_map(self, i, change):
        maps = json.loads(self.header["maps"])
        change(maps[i])
        self.header["maps"] = json.dumps(maps)

    def assert_refused(self, match=""):
        self.write()
        with pytest.raises(ValueError, match=match) as caught:
            load(self.path)
        assert str(caught.value).startswith(f"Got {str(self.path)!r}, ")

    def assert_same(self):
        self.write()
        loaded = load(self.path)
        np.testing.assert_array_equal(loaded(X), self.eraser(X))
        assert loaded.metadata == self.eraser.metadata


def test_every_map_is_here():
    assert {m.kind for maps in ERASERS.values() for m in maps} == set(MAPS)


@pytest.mark.parametrize("name", ERASERS)
def test_untouched_files_load(name, tmp_path):
    Saved(name, tmp_path).assert_same()


@pytest.mark.parametrize("name", ERASERS)
def test_files_that_do_not_list_their_arrays_load(name, tmp_path):
    """As those that were written before arrays were listed."""
    saved = Saved(name, tmp_path)
    del saved.header["arrays"], saved.header["digest"]
    saved.assert_same()


@pytest.mark.parametrize("name", ["cascade", "leace", "matching"])
def test_files_of_earlier_versions_load_and_erase_the_same(name, caplog):
    caplog.set_level("INFO", logger="unspot")
    folder = Path(__file__).parent / "old_files"
    expected = np.load(folder / "expected.npz")
    eraser = load(folder / f"{name}.safetensors")
    np.testing.assert_allclose(eraser(expected["rows"]), expected[name], rtol=1e-12, atol=1e-12)
    assert eraser.metadata["classes"] == ["a", "b"]
    assert f"{name}.safetensors has no digest" in caplog.text


def test_all_bits_that_may_flip(tmp_path):
    """In the numbers, the header and its length: one of them is another eraser, or none."""
    saved = Saved("centred projection", tmp_path)
    content = saved.path.read_bytes()
    for i in range(len(content)):
        for bit in (1 << i % 8, 1 << (i + 3) % 8):
            saved.path.write_bytes(content[:i] + bytes([content[i] ^ bit]) + content[i + 1 :])
            with pytest.raises(ValueError, match=r"[Ee]xpected|Copy the file again") as caught:
                load(saved.path)
            assert str(saved.path) in str(caught.value)
    saved.path.write_bytes(content)
    assert load(saved.path)


@pytest.mark.parametrize(("name", "array"), ARRAYS)
def test_the_lowest_bit_of_a_number(name, array, tmp_path):
    """Which gives a sound eraser, but not the one that was saved."""
    saved = Saved(name, tmp_path)
    saved.arrays[array].view(np.uint64).flat[-1] ^= 1
    saved.assert_refused("its content does not match its digest.*Copy the file again")


def test_a_digest_that_is_lost_by_a_damaged_name(tmp_path):
    saved = Saved("projection", tmp_path)
    saved.header["digess"] = saved.header.pop("digest")
    saved.assert_refused("has an unknown entry 'digess' in its header")


@pytest.mark.parametrize("name", ERASERS)
def test_the_same_eraser_gives_the_same_bytes(name, tmp_path):
    path = tmp_path / "e.safetensors"
    contents = set()
    for _ in range(10):
        Eraser(ERASERS[name], METADATA).save(path)
        contents.add(path.read_bytes())
    load(path).save(path)
    assert contents == {path.read_bytes()}


def test_arrays_without_numbers(tmp_path):
    """A concept may take all directions: nothing is left."""
    Eraser.projection(np.zeros((5, 0))).save(tmp_path / "e.safetensors")
    assert load(tmp_path / "e.safetensors").rank == 0


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("features", None, "a list of texts"),
        ("versions", None, "an object"),
        ("parameters", [], "an object"),
        ("known_rows", [{}], "a list of texts"),
        ("concept_name", {}, "a text"),
        ("n_rows", True, "a count"),
        ("class_counts", [1, 2, 3], "2"),
        ("selection", {"rank": 2, "tried": {}}, "an object with rule"),
    ],
)
def test_facts_of_another_type(name, value, expected, tmp_path):
    saved = Saved("projection", tmp_path)
    saved.header["metadata"] = json.dumps({**METADATA, name: value})
    saved.assert_refused(f"metadata with {name}.*, but expected {expected}")
    with pytest.raises(ValueError, match=f"metadata with {name}.*, but expected {expected}"):
        Eraser(ERASERS["projection"], {**METADATA, name: value}).save(tmp_path / "new.safetensors")
    assert not (tmp_path / "new.safetensors").exists()


def test_a_fact_of_an_inner_eraser(tmp_path):
    saved = Saved("projection", tmp_path)
    saved.header["metadata"] = json.dumps({"inner": {"inner": {"parameters": []}}})
    saved.assert_refused("metadata with inner.inner.parameters=a list, but expected an object")
    deep: dict[str, object] = {}
    for _ in range(50):
        deep = {"inner": deep}
    saved.header["metadata"] = json.dumps(deep)
    saved.assert_refused("more than 10 erasers inside each other")


@pytest.mark.parametrize(("name", "array"), ARRAYS)
def test_a_lost_array(name, array, tmp_path):
    saved = Saved(name, tmp_path)
    del saved.arrays[array]
    saved.assert_refused(f"has no array '{array}', but names it in its header.*Copy the file again")


def other_shapes(array):
    """The array in every near shape: cut, stretched, turned, flat, with an axis more or less."""
    yield from (array[..., None], array[None], array.reshape(-1)[:1], array.reshape(-1)[0], array.T)
    yield array.reshape(-1)
    for axis in range(array.ndim):
        yield np.take(array, range(array.shape[axis] - 1), axis)
        yield np.take(array, [0], axis)
        yield np.take(array, [], axis)
        yield np.concatenate([array, np.take(array, [0], axis)], axis)


@pytest.mark.parametrize(("name", "array"), ARRAYS)
def test_an_array_of_another_shape(name, array, tmp_path):
    saved = Saved(name, tmp_path)
    original = saved.arrays[array]
    for other in other_shapes(original):
        if other.shape != original.shape:
            saved.arrays[array] = np.ascontiguousarray(other).reshape(other.shape)
            saved.assert_refused(
                rf"has an array '{array}' of 'float64 \[.*\]', but says 'float64 \["
            )


@pytest.mark.parametrize(("name", "array"), ARRAYS)
def test_an_array_of_other_axes_in_a_file_that_does_not_list_them(name, array, tmp_path):
    """Where the arrays' own axes are all there is to tell."""
    saved = Saved(name, tmp_path)
    del saved.header["arrays"]
    original = saved.arrays[array]
    for other in (original[..., None], original.reshape(-1)[0]):
        saved.arrays[array] = np.ascontiguousarray(other).reshape(other.shape)
        saved.assert_refused(r"has in its map \d, \w+, \w+ of shape \(.*\), but expected \(")


@pytest.mark.parametrize(
    ("name", "array", "shape", "expected"),
    [
        ("centred projection", "0.mean", (1,), r"\(5\)"),
        ("oblique", "0.mean", (1,), r"\(5\)"),
        ("oblique", "0.right", (5, 1), r"\(5, 2\)"),
        ("dense, layer_norm", "0.bias", (1,), r"\(7\)"),
        ("nystrom", "0.whitening", (1, 4), r"\(6, 4\)"),
        ("transport", "0.matrices", (3, 5, 1), r"\(3, 5, 5\)"),
        ("transport", "0.coef", (5, 2), r"\(5, 3\)"),
        ("transport", "0.intercept", (1,), r"\(3\)"),
    ],
)
def test_arrays_that_do_not_fit_each_other(name, array, shape, expected, tmp_path):
    """Most of these would be stretched to fit, without a word."""
    saved = Saved(name, tmp_path)
    del saved.header["arrays"]
    saved.arrays[array] = np.ones(shape)
    saved.assert_refused(f"of shape .*, but expected {expected}")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("name", "array"), ARRAYS)
def test_an_array_with_something_that_is_no_number(name, array, bad, tmp_path):
    saved = Saved(name, tmp_path)
    saved.arrays[array].flat[-1] = bad
    saved.assert_refused(rf"NaN or infinity in {array[2:]}\.")


def test_arrays_of_another_type(tmp_path):
    saved = Saved("projection", tmp_path)
    saved.arrays["0.U"] = BASIS.astype(np.float32)
    saved.assert_refused(r"'0.U' of 'float32 \[5, 3\]', but says 'float64 \[5, 3\]' in its")
    del saved.header["arrays"]
    saved.arrays["0.U"] = BASIS.astype(np.complex64)
    saved.assert_refused("U of dtype complex64, but expected numbers")


def test_arrays_of_a_type_that_numpy_has_not(tmp_path):
    import torch
    from safetensors.torch import save_file

    saved = Saved("projection", tmp_path)
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        save_file({"0.U": torch.ones(5, 3).to(dtype)}, saved.path, saved.header)
        # Some packages teach numpy these types; then it is one that the header does not say.
        message = "which has an array '0.U' of (type B?F.*, which numpy lacks|.*, but says)"
        with pytest.raises(ValueError, match=message):
            load(saved.path)


@pytest.mark.parametrize("name", ERASERS)
@pytest.mark.parametrize("array", ["0.extra", "9.U", "extra", "00.U", "0.U.U"])
def test_an_array_too_many(name, array, tmp_path):
    saved = Saved(name, tmp_path)
    saved.arrays[array] = np.ones(5)
    saved.assert_refused(f"has an array '{array}', but does not name it in its header")
    del saved.header["arrays"]
    saved.assert_refused(f"has an array '{array}' that belongs to none of its maps")


def test_an_array_too_many_that_the_map_could_use(tmp_path):
    saved = Saved("projection", tmp_path)
    saved.arrays["0.mean"] = np.ones(5)
    saved.assert_refused("has an array '0.mean', but does not name it in its header")


@pytest.mark.parametrize("entry", ["maps", "metadata"])
def test_a_lost_entry_of_the_header(entry, tmp_path):
    saved = Saved("projection", tmp_path)
    del saved.header[entry]
    saved.assert_refused(f"has no entry '{entry}' in its header")


@pytest.mark.parametrize("version", ["unspot/2", "unspot/10", "unspot", "", None])
def test_another_format(version, tmp_path):
    saved = Saved("projection", tmp_path)
    del saved.header["format"]
    if version is not None:
        saved.header["format"] = version
    saved.assert_refused("format is .*expected format 'unspot/1'.*a newer version?")


@pytest.mark.parametrize("name", ERASERS)
@pytest.mark.parametrize("entry", ["maps", "arrays", "metadata"])
@pytest.mark.parametrize("text", ["", "null", "5", '"text"', "{", "1" * 5000, "[" * 100_000])
def test_an_entry_of_the_header_that_is_something_else(name, entry, text, tmp_path):
    saved = Saved(name, tmp_path)
    saved.header[entry] = text
    saved.assert_refused(f"has an entry '{entry}' in its header that is not a JSON (list|object)")


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ("[]", "belongs to none of its maps"),
        ("[null]", "a map 0 without a kind"),
        ("[[]]", "a map 0 without a kind"),
        ("[{}]", "a map 0 without a kind"),
        ('[{"kind": 5}]', "a map 0 without a kind"),
        ('[{"kind": ["projection"]}]', "a map 0 without a kind"),
        ('[{"kind": "teleport"}]', "kind 'teleport', but this version knows boundary, compress"),
        ('[{"kind": "oblique"}]', "has no left in its map 0, oblique"),
        ('[{"kind": "projection", "extra": 1}]', "an unknown entry 'extra' in its map 0"),
        ('[{"kind": "projection", "mean": [0]}]', "an unknown entry 'mean' in its map 0"),
        ('[{"kind": "projection", "U": [[1]]}]', "an unknown entry 'U' in its map 0"),
        ('[{"kind": "projection"}, {"kind": "expand"}]', "has no U in its map 1, expand"),
    ],
)
def test_other_maps(maps, message, tmp_path):
    saved = Saved("projection", tmp_path)
    saved.header["maps"] = maps
    saved.assert_refused(message)


def test_a_file_without_maps_and_arrays(tmp_path):
    saved = Saved("layer_norm", tmp_path)
    saved.header["maps"] = "[]"
    saved.assert_refused("has no maps, .* at least one")


def test_maps_that_do_not_follow_each_other(tmp_path):
    saved = Saved("dense, layer_norm", tmp_path)
    saved.change_map(2, lambda m: m.update(width=6))
    saved.assert_refused("has a map of 5 outputs followed by one of 6 inputs")


@pytest.mark.parametrize("said", [6, "5", None, [5], -1])
def test_features_that_differ_from_the_metadata(said, tmp_path):
    saved = Saved("layer_norm", tmp_path)
    saved.header["metadata"] = json.dumps({**METADATA, "n_features": said})
    saved.assert_refused(r"metadata with n_features=.*, but maps of 5 features")


@pytest.mark.parametrize(("name", "i", "field"), VALUES)
def test_a_lost_value_is_not_replaced_by_its_default(name, i, field, tmp_path):
    saved = Saved(name, tmp_path)
    saved.change_map(i, lambda m: m.pop(field))
    saved.assert_refused(f"has no {field} in its map {i}")


@pytest.mark.parametrize(("name", "i", "field"), VALUES)
@pytest.mark.parametrize(
    "value",
    [None, "1", [], {}, -1, float("nan"), float("inf"), 10**400],
    ids=["null", "text", "list", "object", "negative", "nan", "inf", "larger-than-floats"],
)
def test_a_value_that_is_no_such_thing(name, i, field, value, tmp_path):
    saved = Saved(name, tmp_path)
    saved.change_map(i, lambda m: m.update({field: value}))
    saved.assert_refused(f"{field}=.*, but expected|5 outputs followed by|n_features=5, but maps")


@pytest.mark.parametrize(
    ("name", "field", "value", "expected"),
    [
        ("dense, layer_norm", "relu", 1, "true or false"),
        ("layer_norm", "width", True, "an integer"),
        ("layer_norm", "width", 5.0, "an integer"),
        ("layer_norm", "width", 0, "at least 1"),
        ("layer_norm", "epsilon", True, "a finite number"),
        ("nystrom", "bandwidth", 0, "more than 0"),
        ("nystrom", "bandwidth", True, "a finite number"),
    ],
)
def test_values_that_python_would_take(name, field, value, expected, tmp_path):
    saved = Saved(name, tmp_path)
    saved.change_map(0, lambda m: m.update({field: value}))
    saved.assert_refused(rf"map 0, \w+, {field}={value!r}, but expected {expected}")


def test_an_integer_stands_for_a_float(tmp_path):
    eraser = Eraser((Nystrom(normal(6, 5), normal(6, 4), 2), LayerNorm(4, epsilon=0)))
    eraser.save(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "e.safetensors")(X), eraser(X))


def test_half_a_predictor(tmp_path):
    for array in ("0.coef", "0.intercept"):
        saved = Saved("transport", tmp_path)
        del saved.header["arrays"], saved.arrays[array]
        saved.assert_refused("one of coef and intercept, but expected both or neither")


def test_any_byte_of_the_header_may_be_another(tmp_path):
    """Whatever it becomes, it is a ValueError that names the file."""
    saved = Saved("dense, layer_norm", tmp_path)
    content = saved.path.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    refused = 0
    for i in range(end):
        saved.path.write_bytes(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
        try:
            load(saved.path)
        except ValueError as error:
            assert str(saved.path) in str(error)  # noqa: PT017
            refused += 1
    assert refused == end


@pytest.mark.parametrize("name", ERASERS)
def test_a_file_that_was_cut(name, tmp_path):
    saved = Saved(name, tmp_path)
    content = saved.path.read_bytes()
    for length in (0, 7, 8, len(content) // 2, len(content) - 1):
        saved.path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"some eraser\.safetensors', which is not a readable"):
            load(saved.path)


def test_other_files_are_refused_before_their_arrays_are_read(tmp_path):
    """Someone else's file may be a model of many gigabytes."""
    path = tmp_path / "model.safetensors"
    save_file({"weight": np.ones((1000, 1000))}, path, {"format": "pt"})
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(ValueError, match="unspot did not write"):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000  # the array has eight


def test_a_new_map_says_the_shapes_of_its_arrays():
    from dataclasses import dataclass

    from unspot.maps import Map

    with pytest.raises(TypeError, match=r"Got the map Turn with arrays \['W'\], but expected"):

        @register_map
        @dataclass(frozen=True, eq=False)
        class Turn(Map):
            kind = "turn"
            W: np.ndarray

    assert "turn" not in MAPS
