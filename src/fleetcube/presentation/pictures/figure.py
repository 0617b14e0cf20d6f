"""The figure of every picture. Imports matplotlib, so import it only when drawing."""

import io

from matplotlib.figure import Figure

_PIXELS = 100  # per inch, in a notebook


class Picture(Figure):
    """A figure that a notebook shows, although pyplot does not know it."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=2 * _PIXELS)  # for sharp screens
        across, up = (round(inches * _PIXELS) for inches in self.get_size_inches())
        return file.getvalue(), {"width": across, "height": up}
