"""A model's record from its config.json, as Hugging Face's transformers writes it.

Fields and defaults: configuration_*.py of transformers 5.24. A field that is off changes
nothing; one that is on is read, is in `_WITHOUT_SHAPE`, or is named in the record's note.
"""

import json
import math
import re
from collections.abc import Iterable
from typing import Any

_MOST_DEEP = 16
_MOST_LAYERS = 10_000
_MOST_NAMED = 12
_LONGEST = 8192  # a longer context is rarely that of most of the training

# Our inputs, and the fields that state them: the first that is given
COUNTS = {
    "layers": "num_hidden_layers n_layer n_layers num_layers",
    "hidden_size": "hidden_size n_embd n_embed d_model",
    "attention_heads": "num_attention_heads n_head n_heads num_heads",
    "kv_heads": "num_key_value_heads num_kv_heads n_head_kv attn_config.kv_n_heads "
    "multi_query_group_num num_attention_groups",
    "head_size": "head_dim attention_head_dim kv_channels",
    "ffn_hidden_size": "intermediate_size_mlp intermediate_size ffn_dim n_inner ffn_hidden_size "
    "ffn_config.ffn_hidden_size",
    "vocab_size": "vocab_size padded_vocab_size",
    "experts": "num_local_experts num_experts n_routed_experts moe_num_experts "
    "ffn_config.moe_num_experts",
    "experts_per_token": "num_experts_per_tok num_experts_per_token moe_k moe_topk "
    "ffn_config.moe_top_k",
    "expert_ffn_hidden_size": "moe_intermediate_size",
    "expert_input_width": "moe_latent_size routed_expert_hidden_size",
    "linear_heads": "mamba_num_heads mamba_n_heads linear_num_value_heads linear_num_heads "
    "linear_attn_config.num_heads",
    "linear_head_size": "mamba_head_dim mamba_d_head linear_value_head_dim linear_head_dim "
    "linear_attn_config.head_dim",
    "linear_key_heads": "n_groups mamba_n_groups linear_num_key_heads",
    "linear_state_size": "ssm_state_size mamba_d_state linear_key_head_dim state_size",
    "linear_convolution_size": "conv_kernel mamba_d_conv linear_conv_kernel_dim "
    "linear_attn_config.short_conv_kernel_size",
    "linear_chunk_size": "chunk_size mamba_chunk_size block_size",
}
_CONTEXT = (
    "max_position_embeddings n_positions max_seq_len max_sequence_length seq_length n_ctx "
    "model_max_length"
)
_ORIGINAL = (
    "rope_scaling.original_max_position_embeddings original_max_position_embeddings "
    "rope_parameters.original_max_position_embeddings initial_context_length"
)
_NEEDED = ("layers", "hidden_size", "attention_heads", "vocab_size")

# Fields that files leave out, by model_type: defaults of the configuration classes, where
# embeddings are untied by default. A type that is not here is read as of no class, with a remark.
_TIED = {"tie_word_embeddings": True}
_FULL = {"use_sliding_window": False}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "gpt2 gpt_neo bloom opt mpt starcoder2 RefinedWeb RefinedWebModel": _TIED,
    "cohere gemma smollm3 ernie4_5": _TIED,
    "falcon gpt_bigcode": {**_TIED, "multi_query": True},
    "gpt_neox gptj phi nemotron apertus arcee llama phi3 phimoe olmo olmo2 olmoe granite glm": {},
    "granitemoe granitemoeshared glm4 stablelm internlm2 internlm3 seed_oss dbrx minimax_m2": {},
    "deepseek_v2 deepseek_v3 deepseek_v32 kimi_k2 glm4_moe glm4_moe_lite glm_moe_dsa dots1": {},
    "ernie4_5_moe minimax minimax_text_01 MiniMaxText01 minimax_m1 kimi_linear": {},
    "mistral mixtral ministral": {"num_key_value_heads": 8},
    "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_moe": _FULL,
    "qwen3_moe qwen3_vl_moe_text": _FULL,
    "qwen3 qwen3_vl_text": {**_FULL, "head_dim": 128},
    "olmo3 exaone4": {"sliding_window_pattern": 4},
    "cohere2": {**_TIED, "sliding_window_pattern": 4},
    "gemma2": {**_TIED, "sliding_window_pattern": 2},
    "gemma3_text": {
        **dict(_TIED, num_hidden_layers=26, hidden_size=2304, intermediate_size=9216),
        **dict(num_attention_heads=8, num_key_value_heads=4, head_dim=256, vocab_size=262_208),
        **dict(sliding_window=4096, sliding_window_pattern=6),
    },
    "gpt_oss": {"sliding_window_pattern": 2},
    "llama4_text": {"n_shared_experts": 1, "num_experts_per_tok": 1},
    "qwen3_next qwen3_5_text qwen3_5_moe_text": {"full_attention_interval": 4},
    "nemotron_h": {"n_groups": 8, "conv_kernel": 4},
    "bamba granitemoehybrid": {"mamba_expand": 2},
    "mamba2": {"expand": 2},
    "megatron-lm megatron-bridge nemo torchtitan maxtext deepspeed": {},  # of fleetcube.formats
}
_TYPES = {
    name: {"tie_word_embeddings": False, **row}
    for names, row in _DEFAULTS.items()
    for name in names.split()
}
_WITHOUT_GATE = (
    *("gpt2", "gpt_neo", "gpt_neox", "gptj", "gpt_bigcode", "bloom", "opt", "mpt", "falcon", "phi"),
    *("RefinedWeb", "RefinedWebModel", "starcoder2", "nemotron", "nemotron_h", "apertus", "arcee"),
)
_STATES = {
    **dict.fromkeys(("nemotron_h", "bamba", "granitemoehybrid", "mamba2"), "mamba2"),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), "gated_deltanet"),
    **dict.fromkeys(("minimax", "minimax_text_01", "MiniMaxText01", "minimax_m1"), "lightning"),
    "kimi_linear": "kimi_delta",
}
_CHUNKS = {"gated_deltanet": 64, "kimi_delta": 64, "lightning": 256}  # tokens, in their kernels
_REFUSED = {
    **dict.fromkeys(("mamba", "falcon_mamba", "jamba", "zamba"), "layers of Mamba-1"),
    **dict.fromkeys(("zamba2", "lfm2", "recurrent_gemma", "rwkv", "griffin"), "other mixers"),
    **dict.fromkeys(("falcon_h1", "hymba"), "attention and states in one layer"),
    **dict.fromkeys(("gemma3n", "gemma3n_text"), "alternating updates and per-layer inputs"),
    **dict.fromkeys(("openelm", "deci", "nemotron-nas"), "layers of different widths"),
}
_ATTENDING = (
    *("full_attention", "sliding_attention", "chunked_attention", "attention"),
    "deepseek_sparse_attention",
)
_STATEFUL = ("linear_attention", "mamba")
_LETTERS = {"mamba": "M", "attention": "*", "mlp": "-", "moe": "E"}
_LEFT_OUT = {
    **dict.fromkeys(
        ["num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "num_mtp_modules"],
        "state prediction_layers to count them",
    ),
    "attention_chunk_size": "attention in chunks is counted whole",
    "index_topk": "attention is counted whole, though a query sees some tokens only",
    **dict.fromkeys(("vision_config", "audio_config"), "its encoder is not counted"),
}
# Fields of tokens, training, generation, scalings and numerics, and of biases and norms, which are
# a thousandth of a layer
_WITHOUT_SHAPE = re.compile(
    r"""(?x) _.* | model_type | architectures | transformers_version | auto_map | (torch_)?dtype
    | .*(_id|_ids|_token|_token_index|dropout|pdrop|drop|_prob|eps|epsilon|theta|_range|_std|_scale
        |_multiplier|_factor|_coef|_alpha|_beta|_gamma|_bias|_act|_activation|softcapping|_limit
        |_cache|_dtype|_penalty|_loss_weight|_method|_func|_fn|_kernels|_fp32|_implementation|_impl)
    | (rope|rotary|partial_rotary|initializer|quantization|compression|summary|time_step|mup|no_rope
        |router|output_(attentions|hidden|router)|return_|num_(beams|return|logits)|problem_type
        |label2id|id2label|task_specific|finetuning|generation|max_length|min_length|top_k$|top_p
        |temperature|typical_p|residual_(mult|drop)|embedding_(mult|drop)|attention_(mult|drop)
        |layer_?norm|rms_norm|norm_topk|norm_(type|min|eps)|attn_(temperature|impl|scale)
        |scale_attn|reorder_and|scoring|topk_(method|group)|aux_loss|seq_aux).*
    | use_(cache|bias|parallel_residual|conv_bias|qk_norm|qkv_bias|flash_attn|mamba_kernels|mambapy
        |return_dict|rmsnorm|bidirectional_attention|grouped_mm|routing_bias|logits_masking)
    | pretraining_tp | slow_but_exact | alibi | bias | clip_qkv | qk_norm(_type)? | qk_layernorm
    | n_group | mtp_.* | use_mtp
    | parallel_attn | do_layer_norm_before | do_sample | hidden_act | hidden_activation | ep_size
    | max_window_layers | offset_alibi | query_pre_attn_scalar | logit_scale | logits_scaling
    | masked_softmax_fusion | bias_dropout_fusion | apply_residual_connection_post_layernorm
    | position_embedding_type | is_decoder | rescale_every | remove_invalid_values | torchscript
    | tie_encoder_decoder | interleaved_rope | moe_router.* | prefix
    | gradient_checkpointing | learned_pos_emb | rms_norm | sliding_window | use_sliding_window
    | max_position_embeddings | activation(_function)? | moe_shared_expert_overlap | z_loss_.*
    | rescale_prenorm_residual | num_ln_in_parallel_attn | .*jitter_noise | moe_norm.*
    | alibi_bias_max | init_device | embedding_fraction | name"""
)


def read(text: str) -> dict[str, Any]:
    """The inputs of a configuration, with title, source, date and note. Raises ValueError, in one
    line: the value, the rule and what to do."""
    fields, remarks = _Fields(_text_part(_parsed(text))), []
    model_type = fields.get("model_type")
    model_type = (
        model_type
        if isinstance(model_type, str) and re.fullmatch(r"[\w.-]{1,40}", model_type, re.ASCII)
        else "none"
    )
    if fields.flag("is_encoder_decoder", False) or model_type in _REFUSED:
        architecture = _REFUSED.get(model_type, "an encoder and a decoder")
        raise ValueError(
            f"model_type {model_type!r} has {architecture}, which no input counts; give parameters"
        )
    fields.config = {**_TYPES.get(model_type, {}), **fields.config}
    if model_type not in _TYPES:
        gate = "three matrices in feed-forward blocks"
        remarks.append(
            f"model_type {model_type!r} is not in the table: read as Llama's, with {gate}"
        )
    counts: dict[str, Any] = {name: fields.count(names) for name, names in COUNTS.items()}
    counts = {name: number for name, number in counts.items() if number}
    kinds = _kinds(fields, counts)
    if kinds and not set(kinds) & {*_ATTENDING}:
        counts.setdefault("attention_heads", 1)  # of no layer
    if missing := ", ".join(COUNTS[n].partition(" ")[0] for n in _NEEDED if n not in counts):
        raise ValueError(f"it has no {missing}; give a configuration of a decoder-only model")
    counts["gated_ffn"] = fields.flag("gated_ffn", model_type not in _WITHOUT_GATE)
    counts["embedding_tables"] = 1 if fields.flag("tie_word_embeddings", True) else 2
    counts |= _states(fields, counts, model_type, kinds) | _windows(fields, counts["layers"], kinds)
    counts |= _attention(fields, counts, model_type) | _experts(fields, counts, model_type, kinds)
    remarks += _context(fields, counts)
    if fields.config.get("word_embed_proj_dim") == counts["hidden_size"]:
        fields.get("word_embed_proj_dim")  # no projection
    for name, why in _LEFT_OUT.items():
        if fields.get(name):
            remarks.append(f"{name} = {_shown(fields.get(name))}: {why}")
    if left := fields.left():
        more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
        remarks.append(f"not understood, not counted: {', '.join(left[:_MOST_NAMED])}{more}")
    about = f"{model_type}, {counts['layers']} layers of {counts['hidden_size']}"
    if "layer_pattern" in counts:
        del counts["layers"]  # counted from the pattern
    return {
        "title": about,
        "source": f"its config.json (Hugging Face transformers), model_type {model_type}",
        "date": "",
        "note": "; ".join(remarks) or "all fields that change the shape are counted",
        **{name: value for name, value in counts.items() if value is not None},
    }


def _kinds(fields: "_Fields", counts: dict[str, Any]) -> list[str]:
    """The kind of each layer, in the file's words; empty where it does not say."""
    types = fields.row("layer_types layers_block_type", str)
    flags = fields.row("attn_type_list decoder_attention_types", int)
    full = {*(fields.row("attn_layer_indices", int) or ())}
    states = {*(fields.row("linear_attn_config.kda_layers", int) or ())}  # from 1
    every = fields.count("full_attention_interval")
    pattern = fields.get("hybrid_override_pattern")
    fields.get("linear_attn_config.full_attn_layers")
    layers = counts.get("layers", len(pattern if isinstance(pattern, str) else types or ()))
    if pattern is not None:
        words = {letter: word for word, letter in _LETTERS.items()}
        if not isinstance(pattern, str) or not {*pattern} <= words.keys():
            raise ValueError(f"hybrid_override_pattern is not of {', '.join(words)}; correct it")
        types = [words[letter] for letter in pattern]
    elif types is None and flags is not None:
        types = ["full_attention" if flag else "linear_attention" for flag in flags]
    elif types is None and (full or states or every):
        types = [
            "full_attention"
            if (full and k in full)
            or (every and (k + 1) % every == 0)
            or (states and k + 1 not in states)
            else "linear_attention"
            for k in range(layers)
        ]
    if fields.get("model_type") == "mamba2":
        types = ["mamba"] * layers
    if types and len(types) != layers:
        raise ValueError(f"it has {len(types)} kinds for {layers} layers; correct one of them")
    if layers:
        counts["layers"] = layers
    for word in types or ():
        if word not in (*_ATTENDING, *_STATEFUL, *_LETTERS):
            raise ValueError(f"a layer is {_shown(word)}, which no input counts; give parameters")
    return types or []


def _states(
    fields: "_Fields", counts: dict[str, Any], model_type: str, kinds: list[str]
) -> dict[str, Any]:
    """Layers that keep a state, and removes what is stated of them where there are none."""
    number = sum(kind in _STATEFUL for kind in kinds)
    expand = fields.count("mamba_expand expand") or 2
    if not number:
        for name in [name for name in counts if name.startswith("linear_")]:
            del counts[name]
        return {}
    if model_type not in _STATES:
        raise ValueError(
            f"model_type {model_type!r} has states that no input counts; give parameters"
        )
    sets: dict[str, Any] = {"linear_attention": _STATES[model_type], "linear_layers": number}
    sets["linear_chunk_size"] = counts.get("linear_chunk_size") or _CHUNKS.get(_STATES[model_type])
    if model_type == "mamba2":
        size = counts.pop("head_size", 64)
        inner = expand * counts["hidden_size"]
        sets |= {"linear_heads": inner // size, "linear_head_size": size}
    elif sets["linear_attention"] == "lightning":
        heads = counts["attention_heads"]
        size = counts.get("head_size", counts["hidden_size"] // heads)
        sets |= {"linear_heads": heads, "linear_head_size": size}
        sets |= {"linear_key_heads": heads, "linear_state_size": size}
    elif "linear_heads" not in counts:
        raise ValueError("it has no heads of its layers with a state; state mamba_n_heads")
    elif model_type == "kimi_linear":
        sets |= {"linear_key_heads": counts["linear_heads"]}
        sets |= {"linear_state_size": counts.get("linear_head_size")}
    elif "linear_head_size" not in counts:
        sets["linear_head_size"] = expand * counts["hidden_size"] // counts["linear_heads"]
    if model_type in ("nemotron_h", "mamba2"):
        sets["layer_pattern"] = "".join(_LETTERS[kind] for kind in kinds)
        del sets["linear_layers"], sets["linear_attention"]
    return sets


def _windows(fields: "_Fields", layers: int, kinds: list[str]) -> dict[str, Any]:
    """Layers whose queries see a window: by kind, all but each p-th, those from one on, or all."""
    window, pattern = fields.count("sliding_window"), fields.get("sliding_window_pattern")
    on = fields.flag("use_sliding_window", True)
    if not window or not on or window >= (fields.count(_CONTEXT) or window + 1):
        return {}
    number = layers
    if kinds:
        number = kinds.count("sliding_attention")
    elif pattern:
        number -= layers // (fields.count("sliding_window_pattern") or 1)
    elif fields.get("use_sliding_window"):
        number -= fields.count("max_window_layers") or 0
    sets = {"sliding_window": True, "attention_window": window, "windowed_layers": number}
    return sets if number > 0 else {}


def _attention(fields: "_Fields", counts: dict[str, Any], model_type: str) -> dict[str, Any]:
    """Latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1), one head of keys, gates."""
    width, heads = counts["hidden_size"], counts["attention_heads"]
    latent = fields.count("kv_lora_rank")
    if latent:
        names = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        nope, rotary, value = (fields.count(name) or 0 for name in names)
        if not (nope + rotary) * value:
            raise ValueError(f"it has kv_lora_rank, and not {', '.join(names)}; give them")
        queries = fields.count("q_lora_rank") or 0
        indexers, index = fields.count("index_n_heads") or 0, fields.count("index_head_dim") or 0
        key = heads * (nope + rotary)
        weights = width * queries + queries * key if queries else width * key
        weights += width * (latent + rotary) + latent * heads * (nope + value)
        weights += heads * value * width
        weights += indexers * index * queries + (index + indexers) * width
        return {
            "attention_parameters_per_layer": weights,
            "kv_elements_per_layer": latent + rotary + index,
            "kv_latent_size": latent if rotary != 64 or index else None,
            "query_latent_size": queries,
            "value_head_size": value,
            "head_size": (nope + rotary + value) / 2,
            "kv_heads": heads,
        }
    kv = counts.get("kv_heads", heads)
    if fields.flag("multi_query", False) and not fields.flag("new_decoder_architecture", False):
        kv = 1
    sets: dict[str, Any] = {"kv_heads": kv}
    if _STATES.get(model_type) == "gated_deltanet" and fields.flag("attn_output_gate", True):
        size = counts.get("head_size", width // heads)
        sets["attention_parameters_per_layer"] = width * size * (3 * heads + 2 * kv)
    return sets


def _experts(
    fields: "_Fields", counts: dict[str, Any], model_type: str, kinds: list[str]
) -> dict[str, Any]:
    """Experts, and which layers have them; the width of dense layers where there are none."""
    shared = fields.count(
        "n_shared_experts num_shared_experts moe_num_shared_experts num_shared_expert"
    )
    shared_width = fields.count(
        "shared_expert_intermediate_size moe_shared_expert_intermediate_size "
        "shared_intermediate_size"
    )
    if "experts" not in counts or ("layer_pattern" in counts and "moe" not in kinds):
        for name in ("experts", "experts_per_token", "expert_input_width"):
            counts.pop(name, None)
        expert = counts.pop("expert_ffn_hidden_size", None)
        return {"ffn_hidden_size": shared_width or counts.get("ffn_hidden_size") or expert}
    if "experts_per_token" not in counts:
        raise ValueError("it has experts, and no num_experts_per_tok; give it")
    plain = fields.count("intermediate_size") or counts.get("ffn_hidden_size")
    expert = counts.get("expert_ffn_hidden_size") or plain
    if not expert:
        raise ValueError("it has experts, and no moe_intermediate_size; give it")
    first = fields.count("first_k_dense_replace moe_layer_start_index") or 0
    per_layer = isinstance(fields.get("moe_layer_freq"), list)
    names = "decoder_sparse_step interleave_moe_layer_step moe_layer_interval"
    every = fields.count(names if per_layer else f"{names} moe_layer_freq") or 1
    layers = range(counts["layers"])
    without = {*(fields.row("mlp_only_layers", int) or ())}
    if only := fields.row("moe_layers", int):
        without |= {*layers} - {*only}
    for names, element, word in (("mlp_layer_types", str, "dense"), ("moe_layer_freq", int, 0)):
        if isinstance(fields.get(names), list):
            row = fields.row(names, element) or []
            without |= {k for k, kind in enumerate(row) if kind == word}
    dense = sum(k < first or (k + 1) % every != 0 or k in without for k in layers)
    sets = {
        "mixture_of_experts": True,
        "expert_ffn_hidden_size": expert,
        "shared_experts": (shared or 1) * shared_width / expert if shared_width else shared or 0,
    }
    if "layer_pattern" not in counts:
        sets["dense_layers"] = dense
    if not dense:
        sets["ffn_hidden_size"] = expert
    if fields.flag("expert_biases", model_type == "gpt_oss"):
        sets["expert_biases"] = True
    return sets


def _context(fields: "_Fields", counts: dict[str, Any]) -> list[str]:
    """Set the context of the training, if the file has it; else return a remark."""
    if stated := fields.count("sequence_length"):
        counts["sequence_length"] = stated
        return []
    original, most = fields.count(_ORIGINAL), fields.count(_CONTEXT)
    tokens = original or most
    if tokens and tokens <= _LONGEST:
        counts["sequence_length"] = tokens
        return []
    return [
        f"it names no sequence_length{f' (at most {most:,})' if most else ''}: 4096 if unstated"
    ]


def _parsed(text: str) -> dict[str, Any]:
    """The object of a JSON text of bounded depth."""

    def constant(word: str) -> float:
        if word != "Infinity":  # which Mamba-2's files hold, in time_step_limit
            raise ValueError(f"it holds {word}")
        return math.inf

    try:
        config = json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ValueError(f"it is not JSON: {reason[:200]}; give a config.json") from None
    level, depth = [config], 0
    while level := [part for whole in level for part in _parts(whole)]:
        depth += 1
        if depth > _MOST_DEEP:
            raise ValueError(f"it is nested more than {_MOST_DEEP} deep; give a config.json")
    if not isinstance(config, dict):
        raise ValueError("it is not a JSON object; give a config.json")
    return config


def _parts(whole: Any) -> Iterable[Any]:
    return whole.values() if isinstance(whole, dict) else whole if isinstance(whole, list) else ()


def _text_part(config: dict[str, Any]) -> dict[str, Any]:
    """The part that describes the text model of several modes, with what it shares."""
    for name in ("thinker_config", "text_config", "llm_config", "language_config"):
        if isinstance(config.get(name), dict):
            shared = ("tie_word_embeddings", "vision_config", "audio_config")
            config = {key: config[key] for key in shared if key in config} | config[name]
    return config


def _shown(value: Any) -> str:
    shown = "{...}" if isinstance(value, dict) else repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


class _Fields:
    """Fields of a configuration by dotted names; remembers which were read."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config: dict[str, Any] = config
        self._read: set[str] = set()

    def get(self, names: str) -> Any:
        """The first of these fields that is given; None if none is."""
        self._read |= {*names.split()}
        return next((v for n in names.split() if (v := self._field(n)) is not None), None)

    def _field(self, name: str) -> Any:
        value: Any = self.config
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    def _name(self, names: str) -> str:
        return next(name for name in names.split() if self._field(name) is not None)

    def count(self, names: str) -> int | None:
        """A whole number; None if no field gives it."""
        value = self.get(names)
        if value is None or value == "auto":
            return None
        most = _MOST_LAYERS if names == COUNTS["layers"] else 10**9
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 0 <= value <= most:
            rule = f"a whole number from 0 to {most:,}"
            raise ValueError(f"{self._name(names)} = {_shown(value)} is not {rule}; correct it")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.get(name)
        if value is not None and not isinstance(value, bool):
            raise ValueError(f"{name} = {_shown(value)} is not true or false; correct it")
        return default if value is None else value

    def row(self, names: str, element: type) -> list[Any] | None:
        """A list of texts or whole numbers; None if no field gives it."""
        value = self.get(names)
        if value is None:
            return None
        if not isinstance(value, list) or not all(type(each) is element for each in value):
            kind = "texts" if element is str else "whole numbers"
            raise ValueError(f"{self._name(names)} is not a list of {kind}; correct it")
        return value

    def left(self) -> list[str]:
        """Fields that are on, were not read and may change the shape."""
        names = [
            name
            for name, value in _leaves("", self.config)
            if value and name not in self._read
            if not _WITHOUT_SHAPE.fullmatch(name.rpartition(".")[2][:80])
        ]
        return [re.sub(r"[^\w.]", "?", name)[:40] for name in names]


def _leaves(before: str, part: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in part.items():
        name = f"{before}{key}"
        if (
            isinstance(value, dict)
            and name not in _LEFT_OUT
            and not _WITHOUT_SHAPE.fullmatch(key[:80])
        ):
            yield from _leaves(f"{name}.", value)
        else:
            yield name, value
