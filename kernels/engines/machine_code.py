"""Machine code from LLVM's language, released with the last reference to it. No numba: importing it
and preparing its compiler would take a second."""

import ctypes
import functools
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

LEVEL = 3  # at which loops are vectorised


@dataclass(frozen=True)
class Loaded:
    """A callable that owns its machine code, and the address of that."""

    call: Callable[..., Any]
    address: int


@functools.cache
def processor() -> tuple[str, str, str]:
    """Platform, name and features of the processor; numba's variables override the last two."""
    name = os.environ.get("NUMBA_CPU_NAME") or llvm.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES")
    if features is None:
        features = llvm.get_host_cpu_features().flatten()
    return llvm.get_process_triple(), name, features


@functools.cache
def _ready() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@functools.cache
def _target() -> Any:
    _ready()
    triple, name, features = processor()
    kind = llvm.Target.from_triple(triple)
    reloc = "static" if kind.name.startswith("x86") else "default"
    return kind.create_target_machine(name, features, LEVEL, reloc, "jitdefault", jit=True)


def freed(managers: Any) -> Any:
    """Free a pass manager (0.4 MB a kernel) with its last reference.

    llvmlite means to, but its method is hidden by one of the same name in a base class.
    """
    if isinstance(managers, tuple) and type(managers[0])._dispose is ffi.ObjectRef._dispose:
        kind = "Module" if isinstance(managers[0], llvm.ModulePassManager) else "Function"
        free = getattr(ffi.lib, f"LLVMPY_DisposeNew{kind}PassManger")
        weakref.finalize(managers[0], free, managers[0]._ptr).atexit = False
    return managers


def compiled(text: str) -> bytes:
    """A module as an object file."""
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = processor()[0], str(_target().target_data)
    tuning = llvm.create_pipeline_tuning_options(LEVEL)
    tuning.loop_vectorization = tuning.slp_vectorization = True
    builder = llvm.create_pass_builder(_target(), tuning)
    passes, _ = freed((builder.getModulePassManager(), builder))
    passes.run(module, builder)
    return bytes(_target().emit_object(module))


def engine_of(code: bytes) -> Any:
    """The engine that owns the code of an object file."""
    _ready()
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def load(code: bytes, *kinds: Any) -> Loaded:
    """The function `kernel` of an object file, without a result; `kinds` are its parameters'."""
    engine = engine_of(code)
    address = engine.get_function_address("kernel")
    call: Any = ctypes.CFUNCTYPE(None, *kinds)(address)
    call.engine = engine  # kept alive with the function
    return Loaded(call, address)
