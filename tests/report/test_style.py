"""Colours by numbers: contrast as WCAG defines it, and confusion without colour vision."""

import numpy as np
import pytest

from unspot.report.style import (
    CLASS_COLOURS,
    METHOD_COLOURS,
    SHAPES,
    THEME,
    mark_slot,
    method_slot,
)

# Machado et al. (2009), severity 1, on linear RGB.
DEUTERANOPIA = [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
]
PROTANOPIA = [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
]


def linear(colour):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    light = sorted((linear(c) @ [0.2126, 0.7152, 0.0722] for c in (one, other)), reverse=True)
    return (light[0] + 0.05) / (light[1] + 0.05)


def lab(rgb):
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ np.clip(rgb, 0, 1)
    x, y, z = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("name", ["ink", "soft", "link", "good", "bad", "unsure"])
def test_text_is_readable(name, theme):
    grounds = ["page", "card", *([f"{name}-wash"] if f"{name}-wash" in THEME else [])]
    for ground in grounds:
        assert contrast(THEME[name][theme], THEME[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1])
def test_marks_are_visible(theme):
    for pair in CLASS_COLOURS + METHOD_COLOURS:
        assert contrast(pair[theme], THEME["page"][theme]) >= 3


@pytest.mark.parametrize("theme", [0, 1])
@pytest.mark.parametrize("vision", [np.eye(3), DEUTERANOPIA, PROTANOPIA])
def test_the_first_classes_differ_to_every_eye(theme, vision):
    seen = [lab(np.array(vision) @ linear(pair[theme])) for pair in CLASS_COLOURS[:3]]
    for i in range(3):
        for j in range(i):
            assert np.linalg.norm(seen[i] - seen[j]) > 15


def test_the_first_classes_and_methods_differ_by_shape():
    assert len(set(SHAPES)) == len(SHAPES) >= 7


def test_many_methods_have_a_colour_and_a_mark_of_their_own():
    """Seven colours take turns; the mark changes with every turn."""
    pairs = [(method_slot(i), mark_slot(i)) for i in range(1, 50)]
    assert len(set(pairs)) == 49
    assert all(0 < colour < len(METHOD_COLOURS) for colour, _ in pairs)
    assert (method_slot(0), mark_slot(0)) == (0, 0)
