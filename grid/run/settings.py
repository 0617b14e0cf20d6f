"""How a sweep is evaluated: the arguments that most questions share."""

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..spec.values import check_threads


@dataclass(frozen=True)
class Settings:
    """Engine and mask, which choose the plan; threads and Dask, which change no bit.

    Made where the keyword arguments of a method come in. A plan knows the engines, and a cluster
    what Dask takes, as only it imports Dask.
    """

    engine: str = "auto"
    mask_infeasible: bool = False
    threads: int | None = None
    dask: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.engine, str) or not isinstance(self.mask_infeasible, bool):
            raise InputError(
                f"engine = {self.engine!r} or mask_infeasible = {self.mask_infeasible!r} is not "
                "usable; give the name of an engine, and True or False"
            )
        check_threads(self.threads)

    @property
    def cores(self) -> int:
        """How many threads to use: all that the process may, where none are named."""
        return check_threads(self.threads)
