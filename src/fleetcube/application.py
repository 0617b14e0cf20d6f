"""Functions that the engine calls for training jobs; the physics' graph names this module.

`grid/spec/application.py` documents each.
"""

from collections.abc import Mapping
from os import PathLike
from typing import Any

from fleetcube.kernels.physics.roles import WHOLES
from fleetcube.scenario import auto
from fleetcube.scenario.auto import FACTOR as INTERVAL
from fleetcube.scenario.auto import check_inferred, inferring_columns
from fleetcube.scenario.citations import citation_keys
from fleetcube.scenario.patterns import NAME as PATTERN
from fleetcube.scenario.patterns import choice, spelled_axis, spelled_rows
from fleetcube.scenario.reading import resolve, result_scenario
from fleetcube.scenario.remarks import defaults, remarks, unstated
from fleetcube.scenario.user_records import NAME, add_user_records, label_of, record_names

TEXT_AXES = (PATTERN,)
TEXT_LISTS = (NAME,)
INFERRED_FROM = (auto.POWER,)
# They void totals, or imply no calibration
AFFECTING = auto.COMPUTE.union(*WHOLES.values())
_ROLES = ("failures", "learning", "model", "run")
_SCENARIO = (
    *("auto", "framework", "hardware", "user_records", "patterns", "phases", "precedence"),
    *("counts", "policies", "reading", "remarks"),
)
CODE = (
    *("kernels.physics.graph", "kernels.physics.roles"),
    *(f"kernels.physics.{topic}.roles" for topic in _ROLES),
    *(f"scenario.{module}" for module in _SCENARIO),
)


def read_spec(path: str | PathLike[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a spec, a model's config.json or a framework's file."""
    from fleetcube.formats.read import read_spec  # every framework's reader, and yaml

    return read_spec(path, inputs)
