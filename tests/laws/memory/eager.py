"""Tensors that autograd keeps of layers run op by op, and of those that kernels fuse: played."""

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

from ...evaluated import value, values
from ..check import Pairs, check

TOKENS, LAYERS = 32, 2


@dataclass(eq=False)
class Tensor:
    """An activation of one token."""

    width: float
    bytes_each: float = 2.0


@dataclass
class Tape:
    """What backward passes of PyTorch's operations read, each once (derivatives.yaml)."""

    saved: set[Tensor] = field(default_factory=set)

    def cast(self, x: Tensor, bytes_each: float) -> Tensor:
        return Tensor(x.width, bytes_each)  # its gradient is cast back

    def mm(self, x: Tensor, width: float) -> Tensor:
        self.saved |= {x}
        return Tensor(width)

    def mul(self, *operands: Tensor) -> Tensor:
        self.saved |= {*operands}
        return Tensor(operands[0].width, operands[0].bytes_each)

    def silu(self, x: Tensor) -> Tensor:
        self.saved |= {x}
        return Tensor(x.width)

    def attention(self, *parts: Tensor) -> Tensor:
        out = Tensor(parts[0].width)
        self.saved |= {*parts, out}
        return out

    def rms_norm(self, x: Tensor, fused: bool) -> Tensor:
        if fused:
            self.saved |= {x}
            return Tensor(x.width)
        whole = self.cast(x, 4)
        normed = self.mul(whole)  # with rsqrt(mean(x^2)), a number; pow keeps the same FP32 copy
        return self.mul(self.cast(normed, 2))  # with the weights

    def swiglu(self, x: Tensor, width: float, fused: bool) -> Tensor:
        gate, up = self.mm(x, width), self.mm(x, width)
        if fused:
            self.saved |= {gate, up}
            return self.mm(Tensor(width), x.width)
        return self.mm(self.mul(self.silu(gate), up), x.width)

    def size(self) -> float:
        return sum(each.width * each.bytes_each for each in self.saved)


def layer(job: dict[str, Any], fused: bool, scores: float) -> float:
    """Bytes per token that a layer keeps; `scores` the bytes in which they multiply outputs."""
    tape, x = Tape(), Tensor(job["hidden_size"])
    read = tape.rms_norm(x, fused)
    heads = (job["attention_heads"], job["kv_heads"], job["kv_heads"])
    tape.mm(tape.attention(*(tape.mm(read, n * job["head_size"]) for n in heads)), x.width)
    read = tape.rms_norm(Tensor(x.width), fused)
    if "experts" not in job:
        tape.swiglu(read, job["ffn_hidden_size"], fused)
        return tape.size()
    tape.saved |= {read}  # the router's
    for _ in range(job["experts_per_token"]):
        out = tape.swiglu(Tensor(x.width), job["expert_ffn_hidden_size"], fused)
        if scores:
            tape.mul(tape.cast(out, scores))
    if job["shared_experts"]:
        tape.swiglu(read, job["shared_experts"] * job["expert_ffn_hidden_size"], fused)
    return tape.size()


@check(
    "norm_copy_bytes activation_output_bytes norm_inputs_per_token "
    "ffn_bytes_per_width expert_routed_ffn_activations_per_token",
    by="simulator",
    source="operations of torchtitan's block and experts (torchtitan/models/norms.py and "
    "torchtitan/models/llama/model.py at e846b69; torchtitan/models/moe/moe.py at bb308da), with "
    "what each keeps: PyTorch, tools/autograd/derivatives.yaml",
    tolerance=1e-12,
)
def layers_op_by_op() -> Pairs:
    """dense layers and experts, fused and op by op, with scores that multiply outputs or not"""
    dense = {"ffn_hidden_size": 352, "gated_ffn": True, "vocab_size": 100, "layers": LAYERS}
    experts = {"experts": 8, "experts_per_token": 3, "expert_ffn_hidden_size": 48}
    for fused, shared, scores in itertools.product((True, False), (None, 0, 2), (0, 2, 4)):
        job: dict[str, Any] = {
            **dense, "hidden_size": 128, "attention_heads": 8, "kv_heads": 2, "head_size": 16,
            "sequence_length": TOKENS, "micro_batch_size": 1, "n_gpus": 1, "recompute": False,
        }  # fmt: skip
        if shared is not None:
            job |= {**experts, "shared_experts": shared, "dense_layers": 0}
        run = job | {"compile": fused, "expert_output_bytes": scores}
        got = values(["activation_memory_per_layer"], **run)["activation_memory_per_layer"]
        yield got, TOKENS * layer(job, fused, scores)


@check(
    "logit_bytes",
    by="simulator",
    source="PyTorch, torch/nn/functional.py (cross_entropy), tools/autograd/derivatives.yaml "
    "(_log_softmax keeps its result)",
)
def losses_op_by_op() -> Pairs:
    """the most bytes of a logit at once: a fused kernel's, and those of eager operations"""
    # the result of the head, its FP32 copy, log-probabilities; then gradients, as they come and go
    steps = ["+logits 2", "+whole 4", "+logp 4", "-whole", "-logits"]
    steps += ["+grad logp 4", "+grad whole 4", "-grad logp", "-logp", "+grad 2", "-grad whole"]
    for fused, program in ((True, ["+logits 2", "+grad 2", "-logits"]), (False, steps)):
        held, most = dict[str, float](), 0.0
        for step in program:
            name, _, size = step[1:].rpartition(" ") if step[0] == "+" else (step[1:], "", "")
            held = (
                {**held, name: float(size)}
                if size
                else {k: v for k, v in held.items() if k != name}
            )
            most = max(most, math.fsum(held.values()))
        run = {"micro_batch_size": 1, "sequence_length": TOKENS, "vocab_size": 1000, "n_gpus": 1}
        got = values(["microbatch_logits"], compile=fused, **run)["microbatch_logits"]
        yield got, TOKENS * 1000 * most


@check(
    "resharded_gathered_weights_memory held_gathered_weights_memory",
    by="derivation",
    source="matrices of Llama 3 8B, and torchtitan/parallelisms/parallelize_llama.py at e846b69 "
    "(the outermost unit has embedding and head)",
    tolerance=1e-9,
)
def tables_gathered() -> Pairs:
    """Llama 3 8B on 1 to 4 tensor ranks: a layer of 4096 x (2 x 5120 + 3 x 14336), two tables"""
    for ranks in (1, 2, 4):
        whole = value(
            "gathered_weights_memory", model="llama-3-8b", n_gpus=8, tensor_parallel=ranks,
            zero_stage=3, reshard_after_forward=False, gathered_tables=2,
        )  # fmt: skip
        yield whole, 2 * 8.03e9 / ranks
        got = values(
            ["gathered_weights_memory"], model="llama-3-8b", n_gpus=8, tensor_parallel=ranks,
            zero_stage=3, gathered_tables=2,
        )  # fmt: skip
        layer_weights = 4096 * (2 * 5120 + 3 * 14336)
        yield got["gathered_weights_memory"], 2 * (layer_weights + 2 * 128256 * 4096) / ranks


@check(
    "row_scaled_peak_flops",
    by="table",
    source="torchao, docs/source/workflows/training.md (2210df8): steps of Llama 3 8B on 8 GPUs "
    "with a scale a row over those with a scale a tensor, on H100, B200 and MI300X",
    tolerance=0.1,
)
def scales_of_rows() -> Pairs:
    """Llama 3 8B, one sequence of 8,192 tokens a GPU, on 3 GPUs: one share of the rate for all"""
    job: dict[str, Any] = {
        "model": "llama-3-8b", "n_gpus": 8, "sequence_length": 8192, "global_batch_size": 8,
        "zero_stage": 3, "recompute": "alternate_products", "compute_model": "roofline",
        "precision": "fp8", "software": "torchtitan", "calibration": "none",
    }  # fmt: skip
    published = {
        "dgx-h100": 7689.5 / 6768, "dgx-b200": 10417 / 8640.5, "mi300x-8gpu": 6166 / 5891
    }  # fmt: skip
    for node, ratio in published.items():
        row, tensor = (
            value("step_time", **job, node=node, fp8_scaling=s) for s in ("row", "tensor")
        )
        yield row / tensor, ratio
