"""Names of models and hardware in published tables -> the catalog's labels."""

import re

from ...errors import shown
from .facts import UnreadableError

# layers, hidden size, heads of llm-foundry's MPT: scripts/train/yamls/pretrain of its repository
MPT = {
    "125m": (12, 768, 12),
    "350m": (24, 1024, 16),
    "760m": (24, 1536, 12),
    "1b": (24, 2048, 16),
    "3b": (32, 2560, 20),
    "7b": (32, 4096, 32),
    "13b": (40, 5120, 40),
    "30b": (48, 7168, 56),
    "70b": (80, 8192, 64),
}
_READ = (
    *("llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3-8b", "llama-3-70b", "llama-3-405b"),
    *("deepseek-v2", "deepseek-v3", "gpt-oss-120b", "kimi-k2", "mixtral-8x7b", "mixtral-8x22b"),
    *("qwen-3-32b", "qwen-3-30b-a3b", "qwen-3-235b-a22b"),
    *("nemotron-3-nano", "nemotron-3-super", "nemotron-3-ultra"),
)
_MODELS = {re.sub(r"[^a-z0-9]", "", label): label for label in _READ}
_MODELS |= {f"llama31{size}": f"llama-3-{size}" for size in ("8b", "70b", "405b")}
# generation: node, fabric (network cards as noted in the catalog's nodes)
_SYSTEMS = {
    "a100": ("dgx-a100", "infiniband-hdr"),
    "h100": ("dgx-h100", "infiniband-ndr"),
    "h200": ("dgx-h200", "infiniband-ndr"),
    "b200": ("dgx-b200", "infiniband-ndr"),
    "b300": ("dgx-b300", "infiniband-xdr"),
    "gb200": ("gb200-nvl72", "infiniband-ndr"),
    "gb300": ("gb300-nvl72", "infiniband-xdr"),
    "mi300x": ("mi300x-8gpu", "infiniband-ndr"),
}
_GENERATION = re.compile(r"(?<![a-z0-9])(gb[23]00|[bh][23]00|[ah]100|mi300x)(?![0-9])")
_OWN = re.compile(r"(\d{1,5}) ?(?:Gb/s|Gbps|Gbit/s) ?(?:/|per )GPU")
_CARDS = re.compile(r"(\d{1,3}) ?x ?(?:[A-Za-z]{1,20} )?(\d{1,5}) ?(?:Gb|Gbit)(?![A-Za-z])")
_NODE = re.compile(r"(\d{2,5}) ?(?:Gb/s|Gbps|Gbit/s)")
# What a table calls a number format, the longest first. Megatron-Bridge's recipes: scales for 32
# elements (MX), for blocks (SC, "subchannel") or for a tensor (CS, "current scaling")
_PRECISIONS = {
    **{"mxfp8": "mxfp8", "fp8-mx": "mxfp8", "fp8-sc": "fp8_blockwise", "float8": "fp8"},
    **{name: name for name in ("nvfp4", "fp8", "bf16", "fp16")},
}


def model_of(name: str) -> str:
    """The catalog's label of a model. Raises UnreadableError if the catalog lacks it."""
    key = re.sub(r"[^a-z0-9]", "", name.lower())
    if key not in _MODELS:
        raise UnreadableError(f"model.name = {shown(name)} has no shape in the catalog")
    return _MODELS[key]


def generation_of(text: str) -> str:
    """The GPU generation in a name: a100, h100, gb200, ..."""
    match = _GENERATION.search(text.lower().replace("_", " "))
    if not match or match[1] not in _SYSTEMS:
        raise UnreadableError(f"system.accel = {shown(text)} names no GPU of the catalog")
    return match[1]


def system_of(text: str) -> tuple[str, str]:
    return _SYSTEMS[generation_of(text)]


def gpu_of(text: str) -> str:
    """The catalog's label of a GPU in a node of 8."""
    generation = generation_of(text)
    if generation == "a100":
        return "a100-sxm-40gb" if re.search(r"40 ?gb", text.lower()) else "a100-sxm-80gb"
    return generation if generation.startswith("gb") else f"{generation}-sxm"


def bandwidth_of(text: str, gpus_per_node: int = 8) -> float | None:
    """Network bandwidth of one GPU [B/s], stated in a text per GPU, for its cards or per node."""
    own, cards, node = _OWN.search(text), _CARDS.search(text), _NODE.search(text)
    if own:
        return float(own[1]) * 1e9 / 8
    if cards:
        return float(cards[1]) * float(cards[2]) * 1e9 / 8 / gpus_per_node
    return float(node[1]) * 1e9 / 8 / gpus_per_node if node else None


def precision_of(text: str) -> str:
    """The number format of a run: a choice of the input `precision`."""
    lower = text.lower().replace("_", "-")
    for word, precision in _PRECISIONS.items():
        if word in lower:
            return precision
    raise UnreadableError(f"parallel.precision = {shown(text)} is not a known number format")
