"""The report of a plan: a page with a choice of the layouts found."""

from pathlib import Path
from typing import TYPE_CHECKING

from ..ask.layouts import REPORTED, as_choices
from ..run.evaluation import Evaluation
from .page import page

if TYPE_CHECKING:
    import xarray


def report(
    sweep: Evaluation, found: "xarray.Dataset", of: str, said: str, spec: str, point: str = ""
) -> str:
    """The page's HTML; `point` are the commands' arguments besides the layout, `said` the foot."""
    choices, commands = as_choices(sweep, found, of, [name for name in REPORTED if name in found])
    commands = [f"{point} {words}".strip() for words in commands]
    return page(choices, f"Plan of {Path(spec).name}", spec, commands, [said])
