"""Quantities as one pure function of a few inputs, for other programs to call."""

import functools
import inspect
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Union, cast, overload

import numpy as np

from fleetcube.catalog.units import carried
from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.plan.cases import choices, formulas_of, leaves
from fleetcube.grid.plan.dims import differentiated
from fleetcube.grid.plan.engine import check_engine, compiles
from fleetcube.grid.plan.execute import RUN
from fleetcube.grid.plan.plan import check_outputs
from fleetcube.grid.spec.axis import Axis
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.problem import Problem, resolve
from fleetcube.grid.spec.values import check_name, is_option, is_traced, row_of, without_unit
from fleetcube.kernels.calculus.derivatives import derivative, name_of, quantity, unit_of
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.engines import scalar
from fleetcube.kernels.engines.jax import MOST_PROGRAMS
from fleetcube.kernels.engines.job import threads_for
from fleetcube.kernels.engines.program import Program, fold
from fleetcube.kernels.graph.bind import definitions
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import Function as Formula
from fleetcube.kernels.graph.formulas import Graph, parameters

from . import javascript

if TYPE_CHECKING:
    import jax

Engine = Literal["auto", "numpy", "numba", "jax"]
Values = Union[np.float64, np.ndarray[Any, np.dtype[Any]], "jax.Array"]  # a number for numbers
Result = TypeVar("Result")

ENGINES = ("auto", "numpy", "numba", "jax")
_MOST_DIMS = 32  # NumPy's broadcasting limit
_PLAIN = {float, int, np.float64}  # types passed on unchecked


@overload
def function(
    outputs: str, scenario: Mapping[str, Any], inputs: str | Sequence[str], *, engine: Engine = ...
) -> "Function[Values]": ...


@overload
def function(
    outputs: list[str] | tuple[str, ...],
    scenario: Mapping[str, Any],
    inputs: str | Sequence[str],
    *,
    engine: Engine = ...,
) -> "Function[dict[str, Values]]": ...


def function(
    outputs: str | Sequence[str],
    scenario: Mapping[str, Any],
    inputs: str | Sequence[str],
    *,
    engine: Engine = "auto",
) -> "Function[Any]":
    """Quantities of a scenario as a pure function of some of its inputs.

    Args:
        outputs: a quantity, or a list of them; see `fleetcube explain`. Derivatives are quantities,
            too: "d_job_time_d_n_gpus", "dln_job_time_dln_n_gpus".
        scenario: everything else, as for `Sweep`. Options and labels are bound here.
        inputs: the numeric inputs that a call gives; they override the scenario.
        engine: "auto" (NumPy, and after some thousand calls what is compiled meanwhile, to the
            same bits), "numpy", "numba" (compiled here, and callable from code that numba
            compiles) or "jax" (for jit, vmap, grad and any other transformation).

    Returns a `Function`. Raises InputError in one line for anything that cannot be used.

    Example:
        >>> import fleetcube
        >>> mtbf = fleetcube.function("cluster_mtbf", {"gpu_mttf": "50_000 h"}, ["n_gpus"])
        >>> round(float(mtbf(n_gpus=1024)) / 3600, 1)
        36.6
    """
    graph = graph_of(scenario)
    scenario = without_unit(graph, "", scenario)
    names = _check_inputs(graph, inputs)
    if engine not in ENGINES:
        raise InputError(f"engine = {shown(engine)} is unknown; choose one of {', '.join(ENGINES)}")
    check_engine(engine)
    wanted = [outputs] if isinstance(outputs, str) else outputs
    for name in names:
        if isinstance(wanted, Sequence) and name in list(wanted):
            raise InputError(
                f"{name!r} is both an output and an input; leave it out of one of them"
            )
    # One axis for all inputs: separate ones would each be a dimension, of which NumPy has 64
    given = {"inputs": Axis("inputs", np.ones(1), {name: np.ones(1) for name in names})}
    problem = resolve(scenario, given, names)
    check_outputs(wanted, problem)
    return Function(problem, tuple(wanted), names, engine, isinstance(outputs, str))


def _check_inputs(graph: Graph, inputs: Any) -> tuple[str, ...]:
    names = [inputs] if isinstance(inputs, str) else inputs
    if not isinstance(names, Sequence) or isinstance(names, bytes) or not names:
        raise InputError(f"inputs = {shown(inputs)} is not a list of names; name at least one")
    for name in names:
        check_name(graph, name)
        if is_option(graph, name) or without_phase(name) in graph.roles.labels:
            raise InputError(
                f"inputs: {name!r} takes names, not numbers; choose one in the scenario, and make "
                "a function of each choice"
            )
        if list(names).count(name) > 1:
            raise InputError(f"inputs: {name!r} appears twice; remove one")
    return tuple(names)


class Function(Generic[Result]):
    """Quantities as a pure function of numbers; made by `fleetcube.function`.

    Call it with the inputs by name, in order, or as one mapping: SI numbers, or arrays that
    broadcast as in NumPy. It returns an array of the broadcast shape (a number for numbers), or for
    a list of outputs a dict of them. Codes (unit "flag") are whole numbers, -1 where undefined.
    Outside the bounds of an input, where `evaluate` would refuse it, every number is NaN.

    `inputs` and `outputs` are names; `units` covers both, `sources` gives the source of every
    formula behind the outputs. Functions that compute the same are equal; they pickle, hash, and
    are thread-safe.
    """

    def __init__(
        self,
        problem: Problem,
        outputs: tuple[str, ...],
        inputs: tuple[str, ...],
        engine: str,
        alone: bool = False,
    ) -> None:
        self.inputs, self.outputs, self.engine, self._alone = inputs, outputs, engine, alone
        self._problem = problem
        self._formulas, self._program = _program(problem, outputs, inputs)
        self._point: Any = None
        if engine == "numba":
            self._point = scalar.compiled(self._program).call
        elif engine == "auto" and compiles():
            self._point = scalar.Compiling(self._program)
        elif engine != "jax":
            self._point = scalar.interpreted(self._program)
        self.units = {name: unit_of(problem.graph, name) for name in (*inputs, *outputs)}
        self._hash = hash((type(self), self._program, engine, alone))
        self.__name__ = "_".join(outputs)
        self.__doc__ = self._docstring()
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in inputs]
        )

    def __call__(self, *values: Any, **named: Any) -> Result:
        if named or len(values) != len(self.inputs) or isinstance(values[0], Mapping):
            values = self._ordered(values, named)
        if self._point is None:
            return cast(Result, self._packed(self._traced(values)))
        plain = _floats(values)
        values_out = self._over(values) if plain is None else self._point(*plain)
        return cast(Result, self._packed(values_out))

    def gradient(self, wrt: str | Sequence[str] | None = None) -> "Gradient":
        """Return the function of the exact derivatives with respect to inputs, by default all.

        It takes the same arguments, and returns a dict: d output / d input in SI by input, for a
        list of outputs by output and input. Whole-numbered inputs count as continuous. Raises
        InputError for other inputs, and if an output is a code or itself a derivative.
        """
        if wrt is not None and not isinstance(wrt, str | Sequence):
            raise InputError(f"wrt = {shown(wrt)} is not a list of names; give some of the inputs")
        names = self.inputs if wrt is None else (wrt,) if isinstance(wrt, str) else tuple(wrt)
        if not names or any(names.count(name) > 1 for name in names):
            raise InputError(f"wrt = {shown(wrt)} is empty or names an input twice; name each once")
        for name in names:
            if name not in self.inputs:
                hint = nearest(str(name), self.inputs, f"choose of {', '.join(self.inputs)}")
                raise InputError(f"wrt: {shown(name)} is not an input of this function; {hint}")
        for name in self.outputs:
            if derivative(self._problem.graph, name) or self.units[name] == "flag":
                raise InputError(
                    f"{name!r} has no gradient here; take a quantity that is a number, and for "
                    "second derivatives jax.hessian of a function made with engine = 'jax'"
                )
        return Gradient(self, names)

    @property
    def sources(self) -> dict[str, str]:
        """Sources of the formulas, by quantity."""
        names = [name for name in self._formulas if self._problem.graph.get(name)]
        return {
            name: "; ".join(read(function).source for function in definitions(self._formulas[name]))
            for name in names
        }

    @property
    def unused(self) -> tuple[str, ...]:
        """Inputs that no output depends on here."""
        used = {p for _, formula in self._program.formulas for p in parameters(formula)}
        return tuple(name for name in self.inputs if name not in used)

    def javascript(self) -> str:
        """Return the function as a JavaScript module, for a page that computes without Python.

        It exports `evaluate`, from an object of numbers by input in SI base units to an object of
        numbers by output; and `inputs`, `outputs` and `units`. NaN where a call here returns NaN.
        Values agree with NumPy's to about 1e-15.
        """
        about = f"{', '.join(self.outputs)}, as a function of {', '.join(self.inputs)}; in SI units"
        facts = {"inputs": self.inputs, "outputs": self.outputs, "units": self.units}
        arguments = ", ".join(f"given.{name}" for name in self.inputs)
        fields = ", ".join(f"{name}: found[{k}]" for k, name in enumerate(self.outputs))
        return "\n".join(
            [
                f"// {about}.",
                javascript.HEAD + javascript.source(self._program, "compute"),
                "export function evaluate(given) {",
                f"  const found = compute([{arguments}]);",
                f"  return {{{fields}}};",
                "}",
                *(f"export const {key} = {json.dumps(value)};" for key, value in facts.items()),
                "",
            ]
        )

    @property
    def _numba_type_(self) -> Any:
        """The numba type of this object; numba asks for the attribute."""
        if self.engine != "numba":
            from numba.extending import typeof_impl

            # numba's C code asks first, and Python 3.13 prints any error but this one
            typeof_impl.register(Function)(_type_in_numba)
            raise AttributeError(f"no numba type: engine = {self.engine!r}")
        from .embedded import type_of

        return type_of(self._program)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Function):
            return NotImplemented
        mine, theirs = ((type(f), f.engine, f._alone, f.outputs, f._program) for f in (self, other))
        return self._hash == other._hash and mine == theirs

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self._problem, self.outputs, self.inputs, self.engine, self._alone)

    def __repr__(self) -> str:
        outputs = ", ".join(self.outputs)
        return f"<fleetcube.Function ({', '.join(self.inputs)}) -> {outputs}, {self.engine}>"

    def _docstring(self) -> str:
        def listed(names: tuple[str, ...]) -> str:
            return "\n".join(
                f"    {name} [{self.units[name]}]: {_meaning(self._problem.graph, name)}"
                for name in names
            )

        return (
            f"{', '.join(self.outputs)}, as a function of {', '.join(self.inputs)}.\n\n"
            "Inputs are numbers in SI base units, or arrays that broadcast; outputs have the shape "
            f"they broadcast to.\n\nInputs:\n{listed(self.inputs)}\n\n"
            f"Outputs:\n{listed(self.outputs)}\n"
        )

    def _packed(self, result: Any) -> Any:
        """The return value of a call: `result` is one output's value, or one for each output."""
        if self._alone:
            return result
        return dict(zip(self.outputs, result if len(self.outputs) > 1 else [result], strict=True))

    def _ordered(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs in order, from positional, named or mapped arguments."""
        if not values and len(named) == len(self.inputs):
            try:
                return tuple([named[name] for name in self.inputs])
            except KeyError:
                pass  # reported below
        first = values[0] if len(values) == 1 else None
        if isinstance(first, Mapping):
            for name in first:
                if name in named:
                    raise InputError(f"{name} is given in the mapping and by name; give it once")
            values, named = (), {**first, **named}
        inputs = ", ".join(self.inputs)
        for name in named:
            if name not in self.inputs:
                hint = nearest(str(name), self.inputs, f"give {inputs}")
                raise InputError(f"{shown(name)} is not an input of this function; {hint}")
        if len(values) > len(self.inputs):
            raise InputError(
                f"{len(values)} values are given to a function of {len(self.inputs)}; give {inputs}"
            )
        placed = dict(zip(self.inputs, values, strict=False))
        for name in self.inputs:
            if name in placed and name in named:
                raise InputError(f"{name} is given by place and by name; give it once")
            if name not in placed and name not in named:
                raise InputError(f"{name} is missing; give {inputs}")
        placed.update(named)
        return tuple(placed[name] for name in self.inputs)

    def _checked(self, values: Sequence[Any]) -> tuple[list[Any], tuple[int, ...]]:
        """The inputs as arrays, and the shape that they broadcast to."""
        arrays = [
            _array(name, value, self.units[name])
            for name, value in zip(self.inputs, values, strict=True)
        ]
        try:
            return arrays, np.broadcast_shapes(*(array.shape for array in arrays))
        except TypeError:  # jax.export's symbolic sizes, which JAX compares itself
            return arrays, ()
        except ValueError:
            shapes = zip(self.inputs, arrays, strict=True)
            listed = ", ".join(f"{name} {array.shape}" for name, array in shapes)
            raise InputError(
                f"the inputs do not broadcast: {listed}; give sizes that are equal, or 1"
            ) from None

    def _over(self, values: Sequence[Any]) -> Any:
        """The outputs over arrays, evaluated like blocks of a grid."""
        for name, value in zip(self.inputs, values, strict=True):
            if is_traced(value):
                raise InputError(
                    f"{name} is traced by JAX, which cannot see into a function made with engine "
                    f"= {self.engine!r}; make it with engine = 'jax'"
                )
        arrays, shape = self._checked(values)
        if not shape:
            return self._point(*map(float, arrays))
        job = self._program.job([np.asarray(array, np.float64) for array in arrays], shape)
        if size := math.prod(shape):
            RUN[self.engine](job, threads_for(size))
        results = tuple(job.outs.values())
        return results if len(results) > 1 else results[0]

    def _traced(self, values: Sequence[Any]) -> Any:
        """The outputs as computed by JAX, within another trace or not."""
        given = _floats(values) or self._checked(values)[0]
        outs = _jitted(self)(dict(zip(self.inputs, given, strict=True)))
        listed = tuple(outs[name] for name in self.outputs)
        return listed if len(listed) > 1 else listed[0]


def _type_in_numba(function: Function[Any], _: Any) -> Any:
    """numba's type of a function, registered after one of another engine was passed."""
    if function.engine == "numba":
        return function._numba_type_
    raise InputError(
        f"code compiled by numba cannot call a function of engine = {function.engine!r}; make it "
        "with engine = 'numba'"
    )


class Gradient(Function[dict[str, Any]]):
    """The exact derivatives of a `Function`; made by its `gradient`."""

    def __init__(self, function: Function[Any], wrt: tuple[str, ...]) -> None:
        self.function, self.wrt = function, wrt
        names = tuple(name_of("d", output, name) for output in function.outputs for name in wrt)
        super().__init__(function._problem, names, function.inputs, function.engine)
        self._hash = hash((Gradient, function, wrt))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gradient):
            return NotImplemented
        return (self.function, self.wrt) == (other.function, other.wrt)

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Gradient, (self.function, self.wrt)

    def _packed(self, result: Any) -> Any:
        values = iter(result if len(self.outputs) > 1 else [result])
        by_output = [{name: next(values) for name in self.wrt} for _ in self.function.outputs]
        if self.function._alone:
            return by_output[0]
        return dict(zip(self.function.outputs, by_output, strict=True))


@functools.lru_cache(MOST_PROGRAMS)
def _jitted(function: Function[Any]) -> Any:
    """The JAX-compiled function, shared for as long as the function is in use."""
    from .traceable import jitted

    return jitted(function._program)


def _program(
    problem: Problem, outputs: Sequence[str], inputs: Sequence[str]
) -> tuple[Mapping[str, Formula], Program]:
    """Formulas behind the outputs, and their program."""
    chosen = choices(problem, inputs)
    formulas = formulas_of(problem, chosen, outputs)[0]
    if wanted := [slope for name in outputs if (slope := derivative(problem.graph, name))]:
        for slope in wanted:
            if slope.kind.startswith("delta"):
                raise InputError(
                    f"outputs: {slope.name!r} compares whole numbers, which takes a sweep; ask for "
                    f"{name_of('d', slope.output, slope.wrt)}, or see Sweep.derivatives"
                )
        dims: dict[str, tuple[str, ...]] = dict.fromkeys([*formulas, *chosen[0].given], ())
        formulas = differentiated(problem.graph, [formulas], dims, wanted)[0]
    values = leaves(problem, chosen, problem.axes, inputs)[0]
    given = {name: row.item() for name, row in values.items() if name not in inputs}
    flags = [name for name in outputs if unit_of(problem.graph, name) == "flag"]
    bounds = [row_of(problem.graph, name) for name in inputs]
    return formulas, fold(outputs, formulas, given, inputs, bounds, flags)


def _meaning(graph: Graph, name: str) -> str:
    plain = without_phase(name)
    if plain in graph.inputs:
        return graph.inputs[plain].description
    slope = derivative(graph, name)
    return (slope or quantity(graph, plain)).doc.summary.rstrip(".")


def _floats(values: Sequence[Any]) -> list[float] | None:
    """Plain numbers as floats (JAX would cut whole ones off at 32 bits); None for anything else."""
    for value in values:
        if type(value) not in _PLAIN:
            return None
    try:
        return list(map(float, values))
    except OverflowError:  # a whole number too large for a float; reported later
        return None


def _array(name: str, value: Any, unit: str) -> Any:
    """Real SI numbers as a float64 or float32 array, JAX's unchanged; else refused."""
    hint = "give a plain number" if unit == "1" else f"give numbers in {unit}"
    if hasattr(value, "dims") and hasattr(value, "coords"):
        raise InputError(
            f"{name} is a DataArray, whose dimensions a function does not see; give its values, or "
            "use fleetcube.evaluate"
        )
    if np.ma.is_masked(value):
        raise InputError(f"{name} is a masked array; give its valid values")
    if not isinstance(value, int | float | str) and carried(value) is not None:
        raise InputError(f"{name} = {shown(value)} has a unit; {hint}")
    if hasattr(value, "__dask_graph__"):
        raise InputError(
            f"{name} is a Dask array; map the function over its blocks (dask.array.map_blocks)"
        )
    if str(getattr(value, "dtype", "")) in ("bfloat16", "float16"):
        raise InputError(f"{name} is {value.dtype}, too short for these laws; give float32 or more")
    try:
        array = value if _is_of_jax(value) else np.asarray(value)
        if array.dtype.kind not in "iuf":
            raise TypeError
        if array.ndim > _MOST_DIMS:
            raise InputError(
                f"{name} has {array.ndim} dimensions; give at most {_MOST_DIMS}: reshape it"
            )
        if _is_of_jax(value) or array.dtype == np.float32:
            return array
        return array.astype(np.float64)
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} = {shown(value)} is not a real number; {hint}") from None


def _is_of_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)
