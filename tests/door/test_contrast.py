"""Contrast of the pages' colours, from their style sheets: WCAG 2.2, 1.4.3 and 1.4.11."""

import re
from itertools import product
from pathlib import Path

import pytest

from fleetcube.presentation.page.page import css

ROOMS = Path(__file__).parents[2] / "src" / "fleetcube"
SHEETS = [ROOMS / "presentation" / "page" / "live.css"]
AREAS = {"blue", "orange", "frame", "none"}  # of bars and keys, without text
TEXT, PART = 4.5, 3.0  # least ratio of text, and of controls and parts of pictures
Colour = tuple[float, float, float]


def colour(text: str) -> Colour:
    """A colour of a sheet; a translucent one over white, the worst for the white text on it."""
    if text.startswith("rgb("):
        *parts, share = re.findall(r"[\d.]+", text)
        alpha = float(share) / 100
        red, green, blue = (float(part) / 255 * alpha + 1 - alpha for part in parts)
        return red, green, blue
    digits = text.lstrip("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    red, green, blue = (int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4))
    return red, green, blue


def luminance(of: Colour) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in of]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(colour(one)), luminance(colour(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def schemes(sheet: str) -> list[dict[str, str]]:
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w+);", block))
        for block in re.findall(r":root \{([^}]*)\}", sheet)[:2]  # and forced colours
    )
    return [light, {**light, **dark}]


def used(sheet: str, what: str) -> set[str]:
    """Variables that a property takes anywhere."""
    return set(re.findall(rf"(?<![-\w]){what}: (?:[^;]* )?var\(--(\w+)\)", sheet))


def test_contrast_is_computed_as_it_is_defined() -> None:
    assert contrast("#fff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.005)  # a known near miss


@pytest.mark.parametrize("path", SHEETS, ids=[path.name for path in SHEETS])
def test_text_and_controls_stand_out_in_both_schemes(path: Path) -> None:
    sheet = css() + path.read_text(encoding="utf-8")
    grounds = used(sheet, "background") - AREAS
    inks = used(sheet, "color") | used(sheet, "fill") - {"band", "none", "paper"}
    assert {"ink", "soft"} <= inks
    assert {"paper"} <= grounds
    for scheme in schemes(sheet):
        for ink, ground in product(inks, grounds):
            found = contrast(scheme[ink], scheme[ground])
            assert found >= TEXT, f"{ink} on {ground} in {path.name}: {found:.2f}"
        for part, ground in product({"frame", "blue", "orange"} & scheme.keys(), grounds):
            found = contrast(scheme[part], scheme[ground])
            assert found >= PART, f"{part} on {ground} in {path.name}: {found:.2f}"


@pytest.mark.parametrize("path", SHEETS, ids=[path.name for path in SHEETS])
def test_rules_with_both_colours_of_their_own_stand_out(path: Path) -> None:
    sheet = css() + path.read_text(encoding="utf-8")
    own = re.compile(r"(?<![-\w])color: (#\w+); background: (#\w+|rgb\([^)]*\));")
    pairs = own.findall(sheet)
    assert pairs
    head = re.search(r"header \{[^}]*background: (#\w+)", sheet)
    assert head
    pairs += [
        (ink, head[1]) for ink in re.findall(r"(?:#status|header p) \{[^}]*color: (#\w+)", sheet)
    ]
    for ink, ground in pairs:
        assert contrast(ink, ground) >= TEXT, (ink, ground)


@pytest.mark.parametrize("path", SHEETS, ids=[path.name for path in SHEETS])
def test_nothing_moves_and_focus_is_seen(path: Path) -> None:
    sheet = css() + path.read_text(encoding="utf-8")
    assert not re.search(r"transition|animation|scroll-behavior", sheet)
    assert ":focus-visible { outline: 2px solid var(--blue)" in sheet
    assert "outline: none" not in sheet
    assert "forced-colors: active" in sheet
