"""Numbers in README.md that follow from the code, its data and pages: counts, errors, rates."""

import json
import re

from fleetcube import Sweep
from fleetcube.catalog import kind
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from .accuracy import own
from .claims.conflicts import DOCUMENTS
from .text import DOCS, ROOT

PAGE = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results.json"
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


def errors(name: str) -> str:
    """The median error of steps in a line of the table of the pooled model, as a page has it."""
    text = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    (median,) = re.findall(rf"^\| {name} \| \d+ \| [\d.]+ % \| ([\d.]+) % ", text, re.MULTILINE)
    return str(median)


def peers() -> tuple[str, ...]:
    """Points of the question that peers answer, and how many times as long JAX and xarray take."""
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))["peers"]["rows"]
    by_tool = {row["tool"].split()[0]: row for row in rows[1:]}  # the first is fleetcube's
    slower = [by_tool[tool]["slower"] for tool in ("JAX", "xarray")]
    return (f"{rows[0]['points'] / 1e6:.0f}", *(f"{ratio:.2g}" for ratio in slower))


def phrases() -> dict[str, tuple[str, ...]]:
    """Phrases of the README, a {} for each number, and the numbers."""
    groups = own().groups
    steps = [group for group in groups if group.of == "step_time" and group.n > 1]
    worst = max(group.median_percent for group in steps)
    memory = max(group.mean_percent for group in groups if "memory" in group.of)
    (nccl,) = [group.median_percent for group in groups if group.group == "nccl_allreduce"]
    question = Sweep.from_file(EXAMPLE).virtual()["job_time"]
    kinds = {name: str(len(kind(name))) for name in ("gpu", "node", "fabric", "model")}
    return {
        "not seen, the step time is off by {} %": (errors("a job"),),
        "fitted to, by {} %": (errors("nothing, in sample"),),
        "group of steps is off by more than {} %": (f"{worst:.0f}",),
        "Memory is off by at most {} %": (f"{memory:.1f}",),
        "all-reduces by {} %": (f"{nccl:.0f}",),
        "predicts {} published measurements": (f"{len(own().rows):,}",),
        "{} million points with six outputs, fleetcube is {} times as fast as JAX and {}": peers(),
        "8 to {} GPUs, {} million points": (
            f"{question.n_gpus.max():,}",
            f"{question.size / 1e6:.1f}",
        ),
        "{} quantities from {} inputs": (str(len(PHYSICS.quantities)), str(len(INPUTS))),
        "{} accelerators, {} nodes, {} fabrics, {} models": tuple(kinds.values()),
        "{} calibrations": (str(len(kind("calibration"))),),
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
