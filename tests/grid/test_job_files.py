"""Job files of torchtitan and MaxText: read, refused, and written back."""

import random
import warnings
from pathlib import Path
from typing import Any

import pytest

from fleetcube import InputError, Sweep, evaluate
from fleetcube.catalog import record
from fleetcube.formats import maxtext, torchtitan
from fleetcube.formats.read import read_job, read_spec, spec_of
from fleetcube.formats.trees import flat, parsed
from fleetcube.formats.write import export

from ..door.test_fuzz import answered
from ..draws import scaled

TITAN = """\
[model]
name = "llama3"
flavor = "70B"
converters = ["quantize.linear.float8"]
[training]
local_batch_size = 16
seq_len = 8192
steps = 1000
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
tensor_parallel_degree = 4
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_microbatch_size = 2
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "selective"
selective_ac_option = "2"
[compile]
enable = true
[metrics]
log_freq = 10
"""
OLD_TITAN = """\
[model]
name = "llama2"
flavor = "7B"
[training]
batch_size = 8
tensor_parallel_degree = 2
data_parallel_degree = -1
[experimental]
pipeline_parallel_degree = 4
"""
TEXT = """\
base_config: base.yml
model_name: llama3.1-70b
per_device_batch_size: 0.5
max_target_length: 8192
gradient_accumulation_steps: 3
steps: 100
ici_fsdp_parallelism: 16
ici_tensor_parallelism: 4
dcn_data_parallelism: 2
remat_policy: minimal
sa_block_q: 512
"""
SCRIPT = """\
export TENSOR=8
python3 -m MaxText.train MaxText/configs/base.yml run_name=a base_emb_dim=6144 \\
  base_num_query_heads=24 base_num_kv_heads=24 base_mlp_dim=24576 base_num_decoder_layers=48 \\
  per_device_batch_size=2 max_target_length=1024 ici_fsdp_parallelism=-1 \\
  ici_tensor_parallelism=$TENSOR remat_policy=full mlp_activations="['gelu']"
"""


def job(text: str, name: str, tmp_path: Path, **given: Any) -> Any:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_job(str(path), given)


def test_a_job_of_torchtitan(tmp_path: Path) -> None:
    """Counts by hand: 2 x 8 replicas of 4 x 4 GPUs; 16 sequences of each in micro-batches of 2."""
    said = job(TITAN, "job.toml", tmp_path).scenario
    assert said["n_gpus"] == 256
    assert (said["global_batch_size"], said["micro_batch_size"]) == (256, 2)
    assert said["training_tokens"] == 1000 * 256 * 8192
    assert (said["pipeline_schedule"], said["virtual_stages"]) == ("interleaved", 2)
    assert said["zero_stage"] == 2  # pipelines keep weights gathered
    assert (said["hybrid_sharding"], said["data_parallel_shard"]) == (True, 8)
    assert (said["recompute"], said["recomputed_layers"]) == ("full", 80 / 2 / 8)
    assert (said["precision"], said["quantised_parameters"]) == ("fp8", False)
    assert (said["software"], said["tensor_parallel_overlap"]) == ("torchtitan", 0.6)


def test_older_names_and_what_is_left_of_the_gpus(tmp_path: Path) -> None:
    """GPUs come with the command: 64 / (2 x 4) replicas of 8 sequences, in pieces of 8 / 4."""
    path = tmp_path / "old.toml"
    path.write_text(OLD_TITAN, encoding="utf-8")
    said = read_spec(path, {"n_gpus": "64", "recompute": "full"})["scenario"]
    assert (said["global_batch_size"], said["micro_batch_size"]) == (64, 2)
    assert (said["software"], said["model"]) == ("torchtitan-eager", "llama-2-7b")
    assert "logit_bytes" not in said
    with pytest.raises(
        InputError, match="leaves n_gpus open: the launcher states it; give n_gpus="
    ):
        spec_of(read_job(str(path)))


def test_parts_that_torchtitan_compiles_and_scales_of_its_fp8(tmp_path: Path) -> None:
    """The loss alone, as its DeepSeek 16B until 2026: eager layers, and logits of 16 bits."""
    text = TITAN.replace(
        "enable = true\n[metrics]", 'enable = true\ncomponents = ["loss"]\n[metrics]'
    )
    read = job(text, "job.toml", tmp_path)
    said = read.scenario
    assert (said["software"], said["logit_bytes"]) == ("torchtitan-eager", 4)
    assert spec_of(read)["scenario"]["logit_bytes"] == "4 B"  # as no user left its unit out
    said = job(text.replace('"loss"', '"model"'), "job.toml", tmp_path).scenario
    assert (said["software"], said["logit_bytes"]) == ("torchtitan", 12)
    for recipe, scaling in (("rowwise", "row"), ("tensorwise", None)):
        rows = f'{TITAN}[quantize.linear.float8]\nrecipe_name = "{recipe}"\n'
        said = job(rows, "job.toml", tmp_path).scenario
        assert (said["precision"], said.get("fp8_scaling")) == ("fp8", scaling)
    wide = {"precision": "fp8", "fp8_scaling": "row", "n_gpus": 8, "model": "llama-3-8b"}
    with pytest.raises(InputError, match="no FP8 weights that have a scale a row; state quantised"):
        export(wide, "torchtitan")  # its float8.py refuses the two together
    assert "all_gather" not in export({**wide, "quantised_parameters": False}, "torchtitan")
    eager = {"software": "torchtitan", "compile": False, "n_gpus": 8, "model": "llama-3-8b"}
    assert "enable = false" in export(eager, "torchtitan")
    assert float(evaluate("logit_bytes", software="torchtitan-eager")) == 12
    assert float(evaluate("logit_bytes", software="torchtitan")) == 4


def test_flags_of_torchtitan(tmp_path: Path) -> None:
    flags = "torchrun --nproc_per_node=8 --nnodes 4 train.py --model.flavor 8B "
    flags += "--training.local_batch_size=2 --parallelism.context_parallel_degree 2\n"
    said = job(flags, "run.sh", tmp_path).scenario
    assert (said["n_gpus"], said["global_batch_size"], said["model"]) == (32, 32, "llama-3-8b")


@pytest.mark.parametrize(
    ("flavor", "published"),
    [("deepseek_v3 16b", 15.7e9), ("llama4 17bx16e", 109e9), ("deepseek_v3 671b", 671e9)],
)
def test_flavors_have_the_parameters_that_are_published(flavor: str, published: float) -> None:
    model = torchtitan.format_table().words["model.flavor"][flavor]["model"]
    count = float(Sweep({"model": model}, {}, ["parameters"]).evaluate()["parameters"])
    assert count == pytest.approx(published, rel=3e-3)


def test_every_model_is_in_the_catalog() -> None:
    rows = [
        *torchtitan.format_table().words["model.flavor"].values(),
        *maxtext.format_table().words["model_name"].values(),
    ]
    labels = [row["model"] for row in rows if isinstance(row.get("model"), str)]
    assert len(labels) > 50
    assert all(record("model", label).label == label for label in labels)


def test_a_configuration_of_maxtext(tmp_path: Path) -> None:
    """16 x 4 chips in each of 2 slices; half a sequence a chip, 3 times."""
    said = job(TEXT, "run.yml", tmp_path).scenario
    assert (said["n_gpus"], said["tensor_parallel"], said["model"]) == (128, 4, "llama-3-70b")
    assert (said["micro_batch_size"], said["global_batch_size"]) == (2, 192)
    assert said["training_tokens"] == 100 * 192 * 8192
    assert (said["zero_stage"], said["data_parallel_shard"]) == (3, 16)
    assert said["recompute"] == "products"


def test_a_launch_script_of_maxtext(tmp_path: Path) -> None:
    """22 B of MaxText's README, by hand: 4 of attention with heads of 128, two matrices."""
    spec = spec_of(job(SCRIPT, "22b.sh", tmp_path, n_gpus=256))
    assert spec["scenario"]["global_batch_size"] == 512
    assert spec["scenario"]["micro_batch_size"] == 16
    count = float(Sweep(spec["scenario"], {}, ["parameters"]).evaluate()["parameters"])
    layer = 4 * 6144 * 24 * 128 + 2 * 6144 * 24576
    assert count == pytest.approx(48 * layer + 2 * 32000 * 6144, rel=1e-3)


def test_a_batch_of_each_chip_grows_with_the_chips_that_are_given(tmp_path: Path) -> None:
    """MaxText's dcn_data_parallelism takes what is left: 13 sequences on each of 512 chips."""
    text = "python3 train.py base.yml ici_fsdp_parallelism=64 per_device_batch_size=13 steps=2"
    found = job(text, "22b.sh", tmp_path)
    assert found.scenario["global_batch_size"] == 64 * 13
    found = job(text, "22b.sh", tmp_path, n_gpus=512)
    assert found.scenario["global_batch_size"] == 512 * 13
    assert found.scenario["data_parallel_shard"] == 64


def test_a_configuration_that_a_script_names_is_not_read(tmp_path: Path) -> None:
    text = "python3 train.py models/gpu/llama2_7b.yml ici_fsdp_parallelism=8 remat_policy=full"
    found = job(text, "16vm.sh", tmp_path)
    assert "model" in found.open_inputs
    assert "not read: models/gpu/llama2_7b.yml" in found.remarks[-1]


def test_scale_doubles_heads_then_width_then_layers(tmp_path: Path) -> None:
    """64 = 2 ** 6: two doublings of each; 32: two of heads and width, and one of layers."""
    for scale, want in ((64, (8192, 64, 64, 28672)), (32, (8192, 32, 64, 28672))):
        text = f"global_parameter_scale: {scale}\nper_device_batch_size: 1\n"
        config = job(text, "scaled.yml", tmp_path).config
        names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
        assert tuple(config[name] for name in names) == want


def test_a_spec_is_no_job(tmp_path: Path) -> None:
    spec = '[scenario]\nn_gpus = 8\n[model]\nname = "x"\n[training]\n'
    assert not torchtitan.recognizes(spec)
    (tmp_path / "a.toml").write_text(spec, encoding="utf-8")
    with pytest.raises(InputError, match="unknown table 'model'"):
        read_spec(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "a.toml",
            TITAN.replace("= 4\n", '= "x"\n'),
            "tensor_parallel_degree = 'x' is not a number",
        ),
        ("a.toml", TITAN.replace("= 16", "= -3"), "local_batch_size = -3 is not a number from 1"),
        ("a.toml", TITAN.replace("Interleaved1F1B", "1F1X"), "leaves pipeline_schedule open"),
        (
            "a.toml",
            TITAN.replace('"70B"', '"71B"'),
            "leaves model open: model.flavor is <llama3 71B>",
        ),
        ("a.toml", TITAN + "[training]\n", "is not read as TOML"),
        ("b.yml", TEXT.replace("minimal", "some"), "leaves recompute open: remat_policy is <some>"),
        (
            "b.yml",
            TEXT.replace("minimal", "custom\nqkv_proj: offlod"),
            "qkv_proj = 'offlod' is not known; use one of device, offload, remat",
        ),
        ("a.toml", TITAN.replace("enable = true\n[m", 'enable = "yes"\n[m'), "'yes' is not known"),
        ("a.toml", TITAN.replace("enable = true\n[m", "enable = 1\n[m"), "use one of true, false"),
        (
            "a.toml",
            TITAN.replace("enable = true\n[m", 'enable = true\ncomponents = ["models"]\n[m'),
            "compile.components = 'models' is not known; use one of model, loss",
        ),
        (
            "a.toml",
            TITAN + '[quantize.linear.float8]\nrecipe_name = "weird"\n',
            "recipe_name = 'weird' is not known; use one of tensorwise, rowwise",
        ),
        (
            "b.yml",
            TEXT + "ici_pipeline_parallelism: 2\n",
            "ici_pipeline_parallelism = 2 is not counted",
        ),
        ("b.yml", TEXT.replace("0.5", "0.1"), "makes 0.4 sequences of a replica"),
        ("b.yml", TEXT + "a: &b 1\nc: *b\n", "has an alias or a tag in line 13"),
        ("b.yml", TEXT + "a: !!python/name:os.system\n", "has an alias or a tag in line 12"),
        ("b.yml", TEXT + "a: " + "[" * 99 + "]" * 99, "nested too deeply"),
        ("b.yml", TEXT + "a: 1\n" * 60_000, "more than 262,144 letters"),
        ("c.sh", SCRIPT.replace("=24576", "=$WIDTH"), "leaves ffn_hidden_size open"),
    ],
)
def test_wrong_values_are_told_in_one_line(name: str, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        spec_of(job(text, name, tmp_path))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_trees_are_flat_and_bounded() -> None:
    assert flat({"a": {"b": {"c": 1}, "d": {}}, 2: [3]}) == {"a.b.c": 1, "a.d": {}, "2": [3]}
    for kind, text in (("json", "[1]"), ("yaml", "a: 0x" + "f" * 99), ("toml", "a = " + "9" * 20)):
        with pytest.raises(InputError, match=f"is not read as {kind.upper()}"):
            parsed(text, "f", kind)


def drawn(dice: random.Random, software: str) -> dict[str, Any]:
    """A layout that the record of a framework has, with what its files say in any case."""
    has, titan = record("software", software).values["has"], software == "torchtitan"
    labels = [row["model"] for row in torchtitan.format_table().words["model.flavor"].values()]
    model = dice.choice([each for each in labels if isinstance(each, str)])
    made: dict[str, Any] = {"software": software, "sequence_length": dice.choice([2048, 8192])}
    made["model"] = model if titan else dice.choice(["llama-3-70b", "mixtral-8x7b", "qwen-3-14b"])
    for name in ("tensor_parallel", "context_parallel"):
        made[name] = dice.choice([1, 2, 4, 8])
    replicas, shard = dice.choice([2, 4, 8, 64]), dice.choice([2, 4, 16])
    made["pipeline_parallel"] = stages = dice.choice([1, 2, 4]) if titan else 1
    others = made["tensor_parallel"] * made["context_parallel"] * stages
    made["zero_stage"] = dice.choice(has["zero_stage"])
    made["context_parallel_type"] = dice.choice(has["context_parallel_type"])
    if made["zero_stage"] > 1 and dice.random() < 0.5:
        made |= {"data_parallel_shard": shard, "hybrid_sharding": True}
        replicas *= shard
    made["n_gpus"] = others * replicas
    if not titan and made["zero_stage"] < 2:
        made["context_parallel"], made["n_gpus"] = 1, made["tensor_parallel"] * replicas
    if made["zero_stage"] > 1 and "data_parallel_shard" not in made:
        made["expert_parallel"] = dice.choice([1, 2, replicas])
    if titan and made["zero_stage"] == 0:
        made["n_gpus"] //= made["context_parallel"]
        made["context_parallel"] = 1
    made["recompute"] = dice.choice(has["recompute"])
    made["micro_batch_size"] = dice.choice([1, 2, 8]) * (1 if titan else others)
    made["global_batch_size"] = replicas * made["micro_batch_size"] * dice.choice([1, 4, 16])
    made["training_tokens"] = 100 * made["global_batch_size"] * made["sequence_length"]
    made["precision"] = dice.choice(["bf16", "fp8", "mxfp8"])
    made["optimizer"] = dice.choice(["adam", "muon"])
    if not titan:
        policies = ("products", "full", "keep_qkv_proj", f"{MIXER}+keep_mlpwi", "keep_context")
        made["recompute"] = dice.choice(policies)
    if titan and dice.random() < 0.5:
        made["software"] = "torchtitan-eager"
    if titan and made["precision"] == "fp8":
        gathered = dice.random() < 0.5
        made |= {"master_weight_bytes": 3} if gathered else {"quantised_parameters": False}
    elif dice.random() < 0.3:
        made |= {"gradient_storage": "bf16", "master_weight_bytes": 0, "moment_bytes": 2}
    if stages > 1:
        schedule = dice.choice(has["pipeline_schedule"])
        made |= {"pipeline_schedule": schedule, "pipeline_scheduler": "pytorch"}
        made["virtual_stages"] = 1 if schedule in ("1f1b", "gpipe") else 2
        layers = record("model", made["model"]).values["layers"] + 2
        if schedule == "interleaved" and layers % (3 * stages) == 0:
            made["virtual_stages"] = 3
        if made["zero_stage"]:
            made["gradient_sync"] = "step"
    return made


@pytest.mark.parametrize("software", ["torchtitan", "maxtext"])
def test_what_is_written_is_read_as_the_same_layout(software: str, tmp_path: Path) -> None:
    dice = random.Random(20)
    of = {"torchtitan": torchtitan, "maxtext": maxtext}[software]
    for _ in range(scaled(25, 200)):
        want = drawn(dice, software)
        text = export(want, software)
        assert of.recognizes(text)
        found = of.read(text, "f")
        assert not found.unknown, text
        assert not found.open_inputs, text
        scenario = {"software": of.NAME, **found.scenario}
        assert want == {name: scenario.get(name) for name in want}, text


@pytest.mark.parametrize(
    ("name", "text"), [("a.toml", TITAN), ("b.toml", OLD_TITAN), ("c.yml", TEXT), ("d.sh", SCRIPT)]
)
def test_broken_files_are_read_or_refused_in_one_line(name: str, text: str, tmp_path: Path) -> None:
    pieces = ["1e999", "-1", "nan", "=", "[", "{", '"', "'", "\n", "\x00", "&a", "*a", "!!x ", ": "]
    pieces += ["$X", "<x>", "9" * 400, "true", "none", "[a]\n", "- ", "\ud7ff", "#", "\\", "0"]
    dice, path = random.Random(3), tmp_path / name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(scaled(50, 200)):
            held = text
            for _ in range(dice.randint(1, 3)):
                at = dice.randrange(len(held))
                held = held[:at] + dice.choice(pieces) + held[at + dice.randint(0, 9) :]
            path.write_bytes(held.encode(errors="surrogatepass"))
            answered(lambda: read_spec(path, {"n_gpus": 64}))


PARTS = ("query_proj", "key_proj", "value_proj", "out_proj")
MIXER = "keep_qkv_proj+keep_context+keep_out_proj"


@pytest.mark.parametrize(
    ("policy", "recompute"),
    [
        ("remat_policy: minimal_with_context", f"{MIXER}+keep_mlpwi"),
        ("remat_policy: save_dot_with_context_except_mlp", MIXER),
        ("remat_policy: full", "full"),
        ("remat_policy: custom\nmlpwo: device", "full"),
        ("remat_policy: custom\ndecoder_layer_input: offload", "keep_none"),
        (
            "\n".join(["remat_policy: custom", *(f"{name}: device" for name in PARTS)]),
            "keep_qkv_proj+keep_out_proj",
        ),
        (
            "\n".join(["remat_policy: custom", *(f"{n}: device" for n in (*PARTS, "context"))]),
            MIXER,
        ),
        ("remat_policy: custom\ncontext: $X", None),
        ("remat_policy: custom\nkey_proj: device", None),
        ("remat_policy: custom\nmla_q: device", None),
        ("remat_policy: save_qkv_proj", "keep_qkv_proj"),
    ],
)
def test_policies_of_maxtext_by_tensors(policy: str, recompute: str | None, tmp_path: Path) -> None:
    """decoders.py (get_remat_policy): what no input says is asked for."""
    text = f"model_name: llama3-8b\nper_device_batch_size: 2\nici_fsdp_parallelism: 8\n{policy}\n"
    found = job(text, "run.yml", tmp_path)
    assert not found.unknown
    assert ("recompute" in found.open_inputs) == (recompute is None)
    if recompute is not None:
        assert found.scenario["recompute"] == recompute


def test_tensors_that_a_recipe_offloads(tmp_path: Path) -> None:
    """Llama 3.1 8B of tpu-recipes, training/trillium: products of attention go to hosts."""
    text = "model_name: llama3.1-8b\nper_device_batch_size: 3\nici_fsdp_parallelism: 16\n"
    names = ("decoder_layer_input", *PARTS)
    text += "remat_policy: custom\n" + "".join(f"{name}: offload\n" for name in names)
    said = job(text, "run.yml", tmp_path).scenario
    assert said["recompute"] == "keep_qkv_proj+keep_out_proj"
    moved = {name for name, value in said.items() if name.startswith("offload_") and value}
    assert moved == {"offload_attn_norm", "offload_core_attn", "offload_mlp_norm"}
    fields = maxtext.to_fields(said, {})
    assert fields["remat_policy"] == "custom"
    assert {name for name, value in fields.items() if value == "offload"} == {*names}
