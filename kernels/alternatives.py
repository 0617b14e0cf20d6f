"""Registration of formulas: as alternatives of a quantity, as laws, as renamed twins."""

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def alternative(quantity: str, off: float | str | None = None, **option: Any) -> Callable[[F], F]:
    """Register a function as the formula of `quantity` where an option has a given value.

    A tuple of values registers it for each of them. `off` adds a `row` for the option at False: its
    value or the name it passes on.
    """
    ((name, values),) = option.items()

    def mark(function: F) -> F:
        choices = values if isinstance(values, tuple) else (values,)
        function.__alternative__ = (quantity, name, choices)  # type: ignore[attr-defined]
        if off is not None:
            _row(function.__module__, quantity, off, {name: False})
        return function

    return mark


def row(
    quantity: str,
    value: float | str,
    stated: str = "",
    *,
    summary: str = "",
    returns: str = "",
    source: str = "by definition",
    holds: str = "",
    **option: Any,
) -> None:
    """Add to the calling module a formula that is a constant, or passes a name on.

    It serves `quantity` where an option has a given value, or always. `stated` is why; `summary`,
    `returns` and `holds` are docstring sections that no other formula of the quantity states.
    """
    sections = {"Returns": returns, "Range": holds, "Source": source}
    last = "\n".join(f"{heading}: {text}" for heading, text in sections.items() if text)
    _row(_home(inspect.currentframe()), quantity, value, option, stated, summary, last)


def _row(
    home: str,
    quantity: str,
    value: float | str,
    option: Mapping[str, Any],
    stated: str = "",
    summary: str = "",
    last: str = "Source: by definition",
) -> None:
    name = quantity
    for key, choice in option.items():
        first = choice[0] if isinstance(choice, tuple) else choice
        name = re.sub(r"\W", "_", f"{quantity}_{key}_{first}".lower())
    formula: Any
    if isinstance(value, str):
        formula = _twin(_passed_on, name, home, (value,))
    else:
        scope = {"VALUE": value, "__name__": home, "__builtins__": __builtins__}
        formula = types.FunctionType(_constant.__code__, scope, name)
        formula.__module__, formula.__qualname__ = home, name
        stated = f"{value:g}: {stated}" if stated else f"{value:g}"
    formula.__doc__ = "\n\n".join(filter(None, [summary, stated or str(value), last]))
    if option:
        alternative(quantity, **option)(formula)
    setattr(sys.modules[home], name, formula)


def _passed_on(value: Any) -> Any:
    return 1.0 * value


VALUE = 0.0  # of a constant row, whose function has its own globals


def _constant() -> float:
    return VALUE


def same_as(law: Callable[..., Any]) -> Callable[[F], F]:
    """Register a law under the signature and docstring of the decorated, empty function."""

    def register(function: F) -> F:
        operands = tuple(inspect.signature(function).parameters)
        wanted = tuple(inspect.signature(law).parameters)
        if len(operands) != len(wanted):
            raise ValueError(
                f"{function.__name__} has {len(operands)} parameters, and {law.__name__} takes "
                f"{len(wanted)}: {', '.join(wanted)}"
            )
        formula: Any = _twin(law, function.__name__, function.__module__, operands)
        formula.__doc__, formula.__law__ = function.__doc__, law
        return formula  # type: ignore[no-any-return]

    return register


def family(names: Mapping[str, str], *formulas: Any, **option: Any) -> None:
    """Add to the calling module the twins of formulas, which differ only in names.

    `names` maps parameters, quantities and words of docstrings to new names. An alternative's twin
    is named after its new quantity; `option` overrides its choice.
    """
    home = _home(inspect.currentframe())
    for formula in formulas:
        twin = _renamed_twin(home, names, formula)
        if option:
            alternative(twin.__alternative__[0], **option)(twin)
        setattr(sys.modules[home], twin.__name__, twin)


def _home(frame: Any) -> str:
    return str(frame.f_back.f_globals["__name__"])


def _renamed_twin(home: str, names: Mapping[str, str], formula: Any) -> Any:
    operands = tuple(names.get(name, name) for name in inspect.signature(formula).parameters)
    if len(set(operands)) < len(operands):
        raise ValueError(f"two names of {formula.__name__} become one: {', '.join(operands)}")
    quantity, *choice = getattr(formula, "__alternative__", (formula.__name__,))
    name = formula.__name__
    name = names.get(name, name.replace(quantity, _renamed(quantity, names)))
    twin = _twin(formula, name, home, operands)
    twin.__doc__ = _renamed(formula.__doc__ or "", names) or None
    if hasattr(formula, "__law__"):
        twin.__law__ = formula.__law__
    if choice:
        twin.__alternative__ = (_renamed(quantity, names), *choice)
    return twin


def _twin(formula: Any, name: str, home: str, operands: tuple[str, ...]) -> Any:
    """The same code, its operands renamed in the same order."""
    twin: Any = types.FunctionType(formula.__code__, formula.__globals__, name)
    twin.__module__, twin.__qualname__ = home, name
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    twin.__signature__ = inspect.Signature([inspect.Parameter(one, kind) for one in operands])
    return twin


def _renamed(text: str, names: Mapping[str, str]) -> str:
    words = sorted(map(re.escape, names), key=len, reverse=True)  # the longest match first
    return re.sub(rf"\b({'|'.join(words)})\b", lambda match: names[match[0]], text)


@functools.cache  # finding a function's end in its file takes a millisecond
def source_of(formula: Callable[..., Any]) -> str:
    """The source of a formula; of a twin, under its own signature."""
    if formula.__code__ is _constant.__code__:
        return f"def {formula.__name__}():\n    return {formula.__globals__['VALUE']!r}\n"
    text = inspect.getsource(formula)
    if not is_twin(formula):
        return text
    written = text.partition("def ")[2].partition("(")[0]
    operands = ", ".join(inspect.signature(formula).parameters)
    return f"def {formula.__name__}({operands}):\n    return {written}({operands})\n\n\n{text}"


def is_twin(formula: Callable[..., Any]) -> bool:
    """Whether a formula has the code of a law, or of another formula."""
    return hasattr(formula, "__signature__")


def is_row(formula: Callable[..., Any]) -> bool:
    return formula.__code__ in (_constant.__code__, _passed_on.__code__)


def docstring(function: Callable[..., Any]) -> str:
    """The docstring of a formula, without which it has no units."""
    if function.__doc__ is None and sys.flags.optimize > 1:
        raise RuntimeError(
            "python -OO strips the docstrings in which formulas state their units; leave it out"
        )
    return inspect.getdoc(function) or ""
