"""What graph and calculus know of the physics, and all that they know of it."""

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
