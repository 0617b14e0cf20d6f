"""Layout of the job: shards, replicas, micro-batches, nodes."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where


@alternative("local_parameters", mixture_of_experts=False)
def dense_local_parameters(parameters, tensor_parallel, pipeline_parallel):
    """Parameters of the model shard on one GPU, for identical stages.

    N / (t p)

    Returns: [1] parameters
    Source: Narayanan et al. 2021 (SC21), section 3.3
    Example:
        >>> dense_local_parameters(1e12, 8, 16)
        7812500000.0
    """
    return parameters / (tensor_parallel * pipeline_parallel)


@alternative("local_parameters", mixture_of_experts=True)
def expert_local_parameters(
    parameters,
    routed_parameters,
    expert_parallel,
    expert_tensor_parallel,
    tensor_parallel,
    pipeline_parallel,
):
    """(N - N_routed (1 - t / (t_e e))) / (t p): routed experts are also sharded over their group

    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    shard = tensor_parallel / expert_tensor_parallel / expert_parallel
    elsewhere = routed_parameters * (1 - shard)
    return (parameters - elsewhere) / (tensor_parallel * pipeline_parallel)


def tokens_per_step(global_batch_size, sequence_length):
    """Tokens per optimizer step.

    B s

    Returns: [1] tokens of one step
    Source: by definition of the global batch (Narayanan et al. 2021, section 5.1)
    Example:
        >>> tokens_per_step(512, 8192)
        4194304
    """
    return global_batch_size * sequence_length


def microbatch_tokens(micro_batch_size, sequence_length, context_parallel):
    """Tokens of one micro-batch on one GPU.

    b s / c

    Returns: [1] tokens
    Source: by definition
    """
    return micro_batch_size * sequence_length / context_parallel


row(
    "residual_ranks",
    1.0,
    summary="Ranks that share norms and residuals: every tensor rank does them all.",
    returns="[1] ranks",
    source="Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3",
    sequence_parallel=False,
)
row(
    "residual_ranks",
    "tensor_parallel",
    source="Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2",
    sequence_parallel=True,
)


def activation_message(microbatch_tokens, hidden_size, bytes_per_element):
    """Activation bytes of one layer and micro-batch, which tensor-parallel ranks all-reduce.

    (s / c) b h e

    Returns: [B] message
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3
    """
    return microbatch_tokens * hidden_size * bytes_per_element


def expert_tensor_parallel(tensor_parallel):
    """GPUs per routed expert: the tensor-parallel size, unless stated.

    t

    Returns: [1] GPUs
    Source: Megatron-LM, --expert-tensor-parallel-size (megatron/core/parallel_state.py)
    """
    return 1.0 * tensor_parallel


@alternative("site_gradient_ranks", multi_site=False)
def one_site_gradient_ranks(data_parallel, context_parallel, parameter_copies):
    """Ranks of one site that hold the same weights and reduce their gradients.

    d c: replicas x context-parallel ranks; doubled in dualpipe

    Returns: [1] ranks
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (the "dp-cp" group)
    """
    return data_parallel * context_parallel * parameter_copies


PLAIN = ("gpipe", "1f1b", "interleaved", "combined_1f1b", "zb_h1", "zb_v", "dualpipev")


row("parameter_copies", 1.0, pipeline_schedule=PLAIN)


@alternative("parameter_copies", pipeline_schedule="dualpipe")
def mirrored_parameter_copies():
    """Pipeline stages whose weights each GPU holds: its own, and one of the other direction.

    2: stage s also holds stage p - 1 - s, and both reduce the gradients of both

    Returns: [1] copies
    Range: ZeRO-0 and 1; with ZeRO-2 and 3, gradient traffic is an upper bound, twice as long: as if
        both stages exchanged for each micro-batch
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 and table 2 (parameters: 2 times)
    """
    return 2.0


def data_parallel(n_gpus, tensor_parallel, pipeline_parallel, context_parallel):
    """Replicas of the model; undefined if the cluster holds less than one.

    d = n / (t p c), for d >= 1

    Returns: [1] data-parallel size; NaN if one replica needs more than the cluster
    Source: Narayanan et al. 2021 (SC21), section 3.1
    Example:
        >>> float(data_parallel(99968, 8, 16, 1))
        781.0
    """
    replicas = n_gpus / (tensor_parallel * pipeline_parallel * context_parallel)
    return where(replicas >= 1, replicas, np.nan)


def num_microbatches(global_batch_size, data_parallel, micro_batch_size):
    """Micro-batches per replica and step.

    m = B / (d b)

    Returns: [1] micro-batches of one step
    Source: Narayanan et al. 2021 (SC21), section 3.1
    """
    return global_batch_size / (data_parallel * micro_batch_size)


def nodes(n_gpus, gpus_per_node):
    """Nodes of the job.

    n / g

    Returns: [1] nodes
    Source: by definition
    """
    return n_gpus / gpus_per_node


row(
    "stage_chunks",
    1.0,
    "these schedules are not interleaved; in dualpipe one of each way",
    source=(
        "Huang et al. 2019 (GPipe), section 2.3; Qi et al. 2023 (zero bubble), "
        "arXiv:2401.10241; DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1"
    ),
    pipeline_schedule=("gpipe", "zb_h1", "dualpipe"),
)
row(
    "stage_chunks",
    "virtual_stages",
    source="Narayanan et al. 2021 (SC21), section 2.2",
    pipeline_schedule=("1f1b", "interleaved", "combined_1f1b"),
)


@alternative("stage_chunks", pipeline_schedule=("zb_v", "dualpipev"))
def folded_stage_chunks():
    """Model pieces per pipeline stage: the pipeline runs down and back up.

    2

    Returns: [1] pieces
    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6; dualpipe/dualpipev.py of
        github.com/deepseek-ai/DualPipe (DeepSeek-AI 2024, arXiv:2412.19437)
    """
    return 2.0
