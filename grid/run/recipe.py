"""Recipes to rebuild a plan in other processes."""

import functools
import pickle
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..plan.labels import own_version
from ..plan.plan import Plan
from ..spec.graphs import NAME, with_graph
from ..spec.problem import resolve

Work = Callable[[Plan, Any], Any]  # applied to a task
MOST_PLANS = 16  # plans of other processes' sweeps cached by a process

_plans: dict[str, Plan] = {}
_lock = threading.Lock()


class Recipe:
    """A picklable plan, which other processes build once each."""

    def __init__(self, spec: Mapping[str, Any], plan: Plan) -> None:
        self.engine, self.mask = plan.engine, plan.mask
        self._spec = pickle.dumps(dict(spec))  # a copy: the caller may change the original later
        self._plan: Plan | None = plan

    @functools.cached_property
    def token(self) -> str:
        """A text that equal recipes share; only Dask and other processes ask for it."""
        from dask.base import tokenize

        return str(tokenize(own_version(), self.spec, self.engine, self.mask))

    @property
    def plan(self) -> Plan:
        if self._plan is None:
            with _lock:  # otherwise each thread of a worker would build it, and its tables
                if self.token not in _plans:
                    if len(_plans) >= MOST_PLANS:
                        _plans.pop(next(iter(_plans)))
                    _plans[self.token] = self._build()
                self._plan = _plans[self.token]
        return self._plan

    @property
    def spec(self) -> dict[str, Any]:
        return dict(pickle.loads(self._spec))

    def _build(self) -> Plan:
        spec = self.spec
        # a person named the modules where the recipe was made
        modules = with_graph({}, spec["scenario"].get(NAME))
        problem = resolve({**spec["scenario"], **modules}, spec["axes"])
        return Plan(problem, spec["outputs"], self.engine, self.mask)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_plan": None}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    def __dask_tokenize__(self) -> str:
        return self.token
