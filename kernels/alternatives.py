"""The mark that puts several formulas under one quantity, chosen by an option."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def alternative(quantity: str, **option: Any) -> Callable[[F], F]:
    """Register a function as the formula of `quantity` where an option has a given value.

    The option's value may be a tuple: the formula then serves each of its values.
    """
    ((name, values),) = option.items()

    def mark(function: F) -> F:
        choices = values if isinstance(values, tuple) else (values,)
        function.__alternative__ = (quantity, name, choices)  # type: ignore[attr-defined]
        return function

    return mark
