"""The site: `make docs`. It needs no network."""

import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from docutils import nodes

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ.pop("MPLBACKEND", None)  # notebooks show their pictures

project = "fleetcube"
release = version = metadata.version(project)
extensions = [
    "_docstrings",
    "_reference",
    "_schema",
    "myst_nb",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
]
# Cards that others show of a page hold the site's address: without one there are none
if address := os.environ.get("READTHEDOCS_CANONICAL_URL"):
    extensions.append("sphinxext.opengraph")
    html_baseurl = ogp_site_url = address
    ogp_description_length = 160
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"{project} {release}"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_favicon = "_static/favicon.svg"
html_use_index = False

add_module_names = False
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_default_options = {"member-order": "bysource"}
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_preprocess_types = False
python_maximum_signature_line_length = 80
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"
# The names that our pages link to, as the text that Sphinx reads: nothing is fetched
intersphinx_mapping = {
    name: (address, str(HERE / "inventories" / f"{name}.txt"))
    for name, address in {
        "python": "https://docs.python.org/3",
        "numpy": "https://numpy.org/doc/stable",
        "xarray": "https://docs.xarray.dev/en/stable",
    }.items()
}

myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True


def setup(app: Any) -> None:
    """Leave pages of decisions out of the site's search, which finds their titles and the table;
    show pictures in the page's theme."""
    app.connect("doctree-read", _unsearched)
    app.connect("doctree-read", _themed, priority=400)  # before images are collected


def _themed(app: Any, tree: Any) -> None:
    folder = Path(app.env.doc2path(app.env.docname)).parent
    for image in [*tree.findall(nodes.image)]:
        dark = image["uri"].removesuffix(".png") + ".dark.webp"
        if (folder / dark).exists():
            image["classes"].append("only-light")
            other = image.deepcopy()
            other["uri"], other["classes"] = dark, ["only-dark"]
            image.parent.insert(image.parent.index(image) + 1, other)


def _unsearched(app: Any, _: Any) -> None:
    if app.env.docname.startswith("decisions/0"):
        app.env.metadata[app.env.docname]["nosearch"] = True
