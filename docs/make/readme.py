"""Numbers in README.md that follow from the code and its data: counts and errors."""

import re

from fleetcube.calibration.measurements import read_records
from fleetcube.catalog import NONE, kind
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from .accuracy import own
from .claims.conflicts import DOCUMENTS
from .text import ROOT

PAGE = ROOT / "README.md"


def phrases() -> dict[str, tuple[str, ...]]:
    """Phrases of the README, a {} for each number, and the numbers."""
    groups = own().groups
    steps = {group.group: group for group in groups if group.of == "step_time"}
    fitted = {row.group for row in read_records()[0] if row.inputs.get("calibration", NONE) != NONE}
    several = [group for group in steps.values() if group.n > 1]
    medians = [group.median_percent for group in several if group.group in fitted]
    others = [group.median_percent for group in several if group.group not in fitted]
    memory = max(group.mean_percent for group in groups if "memory" in group.of)
    (nccl,) = [group.median_percent for group in groups if group.group == "nccl_allreduce"]
    kinds = {name: str(len(kind(name))) for name in ("gpu", "node", "fabric", "model")}
    return {
        "{} quantities from {} inputs": (str(len(PHYSICS.quantities)), str(len(INPUTS))),
        "{} accelerators, {} nodes, {} fabrics, {} models": tuple(kinds.values()),
        "{} calibrations": (str(len(kind("calibration"))),),
        "predicts {} published measurements": (f"{len(own().rows):,}",),
        "step time is off by {} to {} %": (f"{min(others):.0f}", f"{max(others):.0f}"),
        "and by {} to {} % with one": (f"{min(medians):.0f}", f"{max(medians):.0f}"),
        "memory is within {} %": (f"{memory:.1f}",),
        "all-reduces within {} %": (f"{nccl:.0f}",),
        "recomputes {} claims": (str(sum(len(document.claims) for document in DOCUMENTS)),),
    }


def page() -> str:
    text = PAGE.read_text(encoding="utf-8")
    for phrase, numbers in phrases().items():
        words = [re.escape(part).replace(r"\ ", r"\s+") for part in phrase.split("{}")]
        (place,) = re.finditer(r"([\d.,]+)".join(words), text)
        for k in reversed(range(len(numbers))):
            start, end = place.span(k + 1)
            text = text[:start] + numbers[k] + text[end:]
    return text
