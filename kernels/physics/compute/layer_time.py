"""Roofline time of one layer: GEMMs, attention and memory traffic."""

import numpy as np

from ...alternatives import alternative, row
from ...laws.layer import training_gemm_time
from ...ops import where


def attention_projection_time(
    microbatch_tokens,
    hidden_size,
    attention_parameters_per_layer,
    attention_heads,
    head_size,
    tensor_parallel,
    operand_bytes_per_element,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """GEMM time of a layer's query, key, value and output projections.

    GEMM(T, W_qkv / t, h) + GEMM(T, h, W_o / t); W_o = a (h / a), W_qkv = attention weights / h
    - W_o

    Returns: [s] mean time of a pass, forward or for a gradient
    Source: Shoeybi et al. 2019 (Megatron-LM), arXiv:1909.08053, section 3
    """
    output = attention_heads * head_size / tensor_parallel
    inputs = attention_parameters_per_layer / hidden_size / tensor_parallel - output
    on_gpu = (
        operand_bytes_per_element,
        bytes_per_element,
        peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )
    entering = training_gemm_time(microbatch_tokens, inputs, hidden_size, *on_gpu)
    leaving = training_gemm_time(microbatch_tokens, hidden_size, output, *on_gpu)
    return entering + leaving


def attention_score_flops(
    microbatch_tokens, kernel_attention_span, attention_heads, head_size, tensor_parallel
):
    """Operations of a layer's two attention products in the kernel, mean over layers.

    4 T x keys x a (h / a) / t

    Returns: [FLOP] operations of one forward pass
    Source: Narayanan et al. 2021 (SC21), appendix (4 B s^2 h)
    """
    width = attention_heads * head_size / tensor_parallel
    return 4 * microbatch_tokens * kernel_attention_span * width


def _is_unaligned(width, bytes_per_element):
    """Whether rows of a head are no multiple of 16 bytes; false between whole numbers, of which
    changes of a tenth and slopes ask."""
    whole = (np.floor(width) == width) & (np.floor(bytes_per_element) == bytes_per_element)
    row = width * bytes_per_element / 16
    return whole & (np.floor(row) < row)


@alternative("attention_core_time", attention_kernel="standard")
def standard_attention_core_time(
    attention_score_flops,
    kernel_attention_peak_flops,
    attention_efficiency,
    head_size,
    value_head_size,
    microbatch_tokens,
    sequence_length,
    attention_heads,
    tensor_parallel,
    bytes_per_element,
    reached_hbm_bandwidth,
):
    """Time of a layer's attention products and softmax, with scores in HBM.

    4 T s a d / (t share P) + 4 e T s a / (t BW): written, read and written by softmax, read; at
    most 3.5 % of P for heads whose rows of keys or values are no multiple of 16 bytes

    Range: 3.5 % on an A100 in 16 bits with cuBLAS of 2022: 3.2 to 3.7 % of 108 elements, 2.7 to
        4.2 % of 225; not known of other chips, of 32 bits, and of later libraries; fused kernels
        fill heads up instead; heads of 128 elements ran at 7 % in three steps there, though the
        same products were fast in others
    Source: Dao et al. 2022 (FlashAttention), arXiv:2205.14135, algorithm 0; NVIDIA, Matrix
        Multiplication Background, section 2.2 (multiples of 16 bytes); BigScience,
        train/tr11-176B-ml/chronicles-prequel.md, 13,824 wide with 64, 96 and 128 heads
    """
    scores = microbatch_tokens * sequence_length * attention_heads / tensor_parallel
    unaligned = _is_unaligned(value_head_size, bytes_per_element)
    unaligned = unaligned | _is_unaligned(2 * head_size - value_head_size, bytes_per_element)
    share = where(unaligned, np.minimum(attention_efficiency, 0.035), attention_efficiency)
    compute = attention_score_flops / (share * kernel_attention_peak_flops)
    return compute + 4 * bytes_per_element * scores / reached_hbm_bandwidth


row(
    "kernel_key_share",
    1.0,
    "every score costs as much",
    summary="Share of the attention kernel's time that grows with the keys of a query.",
    returns="[1] share of time",
    source="Dao et al. 2022 (FlashAttention), arXiv:2205.14135, algorithm 0",
    attention_kernel="standard",
)


@alternative("kernel_key_share", attention_kernel="flash")
def flash_key_share(kernel_attention_span, attention_layers, layers):
    """Share of a fused kernel's time that grows with the keys of a query.

    keys / (keys + 560 of layers with attention): blocks on the mask's edge, and start and end of
    each row of blocks, cost as much as 560 keys more

    Returns: [1] share of time
    Range: of cuDNN with causal masks, 2,048 to 32,768 tokens and 64 heads or more in 16 bits: 350
        to 810 keys; without masks 70 to 540; in FP8 540 to 690 forward, 530 to 1,520 backward on
        Blackwell; more with fewer heads; not known of other chips, nor of the few keys of a window
        or a short document; each block of a ring takes them, which is not counted
    Source: cudnn-frontend, benchmark/sdpa_benchmark_training/results (Llama 3.1 on GB200 and GB300,
        cuDNN 9.22)
    """
    some = kernel_attention_span > 0  # none in layers that only keep a state
    keys = where(some, kernel_attention_span, 1.0)
    return keys / (keys + 560 * attention_layers / layers)


@alternative("attention_core_time", attention_kernel="flash")
def flash_attention_core_time(
    attention_score_flops, kernel_key_share, kernel_attention_peak_flops, attention_efficiency
):
    """Time of a layer's attention products and softmax in a fused kernel that skips masked blocks.

    4 T x keys x a d / (t g share P): a causal mask leaves half of the scores, windows fewer, and g
    of the time is spent on them

    Returns: [s] time of one forward pass
    Source: Dao 2023 (FlashAttention-2), arXiv:2307.08691, section 3.1
    """
    rate = attention_efficiency * kernel_attention_peak_flops
    return attention_score_flops / (kernel_key_share * rate)


row(
    "attention_backward_ratio",
    2.0,
    "four products over two",
    source="Narayanan et al. 2021 (SC21), appendix",
    attention_kernel="standard",
)


@alternative("attention_backward_ratio", attention_kernel="flash")
def flash_attention_backward_ratio(head_size, value_head_size):
    """Attention time backward over forward.

    (3 d_k + 2 d_v) / (d_k + d_v) = 3 - d_v / (2 d), 2.5 of equal heads: scores once more, gradients
    of queries and of keys as wide as a key, those of scores and of values as wide as a value

    Returns: [1] backward over forward
    Range: operations, which a backward pass does at 0.7 to 0.86 of a forward pass's rate (cuDNN,
        heads of 128, causal, 16 bits; 0.62 to 0.83 with keys of 192 and values of 128)
    Source: Dao 2023 (FlashAttention-2), arXiv:2307.08691, section 3.1.2 (algorithm 2) and 4.1
    """
    return 3 - value_head_size / (2 * head_size)


def attention_backward_time_ratio(
    attention_backward_ratio,
    kernel_attention_peak_flops,
    attention_peak_flops,
    head_size,
    value_head_size,
):
    """Time of attention's backward pass over that of a forward pass, which FP8 makes faster.

    g r, g = P_kernel / P_attention: a backward pass takes as long as in 16 bits; with keys wider
    than values (MLA) g / (1 + 7 / 6 (g - 1)) r: 1.7 times as fast where g = 1.6

    Returns: [1] backward over forward
    Range: a backward pass is faster by 1.09 on GB200, 1.24 on GB300 and 0.79 on H200 (causal, heads
        of 128, 8,192 tokens); by 1.64 and 1.79 on the first two (keys of 192, values of 128); in
        MXFP8 by 0.97 and 1.3; windowed layers in FP8 are several times slower than in 16 bits
    Source: cudnn-frontend, benchmark/sdpa_benchmark_training/results (cuDNN 9.22;
        H200: 9.19), time in BF16 over that in FP8
    """
    gain = kernel_attention_peak_flops / attention_peak_flops
    faster = where(value_head_size < head_size, 1 + 7 / 6 * (gain - 1), 1.0)
    return gain / faster * attention_backward_ratio


@alternative("rotary_width", latent_attention=False)
def grouped_rotary_width(
    attention_heads, kv_heads, head_size, tensor_parallel, attention_layers, layers
):
    """Elements per token and layer of queries and keys, which positions turn.

    d (a / t + max(a_kv / t, 1)) l_a / l

    Returns: [1] elements of one token, on one GPU
    Source: Su et al. 2021 (RoFormer), arXiv:2104.09864, section 3.2
    """
    heads = attention_heads / tensor_parallel + np.maximum(kv_heads / tensor_parallel, 1.0)
    return head_size * heads * attention_layers / layers


@alternative("rotary_width", latent_attention=True)
def latent_rotary_width(attention_heads, head_size, tensor_parallel, attention_layers, layers):
    """2 a d / t l_a / l: queries and keys are put together from turned and unturned parts

    Source: Megatron-LM, megatron/core/transformer/multi_latent_attention.py (query, key)
    """
    return 2 * attention_heads * head_size / tensor_parallel * attention_layers / layers


@alternative("elementwise_time", whole_program=True)
def fused_elementwise_time(
    microbatch_tokens,
    hidden_size,
    mixer_and_ffn_blocks,
    layers,
    residual_ranks,
    ffn_matrices,
    active_ffn_width,
    tensor_parallel,
    bytes_per_element,
    reached_hbm_bandwidth,
):
    """T e (2 h blocks / (l t_s) + (0 or 1) f / t) / BW: norms' sums and residuals are read, and the
    gate; all else is fused to the products that write or read it

    Source: Snider & Liang 2023, arXiv:2301.13062 (operators fused to their producer or consumer)
    """
    residual = 2 * hidden_size * mixer_and_ffn_blocks / (layers * residual_ranks)
    gate = (ffn_matrices - 2) * active_ffn_width / tensor_parallel
    return microbatch_tokens * bytes_per_element * (residual + gate) / reached_hbm_bandwidth


@alternative("elementwise_time", whole_program=False)
def elementwise_time(
    microbatch_tokens,
    hidden_size,
    mixer_and_ffn_blocks,
    layers,
    residual_ranks,
    ffn_matrices,
    separate_ffn_width,
    tensor_parallel,
    rotary_width,
    bytes_per_element,
    reached_hbm_bandwidth,
):
    """Memory-bound time of a layer's norms, residuals, positions and activation functions.

    T e (5 h blocks / (l t_s) + (2 or 3) f / t + 2 r) / BW: of each block a norm (read, write) and a
    residual (two reads, a write), the activation function (f or 2 f read, f written), queries and
    keys (read, write); mean over layers

    Returns: [s] time of one forward pass
    Source: Ivanov et al. 2021, arXiv:2007.00072, section 4 (data movement of a layer)
    """
    residual = 5 * hidden_size * mixer_and_ffn_blocks / (layers * residual_ranks)
    activation = ffn_matrices * separate_ffn_width / tensor_parallel
    moved = microbatch_tokens * bytes_per_element * (residual + activation + 2 * rotary_width)
    return moved / reached_hbm_bandwidth


@alternative("layer_matrix_time", linear_attention=False)
def layer_matrix_time(attention_projection_time, ffn_time, elementwise_time):
    """Mean time of a layer's pass, of three, without the attention products.

    projections + feed-forward + norms, residuals and activations

    Returns: [s] mean time of a pass, forward or for a gradient
    Source: by definition
    """
    return attention_projection_time + ffn_time + elementwise_time


@alternative("layer_recompute_time", recompute=(False, "selective", "full"))
def layer_recompute_time(
    matrix_recompute_passes, layer_matrix_time, attention_recompute_passes, attention_core_time
):
    """Recomputation time of a layer's backward pass, excluding recomputation inside kernels.

    passes x matrices + passes x attention

    Returns: [s] time for one micro-batch
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 5; Chen et al. 2016,
        arXiv:1604.06174, section 3
    """
    matrices = matrix_recompute_passes * layer_matrix_time
    return matrices + attention_recompute_passes * attention_core_time


@alternative("layer_recompute_time", recompute="modules")
def module_layer_recompute_time(
    recomputed_mixer_time,
    recomputed_ffn_time,
    recomputed_elementwise_time,
    attention_recompute_passes,
    attention_core_time,
):
    """up-projections + feed-forward + norms and activations through memory + passes x attention

    Source: Megatron-LM, --recompute-modules (megatron/core/transformer/transformer_config.py)
    """
    outside = recomputed_mixer_time + recomputed_ffn_time + recomputed_elementwise_time
    return outside + attention_recompute_passes * attention_core_time


@alternative("layer_recompute_time", recompute=("alternate_products", "products"))
def product_layer_recompute_time(
    matrix_recompute_passes,
    attention_projection_time,
    ffn_time,
    elementwise_time,
    attention_recompute_passes,
    attention_core_time,
):
    """passes x products + norms, residuals and activation functions + passes x attention

    Range: a layer's second residual does not run again, but counts
    Source: MaxText (get_remat_policy); Liang et al. 2024 (TorchTitan), arXiv:2410.06511
    """
    products = matrix_recompute_passes * (attention_projection_time + ffn_time)
    return products + elementwise_time + attention_recompute_passes * attention_core_time


row("recomputed_mixer_time", 0.0, latent_attention=False)


@alternative("recomputed_mixer_time", latent_attention=True)
def latent_recomputed_mixer_time(
    recomputed_mixer_parameters, attention_parameters_per_layer, attention_projection_time
):
    """Time of projections of a layer that run again, mean over layers.

    their share of attention's weights x time of all

    Returns: [s] time for one micro-batch
    Range: latents are narrow, so that their products lose more of their rate than others
    Source: Megatron-LM, megatron/core/transformer/multi_latent_attention.py
    """
    share = recomputed_mixer_parameters / attention_parameters_per_layer
    return share * attention_projection_time


@alternative("recomputed_ffn_time", mixture_of_experts=False)
def dense_recomputed_ffn_time(recompute_mlp, ffn_time):
    """share of blocks x time of one

    Source: Megatron-LM, megatron/core/transformer/transformer_layer.py (recompute_mlp)
    """
    return recompute_mlp * ffn_time


@alternative("recomputed_ffn_time", mixture_of_experts=True)
def expert_recomputed_ffn_time(
    recompute_mlp,
    dense_layers,
    dense_ffn_time,
    recompute_moe,
    shared_recompute_passes,
    expert_layers,
    routed_ffn_time,
    shared_ffn_time,
    layers,
):
    """Time of feed-forward products of a layer that run again, mean over layers.

    (dense x block + l_e x (routed + shared)) / l, of what runs again

    Returns: [s] time for one micro-batch
    Source: Megatron-LM, megatron/core/transformer/moe/moe_layer.py
    """
    again = recompute_moe * routed_ffn_time + shared_recompute_passes * shared_ffn_time
    experts = expert_layers * again
    return (recompute_mlp * dense_layers * dense_ffn_time + experts) / layers


def recomputed_elementwise_time(
    microbatch_tokens,
    bytes_per_element,
    recomputed_mixer_norms,
    recomputed_ffn_norms,
    hidden_size,
    residual_ranks,
    ffn_matrices,
    recomputed_activation_width,
    tensor_parallel,
    reached_hbm_bandwidth,
):
    """Memory-bound time of a layer's norms and activation functions that run again, mean of layers.

    T e (2 h norms / t_s + (2 or 3) f / t) / BW: read and written

    Returns: [s] time for one micro-batch
    Source: Ivanov et al. 2021, arXiv:2007.00072, section 4 (data movement of a layer)
    """
    norms = 2 * (recomputed_mixer_norms + recomputed_ffn_norms) * hidden_size / residual_ranks
    activations = ffn_matrices * recomputed_activation_width / tensor_parallel
    moved = microbatch_tokens * bytes_per_element * (norms + activations)
    return moved / reached_hbm_bandwidth


@alternative("recomputed_mixer_norms", latent_attention=True, off=0.0)
def latent_recomputed_mixer_norms(recompute_layernorm, attention_layers, layers):
    """Norms before attention that run again, per layer: those that no matrix is fused to.

    share x l_a / l with latent attention; 0 elsewhere

    Returns: [1] norms
    Source: Megatron-LM, megatron/core/models/gpt/gpt_layer_specs.py (input_layernorm)
    """
    return recompute_layernorm * attention_layers / layers


row("recomputed_ffn_norms", "recompute_mlp", mixture_of_experts=False)


@alternative("recomputed_ffn_norms", mixture_of_experts=True)
def expert_recomputed_ffn_norms(
    recompute_mlp, dense_layers, recompute_layernorm, expert_layers, layers
):
    """Norms before feed-forward blocks that run again, per layer.

    (dense, with their block, + l_e) / l, of what runs again

    Returns: [1] norms
    Source: Megatron-LM, megatron/core/models/gpt/gpt_layer_specs.py (pre_mlp_layernorm)
    """
    return (recompute_mlp * dense_layers + recompute_layernorm * expert_layers) / layers


@alternative("recomputed_activation_width", mixture_of_experts=False)
def dense_recomputed_activation_width(recompute_mlp, ffn_hidden_size):
    """share of blocks x f

    Source: Megatron-LM, megatron/core/transformer/transformer_layer.py (recompute_mlp)
    """
    return recompute_mlp * ffn_hidden_size


@alternative("recomputed_activation_width", mixture_of_experts=True)
def expert_recomputed_activation_width(
    recompute_mlp,
    dense_layers,
    ffn_hidden_size,
    recompute_moe,
    recompute_moe_act,
    routed_visits_per_token,
    shared_recompute_passes,
    shared_experts,
    expert_layers,
    expert_ffn_hidden_size,
    layers,
):
    """Width of the activation functions that run again, mean over layers.

    (dense x f + l_e (k + E_shared) f_e) / l, of what runs again

    Returns: [1] width
    Source: Megatron-LM, megatron/core/transformer/moe/experts.py (activation_recompute)
    """
    routed = recompute_moe + (1 - recompute_moe) * recompute_moe_act
    visited = routed * routed_visits_per_token + shared_recompute_passes * shared_experts
    experts = expert_layers * visited * expert_ffn_hidden_size
    return (recompute_mlp * dense_layers * ffn_hidden_size + experts) / layers


@alternative("layer_passes_time", lora=False)
def layer_passes_time(layer_matrix_time, gradient_sum_time):
    """Time of a layer's forward and backward passes without the attention products.

    3 x matrices + sums of gradients: two backward products per forward one

    Returns: [s] time for one micro-batch
    Source: Narayanan et al. 2021 (SC21), appendix
    """
    return 3 * layer_matrix_time + gradient_sum_time


def active_lora_parameters(
    lora_parameters, active_matrix_parameters, parameters, layer_matrix_share
):
    """Parameters of the adapters that one token visits.

    N_lora N_active / N_matrices

    Returns: [1] parameters
    Range: adapters as large as their share of the matrices: of the experts not visited none
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.1, of each expert visited
    """
    return lora_parameters * active_matrix_parameters / (parameters * layer_matrix_share)


def adapter_time(
    microbatch_tokens,
    active_lora_parameters,
    lora_rank,
    layers,
    tensor_parallel,
    bytes_per_element,
    peak_flops,
    gemm_efficiency,
    reached_hbm_bandwidth,
):
    """Roofline time of a layer's adapters: narrow products in addition to the matrices'.

    T / (l t) max(2 N_lora / (share P), 3/2 e N_lora / (r BW)): inputs read, and outputs read
    and written, as wide on the mean

    Returns: [s] time of one forward pass
    Range: fused with scaling and addition, and without dropout: as separate kernels, which PEFT
        starts, twice as long
    Source: Williams et al. 2009, CACM 52(4); Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.1
    """
    flops = 2 * active_lora_parameters / (gemm_efficiency * peak_flops)
    moved = 1.5 * bytes_per_element * active_lora_parameters / lora_rank
    moved = moved / reached_hbm_bandwidth
    return microbatch_tokens / (layers * tensor_parallel) * np.maximum(flops, moved)


@alternative("layer_passes_time", lora=True)
def lora_layer_passes_time(layer_matrix_time, elementwise_time, adapter_time):
    """2 x matrices + norms, residuals and activations once more + 3 x adapters: frozen weights have
    no gradients

    Range: each takes the mean of three passes, the gradient of frozen weights among them
    Source: Hu et al. 2022 (LoRA), arXiv:2106.09685, section 4.2
    """
    return 2 * layer_matrix_time + elementwise_time + 3 * adapter_time


row(
    "kernel_wait_time",
    "layer_overhead_time",
    summary="Waits between kernels of a layer, and small ones that no formula counts.",
    returns="[s] time for one micro-batch: forward, backward and recomputation",
    source="Hockney & Jesshope 1988, Parallel Computers 2 (start-up time)",
    cuda_graphs=False,
)


@alternative("kernel_wait_time", cuda_graphs=True)
def graphed_kernel_wait_time(layer_overhead_time, graph_wait_share):
    """a share of those of kernels launched one by one

    Range: steps that are replayed whole; graphs of some modules gain less, or nothing. Llama 3 8B
        on a GB200 gained 0.5 % of a step by graphs, where a share of 1 / 4 says 3 %
    Source: Megatron-LM, --cuda-graph-impl (megatron/core/transformer/cuda_graphs.py)
    """
    return graph_wait_share * layer_overhead_time


def layer_gpu_time(
    layer_passes_time,
    attention_core_time,
    attention_backward_time_ratio,
    layer_recompute_time,
    state_recompute_time,
    kernel_wait_time,
    cast_time,
    routing_time,
    expert_recompute_passes,
):
    """Time of a layer on the GPU for one micro-batch: forward, backward and recomputation.

    matrices + (1 + r) x attention + recompute + states again + waits + casts + (2 + passes) x
    routing and sorting tokens, whose backward pass moves as much as a forward pass

    Returns: [s] time for one micro-batch
    Source: Narayanan et al. 2021 (SC21), appendix; Hockney & Jesshope 1988, Parallel Computers 2
        (start-up time); SimuMax, simumax/core/transformer/moe_module.py (backward moves as many
        bytes)
    """
    attention = (1 + attention_backward_time_ratio) * attention_core_time
    computing = layer_passes_time + attention + (layer_recompute_time + state_recompute_time)
    overheads = kernel_wait_time + cast_time + (2 + expert_recompute_passes) * routing_time
    return computing + overheads


row(
    "layer_launch_time",
    "layer_host_time",
    summary="Time in which the host launches the kernels of a layer, for one micro-batch.",
    returns="[s] time for one micro-batch: forward, backward and recomputation",
    source="Bang et al. 2024 (vTrain), arXiv:2312.12391, its 960 steps on one node",
    cuda_graphs=False,
)
row(
    "layer_launch_time",
    0.0,
    "a replayed graph of the layers is one launch",
    holds="graphs of whole layers: of those of some modules, the others' launches stay",
    source="Megatron-LM, --cuda-graph-impl (megatron/core/transformer/cuda_graphs.py)",
    cuda_graphs=True,
)


def layer_time(layer_gpu_time, layer_launch_time):
    """Time of a layer for one micro-batch: the GPU's, or the host's where that is longer.

    max(GPU, host): the host launches kernels ahead of the GPU, which waits where it has none

    Returns: [s] time for one micro-batch
    Range: a lower bound, by up to a sixth, where the GPU is late in one of both passes only: of one
        micro-batch, as a host ahead in one saves the next one waits
    Source: Bang et al. 2024 (vTrain), arXiv:2312.12391, its 960 steps on one node: flat in batch
        and width up to 3.5 ms a layer
    """
    return np.maximum(layer_gpu_time, layer_launch_time)


row(
    "launch_wait_time",
    0.0,
    "launches are in the share of peak",
    source="Narayanan et al. 2021 (SC21), section 5.1",
    compute_model="mfu",
)


@alternative("launch_wait_time", compute_model="roofline")
def roofline_launch_wait_time(
    layers, pipeline_parallel, num_microbatches, layer_time, layer_gpu_time
):
    """Time per step that a GPU waits for its host to launch kernels of layers.

    l / p x m x (layer - GPU)

    Returns: [s] wait of one step
    Range: of one micro-batch, or if the host waits for each, that of layer_time; of eight whose
        layers differ threefold, a step takes 3 % longer; too long by logits_time of each at most,
        during which the host launches on
    Source: Bang et al. 2024 (vTrain), arXiv:2312.12391, its 960 steps on one node
    """
    return layers / pipeline_parallel * num_microbatches * (layer_time - layer_gpu_time)


def logits_time(
    microbatch_tokens,
    hidden_size,
    vocab_size,
    weight_passes,
    tensor_parallel,
    bytes_per_element,
    logits_peak_flops,
    gemm_efficiency,
    gemm_half_depth,
    reached_hbm_bandwidth,
):
    """Time of embedding, logits and loss for one micro-batch, forward and backward.

    3 GEMM(T, V / t, h) (2 if frozen) + T (4 h e + 12 V / t) / BW: embedding rows are read, written
    and their gradients accumulated; FP32 logits written, read by the loss, their gradient written

    Returns: [s] time for one micro-batch
    Source: Narayanan et al. 2021 (SC21), appendix (6 B s h V operations); Shoeybi et al. 2019,
        section 3 (embeddings sharded along the vocabulary)
    """
    shard = vocab_size / tensor_parallel
    product = training_gemm_time(
        microbatch_tokens,
        shard,
        hidden_size,
        bytes_per_element,
        bytes_per_element,
        logits_peak_flops,
        gemm_efficiency,
        gemm_half_depth,
        reached_hbm_bandwidth,
    )
    moved = microbatch_tokens * (4 * hidden_size * bytes_per_element + 12 * shard)
    return weight_passes * product + moved / reached_hbm_bandwidth


row(
    "attention_key_share",
    1.0,
    "operations alone count",
    summary="Share of attention's time that grows with the keys of a query.",
    returns="[1] share of time",
    compute_model="mfu",
)
row("attention_key_share", "kernel_key_share", compute_model="roofline")


@alternative("attention_time", compute_model="mfu")
def mfu_attention_time(
    attention_flops_per_token,
    attention_recompute_passes,
    attention_backward_time_ratio,
    tokens_per_step,
    n_gpus,
    kernel_attention_peak_flops,
    flops_efficiency,
):
    """Compute time per step of the attention products.

    executed operations / (n P_attention x efficiency)

    Returns: [s] time of one step
    Source: Narayanan et al. 2021 (SC21), section 5.1; Dao 2023 (FlashAttention-2),
        arXiv:2307.08691, section 4.1
    """
    passes = (1 + attention_backward_time_ratio + attention_recompute_passes) / 3
    done = attention_flops_per_token * passes * tokens_per_step
    return done / (n_gpus * kernel_attention_peak_flops * flops_efficiency)


@alternative("attention_time", compute_model="roofline")
def roofline_attention_time(
    num_microbatches,
    layers,
    pipeline_parallel,
    attention_core_time,
    attention_backward_time_ratio,
    attention_recompute_passes,
):
    """m l / p x (1 + r + recomputed passes) x attention

    Source: Narayanan et al. 2021 (SC21), appendix, on the roofline of Williams et al. 2009
    """
    passes = 1 + attention_backward_time_ratio + attention_recompute_passes
    return num_microbatches * layers / pipeline_parallel * passes * attention_core_time
