"""Serving: drawn servers, played rank by rank and tensor by tensor."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fleetcube
from fleetcube.kernels.laws.collectives import direct_all_reduce_time

from ...draws import generator, scaled
from ..check import Pairs, check

BANDWIDTH, PEAK, SLOW, REACHED, WIRE, START, RAIL = 3e12, 2e15, 1e15, 0.75, 4e11, 5e-6, 5e10
OUTPUTS = (
    *("weights_bytes", "serving_weights_memory", "decode_weights_bytes", "decode_bytes"),
    *("decode_step_time", "prefill_time", "time_to_first_token"),
    *("request_kv_cache", "largest_serving_batch", "kv_transfer_time", "decode_exchange_time"),
)
OF_MIXERS = (
    *("linear_parameters_per_layer", "linear_vector_parameters", "linear_convolution_width"),
    "linear_state_flops_per_token",
)  # which `layer_kinds` plays


@dataclass
class Tensor:
    """A matrix or vector of the model, and how ranks of a server hold it."""

    rows: int  # of its output
    columns: int = 1
    copies: int = 1  # tensors of this shape
    held: str = "split"  # over all ranks, or with the "attention"; its "keys" or "whole"
    where: str = (
        "layer"  # of all tokens; "expert" of those routed to it; "head", "table", "vector", "short"
    )


def drawn(
    rng: np.random.Generator, attention: str, ffn: str, layer: str, apart: bool
) -> dict[str, Any]:
    """A model that ranks share out evenly, the server and its requests."""

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    t = pick(1, 2, 4, 8, 16)
    heads, layers, h = pick(16, 32, 48), int(rng.integers(3, 9)), 64 * int(rng.integers(2, 20))
    own: dict[str, Any] = {
        "tensor_parallel": t, "layers": layers, "hidden_size": h, "attention_heads": heads,
        "kv_heads": pick(1, 2, 4, 8, 16), "head_size": pick(64, 96, 128),
        "sequence_length": pick(1024, 4096), "ffn_hidden_size": 64 * int(rng.integers(2, 50)),
        "vocab_size": 128 * pick(8, 250, 1001),
        "embedding_tables": pick(1, 2), "linear_layers": 0, "attention_window": math.inf,
        "serving_batch_size": pick(1, 3, t + 1, 65) if apart else t * pick(1, 2, 32),
        "prompt_tokens": pick(1, 9, 300, 5000),
        "output_tokens": pick(1, 2, 40), "hbm_capacity": pick(8e9, 80e9),
        "serving_time_error": pick(-1.0, 0.0, 0.5),
    }  # fmt: skip
    if attention == "latent":
        key, value, rotary, latent = pick(128, 192), pick(64, 128), 64, 64 * pick(4, 8)
        query = pick(0, 512)
        own |= {"kv_elements_per_layer": latent + rotary, "value_head_size": value}
        own |= {"rotary_key_size": rotary, "query_latent_size": query, "kv_heads": heads}
        queries = query * (h + heads * key) if query else h * heads * key
        keys = h * (latent + rotary) + latent * heads * (key - rotary + value)
        own |= {"attention_parameters_per_layer": queries + keys + heads * value * h}
        own["head_size"] = (key + value) / 2
    if ffn == "experts":
        experts = pick(4, 16, 60)
        own |= {"experts": experts, "experts_per_token": pick(1, 2, experts)}
        own |= {"shared_experts": pick(0, 1, 2), "dense_layers": pick(0, 1)}
        own |= {"expert_ffn_hidden_size": 64 * pick(1, 3, 10)}
    if layer == "windows":
        own |= {"attention_window": pick(1, 8, 128, 4000)}
        own |= {"windowed_layers": int(rng.integers(1, layers + 1))}
    if layer in ("mamba2", "gated_deltanet"):
        own |= {"linear_layers": int(rng.integers(1, layers)), "linear_heads": pick(16, 64)}
        own |= {"linear_head_size": 64, "linear_key_heads": 16, "linear_state_size": pick(64, 128)}
    return own


def tensors(of: dict[str, Any], latent: bool, experts: bool, gated: bool) -> Iterator[Tensor]:
    """Tensors of a decoder, as weight files list them; without a gate and states, of a GPT.

    Routers, norms and mixers' vectors are shared out: the Ranges of ours say so.
    """
    blocks = 3 if gated else 2
    h, heads, attending = of["hidden_size"], of["attention_heads"], of["layers"]
    linear, dense = of["linear_layers"], of["layers"]
    attending -= linear
    if latent:
        value, rotary = of["value_head_size"], of["rotary_key_size"]
        key = round(2 * of["head_size"] - value)
        small, query = of["kv_elements_per_layer"] - rotary, of["query_latent_size"]
        if query:
            yield Tensor(query, h, attending, "whole")
        yield Tensor(heads * key, query or h, attending, "attention")
        yield Tensor(small + rotary, h, attending, "whole")
        yield Tensor(heads * (key - rotary + value), small, attending, "attention")
        yield Tensor(h, heads * value, attending, "attention")
    else:
        size = of["head_size"]
        yield Tensor(heads * size, h, attending, "attention")
        yield Tensor(of["kv_heads"] * size, h, 2 * attending, "keys")
        yield Tensor(h, heads * size, attending, "attention")
    if linear:
        yield Tensor(round(of["linear_parameters_per_layer"]), 1, linear, "attention")
        yield Tensor(round(of["linear_vector_parameters"]), 1, linear, where="short")
    if experts:
        dense, narrow = of["dense_layers"], of["expert_ffn_hidden_size"]
        mixed = of["layers"] - dense
        yield Tensor(of["experts"], h, mixed)
        yield Tensor(narrow, h, blocks * mixed * of["shared_experts"])
        yield Tensor(narrow, h, blocks * mixed * of["experts"], where="expert")
    yield Tensor(of["ffn_hidden_size"], h, blocks * dense)
    if gated or linear:
        yield Tensor(h, 1, 2 * of["layers"] + 1, where="vector")
    else:
        biases = of["head_size"] * (heads + 2 * of["kv_heads"]) + h + of["ffn_hidden_size"] + h
        yield Tensor(2 * 2 * h + biases, 1, of["layers"], where="vector")
        yield Tensor(of["sequence_length"], h, where="vector")  # learned positions
    yield Tensor(of["vocab_size"], h, held="embedding", where="table")
    if of["embedding_tables"] == 2:
        yield Tensor(of["vocab_size"], h, where="head")


class Server:
    """A replica's ranks, each with its tensors; requests of their own where attention is apart."""

    def __init__(
        self, of: dict[str, Any], latent: bool, experts: bool, gated: bool, apart: bool, each: float
    ):
        self.of, self.latent, self.apart, self.each = of, latent, apart, each
        self.ranks, self.tokens = of["tensor_parallel"], max(of["prompt_tokens"], 1)
        self.sharing = 1 if apart else self.ranks  # ranks of one request's attention
        self.tensors = list(tensors(of, latent, experts, gated))
        self.tied = of["embedding_tables"] == 1
        queries, group = of["attention_heads"] // self.sharing, of["attention_heads"]
        group //= of["kv_heads"]
        firsts = [rank * queries for rank in range(self.sharing)]
        self.heads = max(len({q // group for q in range(q0, q0 + queries)}) for q0 in firsts)

    def on_a_rank(self, one: Tensor) -> float:
        """Elements that a rank holds of a tensor, all its copies together."""
        size = one.copies * one.columns
        if one.held == "keys":
            return size * one.rows // self.of["kv_heads"] * self.heads
        if one.held == "whole":
            return size * one.rows
        return size * one.rows / (self.ranks if one.held == "split" else self.sharing)

    def width(self, one: Tensor) -> float:
        return 2 if one.where in ("table", "head", "vector", "short") else self.each

    def held(self) -> float:
        return sum(self.on_a_rank(one) * self.width(one) for one in self.tensors)

    def read(self, batch: int) -> tuple[float, float, float]:
        """Bytes of weights that a pass of so many tokens needs: of experts those visited, the
        head's, and all others."""
        experts = head = others = 0.0
        for one in self.tensors:
            held = self.on_a_rank(one) * self.width(one)
            if one.where == "expert":
                n, k = self.of["experts"], self.of["experts_per_token"]
                experts += (1 - (math.comb(n - 1, k) / math.comb(n, k)) ** batch) * held
            elif one.where == "head" or (one.where == "table" and self.tied):
                head += held
            elif one.where != "table":
                others += held
        return experts, head, others

    def kept(self, tokens: int) -> tuple[float, float]:
        """Bytes of a request's cache and states on a rank that has its attention."""
        of, layers = self.of, self.of["layers"] - self.of["linear_layers"]
        numbers = of.get("kv_elements_per_layer") or self.heads * 2 * of["head_size"]
        cache = 0
        for layer in range(layers):
            window = of["attention_window"] if layer < of.get("windowed_layers", layers) else 1e18
            cache += min(tokens, window) * numbers * 2
        state = 0.0
        if of["linear_layers"]:
            state = of["linear_heads"] * of["linear_head_size"] * of["linear_state_size"]
            state += 3 * of["linear_convolution_width"]
        return cache, of["linear_layers"] * state * 2 / self.sharing

    def multiplied(self, batch: int, tokens: int) -> tuple[float, float, float, float]:
        """Operations of a pass with experts, for logits, in other matrices, and in attention per
        key."""
        of, experts, others, logits = self.of, 0.0, 0.0, 0.0
        for one in self.tensors:
            flops = 2 * one.rows * one.columns * one.copies
            if one.where == "expert":
                experts += flops * tokens * of["experts_per_token"] / of["experts"]
            elif one.where == "layer":
                others += flops * tokens
            elif one.where == "head" or (one.where == "table" and self.tied):
                logits += flops * batch
        widths = 2 * of["head_size"]  # of keys and values
        return experts, logits, others, 2 * of["attention_heads"] * widths

    def pairs(self) -> float:
        """Pairs of query and key in all layers: half of a square, or a band."""
        of, s, total = self.of, self.tokens, 0.0
        layers = of["layers"] - of["linear_layers"]
        for layer in range(layers):
            window = of["attention_window"] if layer < of.get("windowed_layers", layers) else s
            total += s * s / 2 - max(s - window, 0) ** 2 / 2
        return total

    def exchanged(self, tokens: int) -> float:
        """Time of an all-reduce after each mixer, feed-forward block and the embedding."""
        message = tokens * self.of["hidden_size"] * 2
        one = direct_all_reduce_time(message, self.ranks, START, WIRE)
        return float(sum(one for _ in range(2 * self.of["layers"] + 1)))

    def prefill(self, batch: int) -> float:
        """Time of a pass over prompts, kernel by kernel."""
        tokens = batch * self.tokens
        experts, logits, others, of_a_pair = self.multiplied(batch, tokens)
        scores = batch * self.pairs() * of_a_pair
        if self.of["linear_layers"]:
            states = self.of["linear_layers"] * self.of["linear_state_flops_per_token"]
            scores += tokens * states
        quick = SLOW if self.each == 2 else PEAK
        clock = scores / SLOW / (REACHED * self.ranks) + self.exchanged(tokens)
        works = experts / quick, logits / SLOW, others / quick
        for work, read in zip(works, self.read(tokens), strict=True):
            clock += max(work / (REACHED * self.ranks), read / BANDWIDTH)
        return clock

    def decode(self, batch: int) -> tuple[float, float]:
        """Bytes of a rank and time of the mean step of an answer."""
        steps = max(self.of["output_tokens"] - 1, 1)
        here = math.ceil(batch / (self.ranks if self.apart else 1))  # on the fullest rank
        moved = seen = 0.0
        attending = self.of["layers"] - self.of["linear_layers"]
        for step in range(steps):
            context = self.of["prompt_tokens"] + step
            for layer in range(attending):
                windowed = layer < self.of.get("windowed_layers", attending)
                near = self.of["attention_window"] - 1 if windowed else context
                seen += min(context, near) / steps
            moved += 2 * self.kept(context)[1] / steps
        numbers = self.of.get("kv_elements_per_layer") or self.heads * 2 * self.of["head_size"]
        moved = here * (moved + seen * numbers * 2)
        experts, logits, others, of_a_pair = self.multiplied(batch, batch)
        scores, products = batch * seen * of_a_pair, experts + others
        quick = SLOW if self.each == 2 else PEAK
        rate = REACHED * self.ranks
        weights = sum(self.read(batch))
        time = max(weights / BANDWIDTH, (products / quick + logits / SLOW) / rate)
        time += max(moved / BANDWIDTH, scores / SLOW / rate) + self.exchanged(batch)
        return weights + moved, time

    def admitted(self, room: float) -> int:
        """Requests let in, in rounds of one for each group of ranks, until a rank is full."""
        cache, states = self.kept(self.of["prompt_tokens"] + self.of["output_tokens"])
        return math.floor(max(room, 0.0) / (cache + states)) * (self.ranks // self.sharing)


KINDS = [
    (*kind, apart, precision)
    for kind in itertools.product(
        ("grouped", "latent"), ("dense", "experts"), ("full", "windows", "mamba2", "gated_deltanet")
    )
    for apart, precision in ((False, "bf16"), (False, "fp8_blockwise"), (True, "fp8"))
]
WIDTHS = {"bf16": 2, "fp8": 1, "fp8_blockwise": 1 + 4 / 128**2}  # with FP32 scales of blocks
EACH = 43  # servers of a kind, 2,064 in all


@check(
    "serving_weights_memory read_weights_memory expert_decode_weights_bytes decode_bytes "
    "decode_step_time prompt_flops_per_token prompt_attention_flops_per_token "
    "prefill_time time_to_first_token request_kv_cache largest_serving_batch "
    "disaggregated_kv_transfer_time windowed_prompt_cached_tokens recurrent_linear_state_bytes "
    "tensor_prompt_exchange_time shared_kv_head_ranks mixed_layer_matrix_share "
    "serving_weight_bytes served_matrix_bytes_precision_fp8_blockwise",
    by="simulator",
    source="what every rank holds, reads, multiplies and receives, tensor by tensor; vLLM, "
    "vllm/model_executor/layers/linear.py, SGLang, python/sglang/srt/models/deepseek_v2.py",
)
def drawn_servers() -> Pairs:
    """2,064 servers: dense or experts, with gates or without, grouped or latent heads, windows or
    states, tied or not, of requests that GPUs share or have apart, fewer than GPUs, too"""
    rng = generator(58)
    for attention, ffn, layer, apart, precision in KINDS:
        latent, experts, each = attention == "latent", ffn == "experts", WIDTHS[precision]
        gated = layer != "gated_deltanet" and (layer != "windows" or latent or experts)
        some = [drawn(rng, attention, ffn, layer, apart) for _ in range(scaled(EACH))]
        scenario: dict[str, Any] = {
            "gated_ffn": gated, "latent_attention": latent, "mixture_of_experts": experts,
            "data_parallel_attention": apart, "precision": precision, "serving_traffic": True,
            "serving_fabric": True, "disaggregated_prefill": True, "sliding_window": True,
            "gpus_per_node": 16, "hbm_bandwidth": BANDWIDTH / 0.8, "memory_efficiency": 0.8,
            "gemm_efficiency": REACHED, "peak_flops_bf16": SLOW, "peak_flops_fp8": PEAK,
            "intra_node_bandwidth": WIRE, "inter_node_bandwidth": RAIL, "reserved_memory": 1e9,
            "inter_node_latency": 5e-6, "serving_error_factor": 1.5, "n_gpus": 16,
            "shifted_serving_time": True, "matrix_unit_size": 64,
        }  # fmt: skip
        if layer in ("mamba2", "gated_deltanet"):
            scenario["linear_attention"] = layer
        names = set(some[0]) - (set() if "linear_attention" in scenario else {"linear_layers"})
        given = {name: np.array([one[name] for one in some], float) for name in sorted(names)}
        wanted = [*OUTPUTS, *(OF_MIXERS if "linear_attention" in scenario else ())]
        ours = fleetcube.function(wanted, scenario, list(given))(given)
        for k, of in enumerate(some):
            of |= {name: float(ours[name][k]) for name in OF_MIXERS if name in ours}
            got = {name: float(ours[name][k]) for name in OUTPUTS}
            yield from compared(Server(of, latent, experts, gated, apart, each), got)


def compared(server: Server, ours: dict[str, float]) -> Pairs:
    of, batch = server.of, server.of["serving_batch_size"]
    ratio = 1.5 ** of["serving_time_error"]
    yield ours["serving_weights_memory"], server.held()
    yield ours["decode_weights_bytes"], sum(server.read(batch))
    moved, time = server.decode(batch)
    yield ours["decode_bytes"], moved
    yield ours["decode_step_time"], time * ratio
    yield ours["prefill_time"], server.prefill(batch) * ratio
    yield ours["time_to_first_token"], server.prefill(1) * ratio
    cache, states = server.kept(of["prompt_tokens"])
    yield ours["kv_transfer_time"], (cache + states) / RAIL
    rounds = server.ranks // server.sharing
    most = ours["largest_serving_batch"]
    yield most - most % rounds, server.admitted(of["hbm_capacity"] - 1e9 - server.held())
