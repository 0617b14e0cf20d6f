"""The site: `make docs`. It needs no network."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ.pop("MPLBACKEND", None)  # notebooks show their pictures

project = "fleetcube"
extensions = ["myst_nb", "_reference", "_schema"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "fleetcube"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_use_index = False

myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True
