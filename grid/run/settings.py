"""Evaluation settings: the arguments shared by most queries."""

from dataclasses import dataclass
from typing import Any

from ..spec.values import check_threads


@dataclass(frozen=True)
class Settings:
    """Engine and mask, which determine the plan; threads and Dask, which change no bit. The plan
    and the cluster refuse what they cannot use."""

    engine: str = "auto"
    mask_infeasible: bool = False
    threads: int | None = None
    dask: Any = None

    def __post_init__(self) -> None:
        check_threads(self.threads)

    @property
    def cores(self) -> int:
        """Number of threads, by default all that the process may use."""
        return check_threads(self.threads)
