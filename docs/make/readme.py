"""Numbers in README.md that follow from the code and its data: counts and errors."""

import re

from fleetcube import Sweep
from fleetcube.calibration.measurements import read_records
from fleetcube.catalog import NONE, kind
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from .accuracy import own
from .claims.conflicts import DOCUMENTS
from .text import DOCS, ROOT

PAGE = ROOT / "README.md"
EXAMPLE = ROOT / "examples" / "scaling-and-reliability.toml"


def losses() -> tuple[str, ...]:
    """The tutorial's ratios of communication to reliability, and sizes at which both are equal."""
    text = (DOCS / "start" / "tutorial.md").read_text(encoding="utf-8")
    ratios = dict(re.findall(r"^ *([\d,]+)(?: +[\d.]+){2} +([\d.]+)$", text, re.MULTILINE))
    sizes = {
        row[0]: float(row[1].replace(",", ""))
        for row in re.findall(r"^ +([\d,]+  pp\d) +([\d,]+)  ", text, re.MULTILINE)
    }
    times = [f"{1 / float(ratios[size]):.2g}" for size in ("1,024", "4,096", "16,384")]
    return (*times, *(f"{round(sizes[row], -2):,.0f}" for row in ("10,000  pp1", "50,000  pp8")))


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
    question = Sweep.from_file(EXAMPLE).virtual()["job_time"]
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
        "8 to {} GPUs, {} million points": (
            f"{question.n_gpus.max():,}",
            f"{question.size / 1e6:.1f}",
        ),
        "{} times as much at 1,024 GPUs, {} times at 4,096, {} times at 16,384. Failures overtake "
        "it from about {} GPUs if a GPU lasts only 10,000 hours, and from about {} with": losses(),
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
