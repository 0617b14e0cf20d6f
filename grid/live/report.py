"""The report of a plan: a page whose choices are the layouts found."""

from typing import TYPE_CHECKING

from ..ask.layouts import as_choices
from ..run.evaluation import Evaluation
from .page import page

if TYPE_CHECKING:
    import xarray

_SHOWN = (
    *("job_time", "step_time", "mfu", "goodput", "memory_per_gpu", "model_flops_per_gpu"),
    *("expected_failures", "checkpoint_interval", "gpu_hours", "energy", "job_cost"),
)


def report(
    sweep: Evaluation, found: "xarray.Dataset", of: str, said: str, spec: str, point: str = ""
) -> str:
    """The page, as text; `point` is what a command says beside the layouts, `said` the foot."""
    choices, commands = as_choices(sweep, found, of, [name for name in _SHOWN if name in found])
    commands = [f"{point} {words}".strip() for words in commands]
    return page(choices, f"Plan of {spec}", spec, commands, [said])
