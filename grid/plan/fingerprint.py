"""Everything that a cube's bytes depend on, by name, so that messages can name a change."""

import functools
import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...catalog import AUTO
from ...catalog.units import PATH as UNITS
from ...kernels.alternatives import source_of
from ...kernels.engines import jax
from ...kernels.graph.bind import BuiltFormula, definitions, dependencies
from ...kernels.graph.docstrings import read
from ...kernels.graph.formulas import parameters
from ..spec.application import application
from .engine import JAX
from .labels import plain
from .plan import Plan
from .written import written

# Modules whose code determines values or bytes, by package
ENGINE_CODE = {
    "numpy": ("engines.numpy",),
    "numba": (
        *("engines.numba", "engines.codegen", "engines.lowering", "engines.loops"),
        *("engines.machine_code", "graph.trace"),
    ),
    **dict.fromkeys(JAX, ("engines.jax", "engines.numpy")),
}
_COMMON_CODE = (
    *("elementary", "ops", "alternatives", "reasons", "graph.bind"),
    *("graph.formulas", "graph.modules", "graph.roles", "graph.readable", "engines.job"),
    "engines.cache_tiles",
    *("calculus.derivatives", "calculus.dual", "calculus.built", "calculus.phased_formulas"),
    "calculus.slopes",
)
_GRID_CODE = (
    *("spec.axes", "spec.axis", "spec.designs", "spec.graphs", "spec.problem", "spec.values"),
    *("plan.cases", "plan.dims", "plan.engine", "plan.execute", "plan.grid", "plan.labels"),
    *("plan.masking", "plan.order", "plan.plan", "plan.tiles", "plan.written"),
    *("store.chunks", "store.empty"),
)
PACKAGES = {"numpy": (), "numba": ("llvmlite",), **dict.fromkeys(JAX, ("jax", "jaxlib"))}
_LONGEST = 200  # characters of a value written out


def fingerprint(
    plan: Plan, spec: Mapping[str, Any], dtype: str, chunks: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Names and values of everything that determines a cube's bytes, in JSON types."""
    facts = asked(json.loads(json.dumps(written(plan, spec), default=plain)))
    facts |= {"engine": plan.engine, "dtype": dtype}
    facts |= {"infeasible": "exclude" if plan.mask else "include"}
    facts |= {f"chunks.{name}": list(shape) for name, shape in chunks.items()}
    for package in ("fleetcube", "numpy", "numcodecs", *PACKAGES[plan.engine]):
        facts[f"version.{package}"] = _version(package)
    facts["version.python"] = platform.python_version()
    facts["machine"] = platform.machine()
    if plan.engine in JAX:
        facts["processor.jax"] = jax.processor()
        names = {name for case in plan.cases for name in case.formulas if not plan.is_table(name)}
        facts["quantities.jax"] = sorted(names)  # the others have NumPy's last bits
    for record in sorted(plan.problem.records, key=lambda each: each.label.startswith(AUTO)):
        name = f"catalog.{record.kind}.{record.label}"  # auto last: it follows from the others
        in_file = record.values if record.origin else {}
        facts |= {f"{name}.{key}": _short(value) for key, value in in_file.items()}
        facts[name] = f"edition {record.edition} {record.digest}"
    facts |= {f"graph.{each.name}": each.digest for each in plan.graph.extensions}
    notes = plan.structure.notes  # shared by plans of the same formulas
    if "formulas" not in notes:
        notes["formulas"] = _formulas(plan)
    facts |= notes["formulas"]
    kernels = (*_COMMON_CODE, *ENGINE_CODE[plan.engine])
    code = [*(f"kernels.{name}" for name in kernels), *(f"grid.{name}" for name in _GRID_CODE)]
    if scenarios := application(plan.graph):
        code += scenarios.CODE
    facts |= {f"code.{name}": _code(name) for name in (*code, "catalog.units")}
    facts["units"] = _hash(UNITS.read_text(encoding="utf-8"))
    facts["numbers"] = _hash(json.dumps(plan.problem.constants, sort_keys=True))
    return dict(json.loads(json.dumps(facts)))


def _formulas(plan: Plan) -> dict[str, str]:
    """Hashes of the formulas, and the defaults that they read."""
    formulas: dict[str, dict[Any, None]] = {}
    for case in plan.cases:
        for name, formula in case.formulas.items():
            formulas.setdefault(name, {})[formula] = None
    sources: dict[str, list[str]] = {}
    for name in sorted(formulas):
        for formula in formulas[name]:
            derived = isinstance(formula, BuiltFormula)
            label = name if derived or formula.__name__ == name else f"{name}.{formula.__name__}"
            texts = sources.setdefault(f"formula.{label}", [])  # several if generated
            texts += [repr(formula)] if derived else []
            texts += map(source_of, dependencies(formula))
            texts += map(repr, map(read, definitions(formula)))  # including what docstrings inherit
    used = {name for every in formulas.values() for each in every for name in parameters(each)}
    inputs = plan.graph.inputs
    defaults = {f"default.{n}": repr(inputs[n].default) for n in sorted(used & inputs.keys())}
    return {label: _hash("\0".join(texts)) for label, texts in sources.items()} | defaults


_version = functools.cache(version)


@functools.cache
def _code(module: str) -> str:
    """The hash of a module's code; what is loaded stays as it is."""
    source: Any = find_spec(f"...{module}", __package__)  # imports no engine
    return _hash(Path(source.origin).read_text(encoding="utf-8"))


def asked(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec's part of a fingerprint; the spec is in JSON types."""
    facts: dict[str, Any] = {"outputs": spec["outputs"]}
    for part in ("scenario", "axes"):
        facts[part] = list(spec[part])  # the order of axes is that of dimensions
        facts |= {f"{part}.{name}": _short(value) for name, value in spec[part].items()}
    return facts


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str | None:
    """The first name whose value changed, with both values, in one line; None if none did."""
    changed = [
        name
        for name in {**new, **old}
        if name not in old or name not in new or json.dumps(old[name]) != json.dumps(new[name])
    ]
    if not changed:
        return None
    # a changed value is more informative than a changed order of names
    name = next((name for name in changed if name not in ("scenario", "axes")), changed[0])
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    return f"{name}: {_shown(old, name)} -> {_shown(new, name)}{more}"


def _shown(facts: Mapping[str, Any], name: str) -> str:
    return json.dumps(facts[name])[:80] if name in facts else "unset"


def _short(value: Any) -> Any:
    text = json.dumps(value)
    return value if len(text) <= _LONGEST else f"{text[:40]}... sha256 {_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
