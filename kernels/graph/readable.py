"""The language of formulas in other modules: code whose value its source and numbers alone decide.

All engines run a formula's Python, some once, some at each call, some on arrays. What could differ
between these runs (files, clocks, types of operands, arrays changed in place) is refused.
"""

import ast
import functools
import inspect
import math
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import ops
from .bind import PACKAGE, belongs
from .trace import LIGHT, LOOPS

_NODES = (
    *(ast.Assign, ast.Return, ast.Expr, ast.For, ast.If, ast.IfExp, ast.Name, ast.Constant),
    *(ast.Tuple, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword),
    *(ast.Attribute, ast.Subscript, ast.operator, ast.unaryop, ast.boolop, ast.expr_context),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)
_BUILTINS = ("abs", "enumerate", "float", "len", "max", "min", "range", "sum", "zip")
PLAIN = (bool, int, float, str, tuple)  # of constants


def sources(function: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Source, and what it reads of its module now, of a function and of those of its package that
    it calls. Raises ValueError for what no hash of these would cover."""
    functions: dict[Any, tuple[str, dict[str, Any]]] = {}

    def visit(function: Any) -> None:
        text, names, attributes = _parsed(function)
        now = {
            name: function.__globals__[name]
            for name in sorted(names)
            if name in function.__globals__
        }
        functions[function] = text, now
        for name in sorted(names - now.keys() - {*_BUILTINS}):
            raise ValueError(f"uses {name}, which its module does not define; define it there")
        for name, value in now.items():
            if isinstance(value, types.FunctionType) and belongs(value, function):
                if value not in functions and not value.__module__.startswith(PACKAGE):
                    visit(value)
            elif not (_is_plain(value) or any(value is one for one in (np, math, ops.np))):
                raise ValueError(
                    f"reads {name}, whose code no hash would cover; read plain numbers, and "
                    "functions of its own package or fleetcube's, by their own names"
                )

        for name, attribute in sorted(attributes):
            if not _is_function(now.get(name), attribute):
                usable = f"np's {', '.join((*LIGHT, *LOOPS))} and numbers"
                action = "write where(...) alone" if attribute == "where" else f"use {usable}"
                raise ValueError(f"uses {name}.{attribute}; {action}")

    visit(function)
    yield from (
        functions[member] for member in sorted(functions, key=lambda each: str(each.__qualname__))
    )


def frozen(function: Any, copies: dict[Any, Any]) -> Any:
    """A function with the numbers that it reads now, whatever its module has later."""
    if not isinstance(function, types.FunctionType) or function.__module__.startswith(PACKAGE):
        return function
    if function not in copies:
        module_names = function.__globals__
        scope = {n: module_names[n] for n in ("__name__", "__builtins__")}
        copies[function] = types.FunctionType(function.__code__, scope, function.__name__)
        copies[function].__dict__.update(function.__dict__)
        scope |= {
            n: frozen(module_names[n], copies) for n in _parsed(function)[1] if n in module_names
        }
    return copies[function]


def _is_plain(value: Any) -> bool:
    return type(value) in PLAIN and (type(value) is not tuple or all(map(_is_plain, value)))


def _is_function(library: Any, name: str) -> bool:
    if library is math:
        return not name.startswith("_")
    return library in (np, ops.np) and (
        name in (*LOOPS, *LIGHT) or type(getattr(np, name, None)) is float
    )


@functools.cache
def _parsed(function: Any) -> tuple[str, frozenset[str], frozenset[tuple[str, str]]]:
    """The source of a function, the names of its module that it reads, and attributes of these."""
    wrapped = {"__signature__", "__wrapped__"} & {*getattr(function, "__dict__", ())}
    plain = isinstance(function, types.FunctionType) and function.__name__ != "<lambda>"
    if not plain or function.__closure__ or wrapped:
        raise ValueError("is no plain function; write it with def, in its module")
    try:
        text, (lines, _) = inspect.getsource(function), inspect.findsource(function)
        codes = compile("".join(lines), "", "exec", dont_inherit=True).co_consts
        (node,) = ast.parse(text).body
    except (OSError, TypeError, SyntaxError):
        raise ValueError("has no source; write it at the top of a module's file") from None
    if not (isinstance(node, ast.FunctionDef) and _facts(function.__code__) in map(_facts, codes)):
        raise ValueError("is other code than its source; start Python anew")
    arguments = node.args
    if arguments.defaults or arguments.kwonlyargs or arguments.vararg or arguments.kwarg:
        raise ValueError("has parameters with defaults or stars; give plain ones")
    local = {each.arg for each in (*arguments.posonlyargs, *arguments.args)}
    inside = [each for statement in node.body for each in ast.walk(statement)]
    local |= {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    attributes = set()
    for each in inside:
        stored = not isinstance(getattr(each, "ctx", ast.Load()), ast.Load)
        plain = isinstance(each, ast.Name | ast.Tuple) or not stored
        if not isinstance(each, _NODES) or not plain:
            line = ast.unparse(each).partition("\n")[0][:60] or type(each).__name__
            raise ValueError(f"has {line!r}; write assignments, +, -, *, / and where")
        if isinstance(each, ast.Attribute):
            base = each.value.id if isinstance(each.value, ast.Name) else ""
            if not base or base in local:
                raise ValueError(f"uses .{each.attr} of a value; use functions of np alone")
            attributes.add((base, each.attr))
    names = {n.id for n in inside if isinstance(n, ast.Name)} - local
    return text, frozenset(names), frozenset(attributes)


def _facts(code: Any) -> tuple[Any, ...]:
    """A function's code and place in its module, without other constants of the module."""
    names = ("co_name", "co_names", "co_varnames", "co_code", "co_consts", "co_firstlineno")
    return tuple(getattr(code, name, None) for name in names)
