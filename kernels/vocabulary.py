"""The interface of the physics to graph and calculus: nothing else is known to them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import physics, roles
from .declare import Input
from .inputs import INPUTS


@dataclass(frozen=True)
class Vocabulary:
    """Inputs by name, modules whose functions are quantities, and names by role (`roles.py`)."""

    inputs: Mapping[str, Input]
    modules: tuple[str, ...]
    roles: Any


PHYSICS = Vocabulary(
    INPUTS, tuple(f"{physics.__name__}.{module}" for module in physics.MODULES), roles
)
