"""How formulas are registered: as alternatives of a quantity, as laws, as renamed twins."""

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
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


def same_as(law: Callable[..., Any]) -> Callable[[F], F]:
    """Register a law as a formula: it takes what `Parameters` lists, in the law's order.

    The function below it is a name and a docstring, and has no body.
    """

    def register(function: F) -> F:
        _, _, after = docstring(function).partition("\nParameters:")
        operands = re.findall(r"(\w+) \[", re.split(r"\n[A-Z]", after)[0])
        wanted = list(inspect.signature(law).parameters)
        if len(operands) != len(wanted):
            raise ValueError(
                f"{function.__name__} lists {len(operands)} parameters, and {law.__name__} takes "
                f"{len(wanted)}: {', '.join(wanted)}"
            )
        names = {law.__name__: function.__name__, **dict(zip(wanted, operands, strict=True))}
        formula: Any = renaming(function.__module__, names)(law)
        formula.__doc__, formula.__law__ = function.__doc__, law
        return formula  # type: ignore[no-any-return]

    return register


def renaming(home: str, names: Mapping[str, str]) -> Callable[[F], F]:
    """Make formulas of module `home` from others that differ in names alone.

    `names` gives the new name of parameters, quantities and words of docstrings. A formula that
    is an alternative is called after its new quantity.
    """

    def rename(formula: Any) -> Any:
        code = formula.__code__
        variables = tuple(_renamed(name, names) for name in code.co_varnames)
        if len(set(variables)) < len(variables):
            raise ValueError(f"two names of {formula.__name__} become one: {', '.join(variables)}")
        quantity, *choice = getattr(formula, "__alternative__", (formula.__name__,))
        name = formula.__name__
        name = names.get(name, name.replace(quantity, _renamed(quantity, names)))
        # co_name and the place in the file stay: they lead to the formula as it is written
        twin: Any = types.FunctionType(
            code.replace(co_varnames=variables), formula.__globals__, name
        )
        twin.__dict__.update(formula.__dict__)
        twin.__module__, twin.__qualname__ = home, name
        twin.__doc__ = _renamed(formula.__doc__ or "", names) or None
        renamed = {**names, formula.__name__: name}
        twin.__renamed__ = (*getattr(formula, "__renamed__", ()), renamed)
        if choice:
            twin.__alternative__ = (_renamed(quantity, names), *choice)
        return twin

    return rename


def _renamed(text: str, names: Mapping[str, str]) -> str:
    words = sorted(map(re.escape, names), key=len, reverse=True)  # the longest match first
    return re.sub(rf"\b({'|'.join(words)})\b", lambda match: names[match[0]], text)


@functools.cache  # to find where a function ends in its file takes a millisecond
def source_of(formula: Callable[..., Any]) -> str:
    """The source of a formula under its own names, wherever it is written."""
    text = inspect.getsource(formula)
    for names in getattr(formula, "__renamed__", ()):
        text = _renamed(text, names)
    return text


def docstring(function: Callable[..., Any]) -> str:
    """The docstring of a formula, without which it has no units."""
    if function.__doc__ is None and sys.flags.optimize > 1:
        raise RuntimeError(
            "python -OO strips the docstrings in which formulas state their units; leave it out"
        )
    return inspect.getdoc(function) or ""
