"""The memory of a GPU as an account, component by component and tensor by tensor."""

from typing import Any

from ...kernels.roles import REASON
from ..errors import InputError
from ..show.tables import meanings, memory_use

_KEPT = "resident_activations_per_layer"
# Components of memory_per_gpu: what they are, and what makes each smaller
COMPONENTS = {
    "weights_memory": ("weights", "zero_stage = 3, tensor_parallel, pipeline_parallel"),
    "gradients_memory": ("gradients", "zero_stage = 2, gradient_storage = bf16"),
    "optimizer_memory": ("optimizer states", "zero_stage = 1, moment_bytes = 2, offload = cpu"),
    "logits_memory": ("logits", "tensor_parallel, micro_batch_size"),
    "working_memory": ("the layer at work", "micro_batch_size, tensor_parallel"),
}
_RESERVED = ("context, buffers, fragments", "reserved_memory")
# Tensors of a layer that modules free or move, per token
TENSORS = {
    "norm_inputs_per_token": ("inputs of norms", "recompute = full, sequence_parallel"),
    "mixer_norm_output_per_token": ("outputs of norms before attention", "recompute = layernorm"),
    "attention_inputs_per_token": (
        "queries, keys, values",
        "recompute = mla_up_proj, offload_core_attn",
    ),
    "attention_output_per_token": ("attention's output", "offload_attn_proj"),
    "latents_per_token": ("latents", "offload_qkv_linear"),
    "ffn_norm_output_per_token": (
        "outputs of norms before feed-forward",
        "recompute = layernorm or mlp",
    ),
    "dense_ffn_activations_per_token": ("inside dense feed-forward", "recompute = mlp"),
    "routed_ffn_activations_per_token": (
        "routed experts",
        "recompute = moe_act or moe, offload_expert_fc1, offload_moe_act",
    ),
    "shared_ffn_activations_per_token": ("shared experts", "recompute = shared_experts"),
    "score_activations_per_token": ("attention's scores", "attention_kernel = flash"),
}
NEEDED = (
    *(REASON, "memory_per_gpu", "memory_margin", "memory_per_gpu_high", "activation_memory"),
    *(*COMPONENTS, *TENSORS, _KEPT, "microbatch_tokens", "offloaded_activations_per_layer"),
)

Row = tuple[str, float, str]


def rows(point: Any) -> list[Row]:
    """Lines of the account at one point with NEEDED: name, bytes and what makes it smaller, the
    largest first. They add up to `memory_per_gpu`."""
    if several := [str(dim) for dim in point["memory_per_gpu"].dims]:
        raise InputError(f"an account is of one point; cut the axes: {', '.join(several)}=value")
    found = {name: float(point[name]) for name in NEEDED if name in point}
    kept = found["activation_memory"] - found["logits_memory"]
    lines = [(what, found[name], how) for name, (what, how) in COMPONENTS.items()]
    beside = found["memory_per_gpu"] - kept - sum(size for _, size, _ in lines)
    lines.append((_RESERVED[0], beside, _RESERVED[1]))
    layers = kept / found[_KEPT] if found[_KEPT] > 0 else 0.0  # times micro-batches in flight
    tokens = layers * found["microbatch_tokens"]
    tensors = [(what, tokens * found[name], how) for name, (what, how) in TENSORS.items()]
    if not found["latents_per_token"]:  # norms are fused to matrices, and nothing is projected up
        plain = {
            "queries, keys, values": "offload_core_attn",
            "outputs of norms before attention": "",
        }
        tensors = [(what, size, plain.get(what, how)) for what, size, how in tensors]
    moved = layers * found["offloaded_activations_per_layer"]
    rest = kept + moved - sum(size for _, size, _ in tensors)
    lines += tensors
    lines.append(("computed again" if rest < 0 else "states of linear attention", rest, ""))
    lines.append(("on the host", -moved, ""))
    some = [line for line in lines if abs(line[1]) > 1e-9 * found["memory_per_gpu"]]
    return sorted(some, key=lambda line: -line[1])


def text(point: Any) -> str:
    """The account as a table, and how much of the GPU's memory it is."""
    told = [(what, f"{size / 1e9:.2f}", how) for what, size, how in rows(point)]
    whole = float(point["memory_per_gpu"])
    told.append(("all", f"{whole / 1e9:.2f}", ""))
    head = ("memory of a GPU", "GB", "made smaller by")
    wide = [max(len(row[column]) for row in (head, *told)) for column in range(2)]
    lines = [
        f"{what:<{wide[0]}}  {size:>{wide[1]}}  {how}".rstrip() for what, size, how in [head, *told]
    ]
    used = memory_use(point)
    if int(point[REASON]) > 0:
        why = meanings(point[REASON].attrs, point[REASON].values.reshape(1))[0]
        used = f"{used}\nIt cannot run: {why}"
    return "\n".join([*lines, *(["", f"{used}."] if used else [])])
