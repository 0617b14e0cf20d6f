"""How a sweep is evaluated: set once, and shared by all questions."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..errors import InputError, shown
from ..progress import Tell, showing, watching
from ..spec.values import check_threads

Engine = Literal["auto", "numpy", "numba", "jax", "jax-float32"]
Infeasible = Literal["exclude", "mark", "include"]


@dataclass(frozen=True)
class Settings:
    """How to evaluate: `Sweep(..., settings=...)` for all its methods, or for one call.

    Attributes:
        engine: "numpy" (nothing compiled), "numba", "jax", or "auto" (by size). All but JAX give
            the same bits. "jax-float32" computes in float32, to the errors of docs/float32.md.
            "numba" compiles formulas with llvmlite, the compiler under numba; a profile shows no
            frames of numba but in simulations and in what your own code compiles.
        infeasible: points that cannot run. "exclude": they are no answer, and have no value
            (NaN, -1 in flags) in outputs that depend on the layout. "mark": they count like any
            other, with `infeasible_reason` added. "include": they count, without it. By
            default answers (`best`, `solve`, `scaling_limit`) exclude, values are marked.
        threads: cores to use; all that the process may use by default.
        dask: a Dask cluster instead of threads, to the same bits: a number of processes to start
            here, a scheduler's address, or a `distributed.Client`. For cubes, reductions, `best`
            over axes, uncertainty; the rest is computed here.
        progress: True shows a bar, by tqdm if it is installed, once a call takes a second. Or a
            function, called with the work done, the total and its unit ("points"), perhaps from
            another thread. What it raises ends the evaluation.
    """

    engine: Engine = "auto"
    infeasible: Infeasible | None = None
    threads: int | None = None
    dask: Any = None
    progress: Tell | bool = False

    def __post_init__(self) -> None:
        for name, choices in (("engine", get_args(Engine)), ("infeasible", get_args(Infeasible))):
            value = getattr(self, name)
            if value not in choices and (value is not None or name == "engine"):
                raise InputError(
                    f"{name} = {shown(value)} is unknown; choose one of {', '.join(choices)}"
                )
        check_threads(self.threads)
        if not isinstance(self.progress, bool) and not callable(self.progress):
            raise InputError(
                f"progress = {shown(self.progress)} is not a function; give one, or True"
            )

    @property
    def _mask(self) -> bool:
        """Whether outputs have no value where they cannot run."""
        return self.infeasible == "exclude"

    @property
    def _answers_run(self) -> bool:
        """Whether points that cannot run are no answers."""
        return self.infeasible in (None, "exclude")

    @property
    def _cores(self) -> int:
        """Number of threads, by default all that the process may use."""
        return check_threads(self.threads)

    def _watched(self) -> AbstractContextManager[None]:
        """Report progress inside the `with`, where asked."""
        if isinstance(self.progress, bool):
            return showing() if self.progress else nullcontext()
        return watching(self.progress)


def check_settings(settings: Any, otherwise: Settings | None = None) -> Settings:
    """Refuse what is not a `Settings`, such as a dict or the name of an engine."""
    if settings is None and otherwise is not None:
        return otherwise
    if not isinstance(settings, Settings):
        raise InputError(
            f"settings = {shown(settings)} is not a Settings; give fleetcube.Settings(engine=...)"
        )
    return settings
