"""Rules of the code base: who may import whom, what loads when, how formulas are written."""

import ast
import functools
import importlib
import re
import subprocess
import sys
import tomllib
import types
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from fleetcube.commands.shared.listing import COMMANDS
from fleetcube.kernels import ops, physics, reasons
from fleetcube.kernels.alternatives import is_row
from fleetcube.kernels.graph import formulas as graph
from fleetcube.kernels.graph.bind import dependencies
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS, TOPIC_OF

from .table import each

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "fleetcube": ROOT / "src" / "fleetcube",
    "fleetcube.kernels": ROOT / "kernels",
    "fleetcube.catalog": ROOT / "catalog",
    "fleetcube.examples": ROOT / "examples",
    "fleetcube.grid": ROOT / "grid",
}
STANDARD = frozenset(sys.stdlib_module_names)
# What each folder may import besides the standard library; None: anything.
ALLOWED: dict[str, frozenset[str] | None] = {
    "fleetcube.kernels": frozenset({"jax", "llvmlite", "numba", "numpy", "platformdirs"}),
    "fleetcube.catalog": frozenset({"numpy", "pint"}),
    "fleetcube.examples": frozenset(),
    "fleetcube.grid": None,
    "fleetcube": None,
}
SIBLINGS = {
    "fleetcube.kernels": ("fleetcube.kernels",),
    "fleetcube.catalog": ("fleetcube.catalog", "fleetcube.kernels"),
    "fleetcube.examples": (),
    "fleetcube.grid": (
        *("fleetcube.grid", "fleetcube.catalog", "fleetcube.kernels"),
        "fleetcube.scenario",  # not in spec
    ),
    "fleetcube": ("fleetcube",),
}
QUANTITIES = sorted(PHYSICS.quantities.items())
FORMULAS = [
    ROOT / "kernels" / "calculus" / "slopes.py",
    ROOT / "kernels" / "physics" / "roles.py",
    *(ROOT / "kernels" / "laws").glob("[a-z]*.py"),
    *sorted((ROOT / "kernels" / "physics").glob("*/*.py")),
]


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package: its folder's package name, its path."""
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            yield package, path


@functools.cache
def imports(package: str, path: Path) -> list[tuple[str, int]]:
    """Absolute names that a module imports, and the number of dots they were written with."""
    folder = path.parent.relative_to(FOLDERS[package]).parts
    here, found = [*package.split("."), *folder], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found += [(f"{stem}.{alias.name}", node.level) for alias in node.names]
    return found


# A package imports itself and lower layers, none of its own layer
FLOORS = {
    "fleetcube": (
        {"stop", "graph", "laws", "text"},
        {"scenario"},
        {"formats", "functions"},
        {"rows", "tables"},
        {"calibration"},
        {"analysis"},
        {"presentation"},
        {"schedules"},
        {"application"},
        {"sweep"},
        {"accessor"},
        {"backend", "xarray"},
        {"commands"},
        {"cli"},
    ),
    "fleetcube.grid": (
        {"datasets", "errors", "progress"},
        {"result"},
        {"spec"},
        {"plan"},
        {"run"},
        {"reduce", "store"},
    ),
    "fleetcube.kernels": (
        {"elementary", "declare", "alternatives", "reasons", "log"},
        {"ops"},
        {"laws", "graph"},
        {"calculus"},
        {"engines"},
        {"physics", "monte_carlo"},
    ),
}

MODULES = [
    pytest.param(package, path, id=str(path.relative_to(ROOT))) for package, path in modules()
]


@each(("package", "path"), MODULES)
def test_a_folder_imports_only_what_it_may(package: str, path: Path) -> None:
    for name, _ in imports(package, path):
        top = name.partition(".")[0]
        if top == "fleetcube":
            assert any(f"{name}.".startswith(f"{sibling}.") for sibling in SIBLINGS[package]), (
                f"{package} may import {', '.join(SIBLINGS[package])} only, not {name}"
            )
        else:
            allowed = ALLOWED[package]
            assert allowed is None or top in STANDARD | allowed, (
                f"{package} may import {', '.join(sorted(allowed or ()))} only, not {name}"
            )


@each(("package", "path"), MODULES)
def test_other_rooms_of_the_application_are_imported_absolutely_and_all_else_relatively(
    package: str, path: Path
) -> None:
    for name, dots in imports(package, path):
        if name.partition(".")[0] == "fleetcube":
            wrong = dots > 1 if package == "fleetcube" else dots == 0
            assert not wrong, f"{name}: from . in a room and in the folders, else absolutely"


@each(("package", "path"), MODULES)
def test_a_room_imports_lower_floors_only(package: str, path: Path) -> None:
    """Also in functions and for type checkers: there is no import cycle of any kind."""
    floors = FLOORS.get(package, ())
    floor = {room: number for number, rooms in enumerate(floors) for room in rooms}
    room = path.relative_to(FOLDERS[package]).with_suffix("").parts[0]
    if not floors or room.startswith("__"):
        return
    for name, _ in imports(package, path):
        inner = name.removeprefix(f"{package}.")
        other = inner.partition(".")[0]
        if inner == name or other == room or other not in floor:
            continue  # of another package, which SIBLINGS judges
        assert floor[other] < floor[room], f"{room} may not import {other}"


def test_topics_need_only_those_above_them() -> None:
    """Checked by formulas' parameters and modules' imports."""
    floor = {topic: number for number, topic in enumerate(physics.TOPICS)}
    home = {name: quantity.default.__module__.split(".")[-2] for name, quantity in QUANTITIES}
    for _, quantity in QUANTITIES:
        for formula in quantity.formulas.values():
            own = formula.__module__.split(".")[-2]  # a feature is plugged in above the topic
            for needed in graph.parameters(formula):
                below = home.get(needed) or TOPIC_OF[needed]
                fits = floor[below] <= floor[own]
                assert fits, f"{own}: {formula.__name__} may not need {needed} of {below}"
    folder = FOLDERS["fleetcube.kernels"] / "physics"
    for path in sorted(folder.glob("*/*.py")):
        for name, _ in imports("fleetcube.kernels", path):
            inner = name.removeprefix(f"{physics.__name__}.").partition(".")[0]
            own = path.parent.name
            assert floor.get(inner, 0) <= floor[own], f"{own}/{path.name} may not import {inner}"


# The engine: rooms that know no physics, and ask the application that a graph names
ENGINE = ("plan", "rows", "run", "read", "reduce", "evaluate.py", "function.py")
APPLICATION = ("kernels.physics", "scenario", "formats", "catalog.kind", "catalog.CONFIGURED")


@each(
    ("package", "path"),
    [
        pytest.param("fleetcube.grid", path, id=str(path.relative_to(ROOT)))
        for package, path in modules()
        if package == "fleetcube.grid" and path.relative_to(ROOT / "grid").parts[0] in ENGINE
    ],
)
def test_the_engine_imports_nothing_of_its_applications(package: str, path: Path) -> None:
    """Also in functions and for type checkers."""
    for name, _ in imports(package, path):
        for room in APPLICATION:
            inner = f"fleetcube.{room}."
            assert not f"{name}.".startswith(inner), f"ask the graph's application, not {room}"


# What the engine's room of scenarios imports besides errors and kernels without physics: units,
# bytes of a file, and the graph of scenarios that name none
OF_SCENARIOS = {
    "bounded.py": {"fleetcube.catalog.files"},
    "graphs.py": {"fleetcube.catalog.units", "fleetcube.kernels.physics.graph"},
    "values.py": {"fleetcube.catalog.units"},
}


def test_the_engine_reads_scenarios_without_labels() -> None:
    others = ("fleetcube.catalog", "fleetcube.kernels.physics", "fleetcube.scenario")
    for path in sorted((ROOT / "grid" / "spec").glob("*.py")):
        names = {name for name, _ in imports("fleetcube.grid", path) if name.startswith(others)}
        homes = {name.rpartition(".")[0] for name in names}
        assert homes == OF_SCENARIOS.get(path.name, set()), path.name


def circles(package: str) -> list[list[str]]:
    """Modules of a package that import each other, also in functions and for type checkers."""
    folder = FOLDERS[package]
    paths = {
        ".".join([package, *path.relative_to(folder).with_suffix("").parts]): path
        for path in folder.rglob("*.py")
        if path.stem != "__init__"
    }
    needs = {
        module: {
            known
            for name, _ in imports(package, path)
            for known in (name, name.rpartition(".")[0])
            if known in paths
        }
        for module, path in paths.items()
    }
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            found.append(path[path.index(module) :])
        elif module not in done:
            for needed in sorted(needs[module]):
                visit(needed, [*path, module])
            done.add(module)

    for module in paths:
        visit(module, [])
    return found


@pytest.mark.parametrize("package", FOLDERS)
def test_no_modules_import_each_other(package: str) -> None:
    assert [" -> ".join(circle) for circle in circles(package)] == []


@pytest.mark.parametrize("package", FLOORS)
def test_every_module_has_a_room(package: str) -> None:
    rooms = {entry.stem for entry in FOLDERS[package].iterdir() if not entry.name.startswith("_")}
    rooms -= {"references", "py", *(name for name in rooms if name.startswith("."))}
    assert rooms == set().union(*FLOORS[package]), "give it a floor in FLOORS"


@each(
    "path",
    [
        pytest.param(path, id=str(path.relative_to(ROOT)))
        for folder in (
            "benchmarks",
            "catalog",
            "docs",
            "examples",
            "grid",
            "kernels",
            "src",
            "tests",
        )
        for path in sorted((ROOT / folder).rglob("*.py"))
    ],
)
def test_no_module_imports_a_folder_by_its_bare_name(path: Path) -> None:
    bare = re.compile(r"^ *(?:from|import) ((?:kernels|grid|catalog)\b.*)", re.MULTILINE)
    names = bare.findall(path.read_text(encoding="utf-8"))
    assert not names, f"write fleetcube.{names[0]}"


# Engines and the packages above them contain no name of the physics: they ask by role

NAMES = frozenset({*INPUTS, *dict(QUANTITIES)})
ENGINES = ("kernels/graph", "kernels/calculus", "kernels/engines")
BY_ROLE = [
    pytest.param(path, id=str(path.relative_to(ROOT)))
    for folder in (
        *(*ENGINES, "grid", "src/fleetcube/scenario"),
        # Of the rest of the application, all but commands and what reads tables, logs and files
        *("src/fleetcube/analysis", "src/fleetcube/tables", "src/fleetcube/presentation"),
        "src/fleetcube/schedules",
    )
    for path in sorted((ROOT / folder).rglob("*.py"))
]
# Modules about one topic, which may name it
TOPICS = {
    "src/fleetcube/analysis/calibrations.py": "what calibrations say of the time of a step",
    "src/fleetcube/schedules/job_schedule.py": "one job's schedule, played",
    "src/fleetcube/schedules/schedule.py": "one pipeline's schedule, played",
    "src/fleetcube/analysis/simulate.py": "failures and checkpoints of one job, played",
    "src/fleetcube/analysis/step_parts.py": "what adds up to the time of a step, part within part",
    "src/fleetcube/analysis/terms.py": "what adds up to the time of a step and to that of a job",
    "src/fleetcube/analysis/diagnose.py": "one step: its parts, and what may slow it",
    "src/fleetcube/analysis/traffic.py": "the tiers of a network, and the traffic across them",
    "src/fleetcube/analysis/wall.py": "what ends the gain of more GPUs",
    "src/fleetcube/scenario/auto.py": "what tells apart the steps that coefficients were fitted to",
    "src/fleetcube/presentation/init_spec.py": "what a starter spec states",
    "src/fleetcube/scenario/remarks.py": "racks, and what powers nodes",
    "src/fleetcube/scenario/framework.py": "what runs with pipeline stages",
    "src/fleetcube/scenario/hardware.py": "slices, nodes and network cards",
    "src/fleetcube/analysis/levers.py": "what a job may change where failures wait",
    "src/fleetcube/analysis/layouts.py": "layouts, and what is said of them",
    "src/fleetcube/presentation/pictures/kinds.py": "losses, the roofline and job time",
    "src/fleetcube/presentation/pictures/step_picture.py": "the picture of a step's time",
    "src/fleetcube/presentation/pictures/timeline.py": "the picture of a job's time",
}
# Words that coincide with names
WORDS = {
    "kernels/graph/roles.py": {"infeasible_reason"},  # a name of the engine
    "src/fleetcube/presentation/pictures/picture.py": {
        "ettr",
        "hfu",
        "mfu",
        "pue",
    },  # abbreviations, in upper case
    "src/fleetcube/presentation/pictures/topology_picture.py": {"sites"},  # a kind of traffic
    "src/fleetcube/tables/tables.py": {"feasible"},  # the heading of a column
}


@each("path", BY_ROLE)
def test_physics_is_asked_by_role_and_not_by_name(path: Path) -> None:
    module = path.relative_to(ROOT).as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    written = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)} & NAMES
    if module in TOPICS:
        assert written, "no name is left: take it out of TOPICS"
    else:
        assert written == WORDS.get(module, set()), "make it a column of inputs.py or a role"


def test_no_two_rooms_have_a_module_of_one_name() -> None:
    """But a command's, which is named as the command, and tables of the physics' topics."""
    names: dict[str, list[str]] = {}
    for package, path in modules():
        here = path.relative_to(FOLDERS[package]).with_suffix("")
        apart = {"commands", "physics"} & {*here.parts}
        if not apart and not path.stem.startswith("__") and here.parent != Path("."):
            names.setdefault(path.stem, []).append(f"{package}.{'.'.join(here.parts)}")
    assert [homes for homes in names.values() if len(homes) > 1] == []


MOST_LINES = 60  # of a function, without its docstring


def lines_of_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Functions of a module, and their lines without the docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if ast.get_docstring(node) is not None:
                lines -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            yield node.name, lines


@each(("package", "path"), MODULES)
def test_a_function_is_short(package: str, path: Path) -> None:
    long = {name: n for name, n in lines_of_functions(path) if n > MOST_LINES}
    assert not long, f"split by ideas what is longer than {MOST_LINES} lines: {long}"


# Packaging


def test_every_package_is_listed() -> None:
    # Editable installs find unlisted packages, wheels lack them.
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    found = {
        ".".join([package, *path.parent.relative_to(folder).parts])
        for package, folder in FOLDERS.items()
        for path in folder.rglob("__init__.py")
    }
    assert set(settings["setuptools"]["packages"]) == found
    assert set(settings["setuptools"]["package-dir"]) == set(FOLDERS)


def test_every_folder_of_modules_is_a_package() -> None:
    for _, path in modules():
        assert (path.parent / "__init__.py").exists(), path


# What loads when


def loaded(code: str, whole: bool = False) -> set[str]:
    """Modules that a fresh interpreter has loaded after some code; top-level, or `whole` names."""
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    names = result.stdout.split()
    return {*names} if whole else {name.partition(".")[0] for name in names}


HEAVY = {"dask", "jax", "matplotlib", "numba", "pandas", "pint", "pydantic", "xarray", "zarr"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded("import fleetcube") & {*HEAVY, "numpy"} == set()


# Not by click.testing, whose pdb loads asyncio on Python 3.14
CALL = (
    "import contextlib, io; from fleetcube.cli import cli\n"
    "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): cli.main({})"
)


def test_help_loads_no_command() -> None:
    names = loaded(CALL.format(["--help"]), whole=True)
    assert {name.partition(".")[0] for name in names} & {*HEAVY, "asyncio", "numpy"} == set()
    assert {name for name in names if name.startswith("fleetcube.commands.")} == {
        f"fleetcube.commands.{name}"
        for name in ("shared", *(f"shared.{n}" for n in ("errors", "listing", "progress", "say")))
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_loads_nothing_heavy(command: str) -> None:
    assert loaded(CALL.format([command, "--help"])) & {*HEAVY, "asyncio", "numpy"} == set()


def test_the_catalog_loads_no_engine() -> None:
    names = loaded(CALL.format(["catalog"]))
    assert names & {"asyncio", "dask", "jax", "matplotlib", "numba", "xarray", "zarr"} == set()


def test_every_module_of_commands_is_a_command() -> None:
    """What several of them share is in `commands/shared`."""
    folder = FOLDERS["fleetcube"] / "commands"
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    homes = {getattr(COMMANDS[name].callback, "__module__", "") for name in COMMANDS}
    assert {f"fleetcube.commands.{module}" for module in modules} == homes


@pytest.mark.parametrize(
    "code",
    [
        "from fleetcube.kernels.physics.graph import PHYSICS; PHYSICS.quantities",
        "import fleetcube; fleetcube.catalog.record('gpu', 'h100-sxm').values",
        "import fleetcube; fleetcube.Sweep",
    ],
)
def test_describing_a_sweep_loads_no_engine(code: str) -> None:
    # pint loads dask where it is installed, and older releases of dask load xarray
    hidden = f"import sys; sys.modules['dask'] = None; {code}"
    assert loaded(hidden) & {"jax", "matplotlib", "numba", "xarray", "zarr"} == set()


@pytest.mark.parametrize(
    ("call", "absent"),
    [
        ("virtual()", {"dask", "yaml", "zarr"}),
        ("to_zarr('a.zarr')", {"dask", "pandas", "xarray", "yaml", "zarr"}),
    ],
)
def test_opening_and_storing_load_no_more_than_they_need(
    call: str, absent: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = "fleetcube.Sweep({}, {'n_gpus': [8, 64]}, ['cluster_mtbf'])"
    assert loaded(f"import fleetcube; {sweep}.{call}") & absent == set()


# Private parts of other libraries, which any release may change

# Internal parts that the libraries' manuals recommend for extensions; `make oldest` and the suite
# try each with the oldest release allowed and with the newest
EMBEDDED = "src/fleetcube/functions/embedded"
FENCED = {
    ("src/fleetcube/tables/elementwise.py", "xarray.core.indexing"): (
        ("LazilyIndexedArray", "ExplicitIndexer", "VectorizedIndexer"),
        "xarray, How to add a new backend",
    ),
    ("src/fleetcube/tables/elementwise.py", "._in_memory"): (
        (),
        "no public name; test_accessor.py tries it",
    ),
    ("grid/run/virtual.py", "xarray.core.indexing"): (
        ("LazilyIndexedArray", "ExplicitIndexer", "VectorizedIndexer"),
        "xarray, How to add a new backend",
    ),
    ("kernels/engines/intrinsics.py", "numba.core.cgutils"): (
        ("alloca_once",),
        "numba, Low-level extension API",
    ),
    ("src/fleetcube/stop.py", "._exit"): (
        (),
        "os documents it, as the way out that waits for nothing",
    ),
    ("src/fleetcube/calibration/probe_script.py", "._scaled_mm"): (
        (),
        "PyTorch's 8-bit product, public under another name since 2.10; left out where it fails",
    ),
    **{
        (f"{name}.py", "numba.core.types"): (("float64", "int8"), "likewise")
        for name in (EMBEDDED, "kernels/engines/intrinsics", "kernels/engines/scalar")
    },
    **{
        (f"{name}.py", "numba.core.registry.cpu_target"): (
            ("typing_context", "target_context"),
            "numba, Notes on Target Extensions",
        )
        for name in (EMBEDDED, "kernels/engines/overloads", "kernels/engines/point_code")
    },
    # numba releases no machine code: compiling without its dispatchers has no public interface
    **{
        ("kernels/engines/point_code.py", name): (names, "test_kernel_cache.py tries it")
        for name, names in {
            "numba.core.codegen.JITCPUCodegen": ("_add_module", "_module_pass_manager"),
            "numba.core.codegen.AOTCodeLibrary": ("emit_native_object",),
            "numba.core.compiler.Flags": ("no_compile", "no_cfunc_wrapper"),
            "numba.core.compiler.compile_extra": ("__call__",),
            "numba.core.compiler_lock.global_compiler_lock": ("__enter__",),
            "numba.core.sigutils": ("normalize_signature",),
            "._dynfunc": (),
        }.items()
    },
    **{
        ("kernels/engines/machine_code.py", name): ((), "likewise")
        for name in ("._dispose", "._ptr")
    },
    ("tests/draws.py", "hypothesis.internal.conjecture.providers"): ((), "tests alone draw"),
    **{
        ("tests/" + name, what): ((), "numpy.show_runtime() prints them, and returns nothing")
        for name in ("machines.py", "test_machines.py")
        for what in ("numpy._core._multiarray_umath", "._core")
    },
    ("tests/draws.py", "._local_constants"): ((), "likewise, of releases that have it"),
    ("benchmarks/peers/calculon_points.py", "._llm_block"): ((), "a peer of one release"),
    ("benchmarks/peers/mlsysim_points.py", "mlsysim.core.units.ureg"): ((), "likewise"),
}
EVERYWHERE = [
    path
    for folder in (*FOLDERS.values(), *(ROOT / name for name in ("benchmarks", "docs", "tests")))
    for path in sorted(folder.rglob("*.py"))
]


_OWN = re.compile(r"(?:def|class) (_\w+)|\b(_\w+)(?=(?:, [\w., ]+|: [^=\n]+)? = )")
_USED = re.compile(r"(?<=[\w)\]])\._[a-z]\w*")
_IMPORTED = re.compile(r"^ *(?:from|import) ((?!\.)[\w.]+)(?: import ([\w, ]+))?", re.MULTILINE)


def private(text: str, own: set[str]) -> Iterator[str]:
    """Internal modules of other libraries that a module imports, and private names that it uses."""
    for module, names in _IMPORTED.findall(text):
        top = module.partition(".")[0]
        for name in names.split(", ") if names else [""]:
            parts = f"{module}.{name.partition(' ')[0]}".rstrip(".").split(".")
            hidden = any(part in ("core", "internal") or part[:1] == "_" for part in parts[1:])
            if hidden and top not in {"fleetcube", "docs", "tests", *STANDARD}:
                yield ".".join(parts)
    yield from {name for name in _USED.findall(text) if name[1:] not in own}


def test_private_names_of_other_libraries_are_used_where_it_is_said_only() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in EVERYWHERE}
    own = {
        "_fields_",
        *(name for text in texts.values() for row in _OWN.findall(text) for name in row),
    }
    used = {
        (path.relative_to(ROOT).as_posix(), name)
        for path, text in texts.items()
        if path != Path(__file__)
        for name in private(text, own)
    }
    assert used == FENCED.keys(), "use what is public, or say in FENCED why not"


@pytest.mark.parametrize(
    "module", sorted({module for (_, module), (names, _) in FENCED.items() if names})
)
def test_what_is_fenced_is_there(module: str) -> None:
    """`make oldest` runs this with the oldest release that pyproject.toml allows."""
    home, _, last = module.rpartition(".")
    found = getattr(importlib.import_module(home), last, None) or importlib.import_module(module)
    names = next(names for (_, name), (names, _) in FENCED.items() if name == module)
    release = version(module.partition(".")[0])
    missing = [name for name in names if not hasattr(found, name)]
    assert not missing, f"{module} {release} lacks {missing}; narrow the bounds in pyproject.toml"


def test_the_engines_own_tests_know_no_physics() -> None:
    for path in sorted((ROOT / "tests" / "engine").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert "physics" not in f"{node.module}", f"{path.name}, line {node.lineno}"
                assert "catalog" not in f"{node.module}", f"{path.name}, line {node.lineno}"


# How formulas are written


@each("path", [pytest.param(p, id=p.name) for p in FORMULAS])
def test_formulas_use_no_powers(path: Path) -> None:
    # a ** b calls a library whose last bit differs from engine to engine; a * a and sqrt do not.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.BinOp | ast.AugAssign):
            assert not isinstance(node.op, ast.Pow), f"line {node.lineno}: write the product"
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("power", "float_power"), f"line {node.lineno}"


def test_laws_take_numpy_from_ops() -> None:
    # NumPy's own functions refuse JAX's tracers, and make NumPy arrays of its arrays.
    for path in (ROOT / "kernels" / "laws").glob("*.py"):
        assert "numpy" not in {name for name, _ in imports("fleetcube.kernels", path)}, path.stem


def test_formulas_read_numpy_and_functions_and_nothing_else() -> None:
    # Other globals would be missing from fingerprints, which hash all reasons and rows' values
    formulas = {f for quantity in PHYSICS.quantities.values() for f in quantity.formulas.values()}
    for function in {used for formula in formulas for used in dependencies(formula)}:
        names = set(function.__code__.co_names) & set(function.__globals__)
        for value in (function.__globals__[name] for name in names):
            known = value is np or value is ops.np or value is reasons
            known |= is_row(function) and value is function.__globals__["VALUE"]
            assert known or isinstance(value, types.FunctionType), function.__name__
        assert function.__closure__ is None
        assert function.__defaults__ is None
