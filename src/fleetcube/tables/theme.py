"""Colours of every picture and page.

Parts of a whole are ordered by luminance, at least 7 of CIE lightness apart, so that they differ in
grey; simulated red- and green-blindness leaves them at least 20 apart in CIELAB
(tests/grid/test_theme.py).
"""

PARTS = ("#3b1f5b", "#1f4e9e", "#b3401c", "#0b8a6f", "#d9822b", "#6fb7e8", "#f2cf4a", "#e9edf1")
# Okabe & Ito's colours of lines and dots, without yellow, which is too faint
LINES = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#000000")
GREY = "#d9d9d9"  # of points that cannot run

# Of pages: better is blue and worse is orange, which all eyes tell apart
_LIGHT = {
    "ink": "#1c2430",
    "soft": "#596270",
    "line": "#d5dae1",
    "frame": "#7a8492",
    "paper": "#fff",
    "back": "#f5f6f8",
    "over": "#eef2f6",
    "blue": "#0a5a9c",
    "orange": "#a04a00",
    "band": "#0a5a9c33",
    "none": GREY,
}
_DARK = {
    "ink": "#e8ebef",
    "soft": "#a9b3c0",
    "line": "#3a4450",
    "frame": "#7d8896",
    "paper": "#1b222b",
    "back": "#12171e",
    "over": "#2a3442",
    "blue": "#6cb4f0",
    "orange": "#f0a35e",
    "band": "#6cb4f033",
    "none": "#4a525d",
}


def css() -> str:
    """The colours as custom properties of a style sheet; a dark screen prints in light ones."""
    light, dark = (
        " ".join(f"--{name}: {colour};" for name, colour in colours.items())
        for colours in (_LIGHT, _DARK)
    )
    parts = "".join(
        f".c{k} {{ fill: {colour}; background: {colour}; }}\n" for k, colour in enumerate(PARTS)
    )
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"
        f"{parts}"
    )
