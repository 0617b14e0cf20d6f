"""Colours of parts differ in grey and for colour-blind eyes."""

import itertools

import numpy as np
import pytest

from fleetcube.tables import theme

# sRGB to XYZ (IEC 61966-2-1), and Machado, Oliveira & Fernandes 2009, table 1, severity 1
_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_WHITE = np.array([0.9505, 1.0, 1.089])
_EYES = {
    "usual": np.eye(3),
    "red-blind": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "green-blind": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
}


def _linear(colour):
    text = colour.removeprefix("#")
    text = "".join(2 * c for c in text) if len(text) == 3 else text
    value = np.array([int(text[k : k + 2], 16) for k in (0, 2, 4)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _lab(linear):
    ratio = _XYZ @ linear / _WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_parts_get_lighter():
    lightness = [_lab(_linear(colour))[0] for colour in theme.PARTS]
    assert min(np.diff(lightness)) >= 7


@pytest.mark.parametrize("eyes", _EYES)
def test_parts_differ(eyes):
    seen = [_lab(np.clip(_EYES[eyes] @ _linear(colour), 0, 1)) for colour in theme.PARTS]
    distances = [np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)]
    assert min(distances) >= 20
