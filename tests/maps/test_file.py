"""A file of an eraser loads as it was saved, or is refused by its name: nothing in between."""

from __future__ import annotations

import json
import struct

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
    Scale,
    register_map,
)
from unspot.maps.file import _digest, packed

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
    "expand to a mean": (Compress(BASIS), Expand(BASIS, normal(5))),
    "scale": (Scale(normal(5)),),
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


@pytest.mark.parametrize("entry", ["maps", "metadata", "digest"])
def test_a_lost_entry_of_the_header(entry, tmp_path):
    saved = Saved("projection", tmp_path)
    saved.header[f"{entry[:-1]}x"] = saved.header.pop(entry)
    saved.assert_refused("its content does not match its digest")


@pytest.mark.parametrize(("name", "array"), ARRAYS)
def test_an_array_that_is_lost_added_or_has_another_shape(name, array, tmp_path):
    saved = Saved(name, tmp_path)
    original = saved.arrays.pop(array)
    saved.assert_refused("its content does not match its digest")
    saved.arrays |= {array: original, "9.U": original}
    saved.assert_refused("its content does not match its digest")
    del saved.arrays["9.U"]
    saved.arrays[array] = np.ascontiguousarray(original[..., None])
    saved.assert_refused("its content does not match its digest")


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
        ("features", None, "list"),
        ("versions", None, "dict"),
        ("parameters", [], "dict"),
        ("known_rows", [{}], "str"),
        ("concept_name", {}, "str"),
        ("n_rows", True, "int"),
        ("class_counts", [1, 2, 3], "2"),
        ("selection", {"rank": 2, "tried": {}}, "Selection"),
        ("selection", {"criterion": "a", "rank": 2, "tried": {"3": 0.1}}, "one of those tried"),
    ],
)
def test_facts_of_another_type(name, value, expected, tmp_path):
    with pytest.raises(ValueError, match=f"metadata in which {name}.*, but expected {expected}"):
        Eraser(ERASERS["projection"], {**METADATA, name: value}).save(tmp_path / "new.safetensors")
    assert not (tmp_path / "new.safetensors").exists()


def test_a_fact_of_an_inner_eraser():
    maps = ERASERS["projection"]
    with pytest.raises(ValueError, match=r"inner\.inner\.parameters is \[\], but expected dict"):
        packed(maps, {"inner": {"inner": {"parameters": []}}})
    with pytest.raises(ValueError, match="class_counts has 1 entries for 2 classes"):
        packed(maps, {"inner": {"classes": ["f", "m"], "class_counts": [3]}})


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.ones(1), r"mean of shape \(1,\), but expected \(5\)"),
        (np.full(5, np.nan), "NaN or infinity in mean"),
        (np.array(list("abcde")), "mean of dtype <U1, but expected numbers"),
    ],
)
def test_an_eraser_that_cannot_work_is_not_saved(array, expected, tmp_path):
    eraser = Eraser((Projection(BASIS, array),))
    with pytest.raises(ValueError, match=expected):
        eraser.save(tmp_path / "e.safetensors")
    assert not list(tmp_path.iterdir())


def test_arrays_of_a_type_that_numpy_has_not(tmp_path):
    import torch
    from safetensors.torch import save_file

    saved = Saved("projection", tmp_path)
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        save_file({"0.U": torch.ones(5, 3).to(dtype)}, saved.path, saved.header)
        # Some packages teach numpy these types; then the digest tells.
        with pytest.raises(ValueError, match=r"not a readable|does not match its digest"):
            load(saved.path)


@pytest.mark.parametrize("version", ["unspot/2", "unspot/10", "unspot", "", None])
def test_another_format(version, tmp_path):
    saved = Saved("projection", tmp_path)
    del saved.header["format"]
    if version is not None:
        saved.header["format"] = version
    saved.assert_refused("format is .*expected format 'unspot/1'.*a newer version?")


@pytest.mark.parametrize(
    ("maps", "message"),
    [
        ([], "no maps, but an eraser has at least one"),
        ([{"kind": "teleport"}], "kind 'teleport', but this version.*Update unspot"),
        ([{"kind": "projection", "extra": 1}], "map 0, projection, has other fields.*'extra'"),
        ([{"kind": "projection"}] * 2, "map 1, projection, has other fields.*'U'"),
        ([{"kind": "layer_norm", "width": 5}, {"kind": "layer_norm", "width": 6}], "5 outputs"),
    ],
)
def test_maps_of_another_version(maps, message, tmp_path):
    saved = Saved("projection", tmp_path)
    saved.header["maps"] = json.dumps(maps)
    if maps and maps[0]["kind"] == "layer_norm":
        saved.arrays.clear()
    saved.header["digest"] = _digest(saved.header, saved.arrays)
    saved.assert_refused(message)


def test_an_integer_stands_for_a_float(tmp_path):
    eraser = Eraser((Nystrom(normal(6, 5), normal(6, 4), 2), LayerNorm(4, epsilon=0)))
    eraser.save(tmp_path / "e.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "e.safetensors")(X), eraser(X))


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
