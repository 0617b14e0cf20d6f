"""Shared by tests of several files: a base job, and the check of a refusal."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fleetcube import InputError, Sweep
from fleetcube.analysis.ratio import Ratio, between, side
from fleetcube.calibration import calibration_file
from fleetcube.calibration.update import Update
from fleetcube.functions.arguments import scenario_and_axes

Patch = pytest.MonkeyPatch
JUNK = st.recursive(  # anything that JSON may hold
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)


def on_h100(model: str = "llama-3-8b", **given: Any) -> dict[str, Any]:
    """A scenario: a model on DGX H100 nodes with NDR InfiniBand, with further inputs."""
    return {"model": model, "node": "dgx-h100", "fabric": "infiniband-ndr"} | given


def solve(unknown: str, target: Any, *, settings: Any = None, **given: Any) -> Any:
    """`Sweep.solve` of a sweep of keyword arguments."""
    how = {name: given.pop(name) for name in ("between", "whole") if name in given}
    return Sweep(*scenario_and_axes(given)).solve(unknown, target, **how, settings=settings)


def refused(words: str, ask: Callable[..., object], *given: Any, **named: Any) -> str:
    """The message of a refusal: one line that contains these words."""
    with pytest.raises(InputError, match=words) as error:
        ask(*given, **named)
    assert "\n" not in str(error.value)
    return str(error.value)


def ratios(a: dict[str, Any], b: dict[str, Any], names: list[str]) -> dict[str, Ratio]:
    """The ratios B / A of two scenarios' outputs."""
    return between(side(a, names), side(b, names))


def steps_file(path: Path, fit: Update) -> Path:
    """The calibration file of a user's steps, as `calibrate` writes it."""
    about = calibration_file.about_file(fit, "steps.csv", "Training steps")
    values, jobs = calibration_file.step_values(fit), calibration_file.jobs_of(fit)
    quality = calibration_file.about_fit(fit)
    content = calibration_file.text(about, values, fit.standard_errors, quality, jobs=jobs)
    path.write_text(content, encoding="utf-8")
    return path


def cases(names: str, *rows: Any, ids: Any = None) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(names, rows, ids=ids)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Limit the size of files that processes write, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
