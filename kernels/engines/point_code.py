"""Machine code of functions of one point, which Python and numba's functions call; imports numba.

numba's dispatchers never release code: one engine of the process owns all of it, and contexts refer
to what was compiled. So numba compiles to object files here, each loaded by its own engine.
"""

import ctypes
import functools
import importlib
import json
import sys
from importlib.resources import files
from typing import Any

import numba
from numba.core import sigutils
from numba.core.codegen import AOTCodeLibrary, JITCPUCodegen
from numba.core.compiler import Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from .machine_code import Loaded, engine_of, freed

# threads run kernels in parallel; x / 0 is infinite or NaN, as in NumPy, and does not raise
_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy"}

_DYNAMIC: Any = importlib.import_module("numba._dynfunc")  # functions for Python from addresses


class _Codegen(JITCPUCodegen):
    """The code generator of this processor, without an engine that would keep its code."""

    _library_class: Any = AOTCodeLibrary

    def _add_module(self, module: Any) -> None:
        pass

    def _module_pass_manager(self, *given: Any, **options: Any) -> Any:
        return freed(super()._module_pass_manager(*given, **options))

    def _function_pass_manager(self, *given: Any, **options: Any) -> Any:
        return freed(super()._function_pass_manager(*given, **options))


@functools.cache
def _target() -> Any:
    cpu_target.target_context.refresh()  # numba sets itself up at the first use
    return cpu_target.target_context.subtarget(_internal_codegen=_Codegen("fleetcube"))


def made_by() -> str:
    """Everything but a function's source that its machine code depends on."""
    modules = ("intrinsics", "point_code")
    package = files(__package__)
    texts = (package.joinpath(f"{name}.py").read_text("utf-8") for name in modules)
    return "\n".join([numba.__version__, sys.version, *texts])


def compiled(source: str, scope: dict[str, Any], signature: Any) -> bytes:
    """The function `kernel` of a source as an object file, after a line of the names in it."""
    scope = dict(scope)
    exec(compile(source, "<fleetcube kernel>", "exec"), scope)
    arguments, returns = sigutils.normalize_signature(signature)
    flags: Any = Flags()
    cpu_target.options.parse_as_flags(flags, _OPTIONS)
    flags.no_compile = flags.no_cfunc_wrapper = True  # nothing is loaded, nor called from C
    with global_compiler_lock:
        target, typing = _target(), cpu_target.typing_context
        typing.refresh()
        target.refresh()
        compiled_function = compile_extra(
            typing, target, scope["kernel"], arguments, returns, flags, {}
        )
        code = compiled_function.library.emit_native_object()
    # the code reads no Python objects: it is loaded without any
    assert not compiled_function.environment.consts
    names_in_code = compiled_function.fndesc
    names = [
        names_in_code.llvm_cpython_wrapper_name,
        names_in_code.llvm_func_name,
        names_in_code.env_name,
    ]
    return json.dumps(names).encode() + b"\n" + bytes(code)


def load(code: bytes) -> Loaded:
    """Load code from `compiled`, ready to be called."""
    head, _, data = code.partition(b"\n")
    wrapper, function, environment = json.loads(head)
    engine = engine_of(data)
    python_environment = _DYNAMIC.Environment({})
    place = engine.get_global_value_address(environment)
    ctypes.c_void_p.from_address(place).value = id(python_environment)
    call = _DYNAMIC.make_function(
        sys.modules[__name__],
        *("kernel", "", engine.get_function_address(wrapper)),
        *(python_environment, (engine,)),  # kept alive with the function
    )
    return Loaded(call, engine.get_function_address(function))
