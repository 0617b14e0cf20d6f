"""Labels of the calibrations of published runs, by software and GPU."""

import re
from collections.abc import Callable, Iterator

from fleetcube.calibration.row import Row
from fleetcube.catalog import NONE, kind

STACK_BY_GROUP = {
    "sc21_table1": "megatron",
    "korthikanti_table5": "megatron",
    "mlperf_gpt3": "megatron",
    "mlperf_llama31_405b": "megatron",
    "nemo_longseq": "nemo",
    "nemo_summary": "nemo",
    "opt_175b": "megatron",
    "megascale_fig9": "megatron",
    "megascale_table2": "megatron",
    "korthikanti_table4": "megatron",
    "vtrain_multi": "deepspeed",
    "vtrain_single": "deepspeed-node",
    "bloom_prequel": "jean-zay",
    "bloom_176b": "jean-zay",
    "mosaic": "fsdp",
    "torchtitan": "torchtitan",
    "megatron_bridge": "bridge",
    "simumax_b200": "simumax",
}
_WIDER = {"jean-zay": "deepspeed", "deepspeed-node": "deepspeed"}
_KIN = {"b200": "gb200", "gb200": "b200", "b300": "gb300", "gb300": "b300"}
_ALIKE = {"mxfp8": "fp8", "fp8_blockwise": "fp8"}  # as many bits, without rows of their own
CONTAINER = re.compile(r"\b(\d\d)\.(\d\d)(?:\.\d\d)? NeMo Container")


def calibration_for(row: Row, known: Callable[[str], bool]) -> str:
    """The label of the most specific known calibration; NONE without any. Labels are
    "stack-generation[-precision][-fused]", as in "bridge-moe-gb200-mxfp8-fused"; a run without
    its own takes that of a wider set, and lastly Megatron's on its generation."""
    return next((label for label in candidates(row) if known(label)), NONE)


def candidates(row: Row) -> Iterator[str]:
    """Labels of calibrations, the most specific first."""
    stack, generation = STACK_BY_GROUP.get(row.group), _generation(row)
    if stack is None or generation is None:
        return
    precision = str(row.inputs.get("precision", ""))
    ends = [word for word in (precision, _ALIKE.get(precision)) if word]
    if row.inputs.get("grouped_products") == "fused":
        ends = [end for word in ends for end in (f"{word}-fused", word)]
    for name in _variants(stack, row):
        for end in ends:
            yield f"{name}-{generation}-{end}"
        yield f"{name}-{generation}"
    kin = _KIN.get(generation)
    if kin:  # the same chip
        yield from (f"{name}-{kin}-{end}" for name in _variants("bridge", row) for end in ends)
    if stack in _WIDER:
        yield from (f"{_WIDER[stack]}-{generation}-{end}" for end in ends)
    yield f"megatron-{generation}"


def _variants(stack: str, row: Row) -> Iterator[str]:
    """Names of a stack by what changes its kernels: experts, or PyTorch without its compiler."""
    if _has_experts(row):
        yield f"{stack}-moe"
    if stack == "torchtitan" and any(note.startswith("eager") for note in row.notes):
        yield f"{stack}-eager"
    yield stack


def _has_experts(row: Row) -> bool:
    model = kind("model").get(str(row.inputs.get("model")))
    return model is not None and bool(model.values.get("mixture_of_experts"))


def _generation(row: Row) -> str | None:
    """The first word of the GPU's label: a100, gb200."""
    node = kind("node").get(str(row.inputs.get("node")))
    gpu = row.inputs.get("gpu", node.values.get("gpu") if node else None)
    return str(gpu).partition("-")[0] if gpu else None
