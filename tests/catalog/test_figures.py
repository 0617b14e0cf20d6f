"""Catalog figures against vendors' data entered here, and against their components."""

import math
from typing import Any

import pytest

import fleetcube
from fleetcube.catalog import kind, record
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from ..table import each


def of(kind_name: str, label: str) -> Any:
    return record(kind_name, label).values


# Dense 16-bit peak = units x FLOP per clock and unit x boost clock. Whitepapers: V100 (2017), A100
# (2020), H100 (2022), Turing and Ada: tensor cores per SM and FMA per clock; AMD CDNA 2, 3 and 4;
# Gaudi: engines of 256 x 256; TPU v4 (Jouppi et al. 2023): 2 cores of 4 arrays of 128 x 128.
PEAKS = {
    "v100-sxm2-32gb": ("fp16", 80 * 8 * 64 * 2 * 1.530e9),
    "v100-pcie-32gb": ("fp16", 80 * 8 * 64 * 2 * 1.370e9),
    "a100-sxm-40gb": ("bf16", 108 * 4 * 256 * 2 * 1.410e9),
    "a100-sxm-80gb": ("bf16", 108 * 4 * 256 * 2 * 1.410e9),
    "a100-pcie-80gb": ("bf16", 108 * 4 * 256 * 2 * 1.410e9),
    "h100-sxm": ("bf16", 132 * 4 * 512 * 2 * 1.830e9),
    "h100-pcie": ("bf16", 114 * 4 * 512 * 2 * 1.620e9),
    "h200-sxm": ("bf16", 132 * 4 * 512 * 2 * 1.830e9),
    "h800-sxm": ("bf16", 132 * 4 * 512 * 2 * 1.830e9),
    "t4": ("fp16", 40 * 8 * 64 * 2 * 1.590e9),
    "a10": ("bf16", 72 * 4 * 128 * 2 * 1.695e9),
    "l4": ("bf16", 58 * 4 * 128 * 2 * 2.040e9),
    "rtx-a6000": ("bf16", 84 * 4 * 128 * 2 * 1.800e9),
    "mi250x": ("bf16", 220 * 1024 * 1.700e9),
    "mi300x": ("bf16", 304 * 2048 * 2.100e9),
    "mi325x": ("bf16", 304 * 2048 * 2.100e9),
    "mi350x": ("bf16", 256 * 4096 * 2.200e9),
    "mi355x": ("bf16", 256 * 4096 * 2.400e9),  # AMD rounds 2516.6 to 2500
    "gaudi-2": ("bf16", 2 * 256 * 256 * 2 * 1.650e9),
    "gaudi-3": ("bf16", 8 * 256 * 256 * 2 * 1.600e9),
    "tpu-v4": ("bf16", 2 * 4 * 128 * 128 * 2 * 1.050e9),
}


@pytest.mark.parametrize("label", PEAKS)
def test_peaks_are_dense(label: str) -> None:
    precision, flops = PEAKS[label]
    assert of("gpu", label)[f"peak_flops_{precision}"] == pytest.approx(flops, rel=7e-3)


# Vendors' sheets print sparse peaks in TFLOP/s: 16 bit, 8 bit. Dense is half.
SPARSE = {
    "a100-sxm-80gb": (624, None),
    "h100-sxm": (1979, 3958),
    "h100-pcie": (1513, 3026),
    "h200-sxm": (1979, 3958),
    "b200-sxm": (4500, 9000),
    "gb200": (5000, 10000),
    "b300-sxm": (4500, 9000),
    "gb300": (5000, 10000),
    "l4": (242, 485),
    "l40s": (724, 1466),
    "mi300x": (2614.9, 5229.8),
    "mi355x": (5000, 10000),
}


@pytest.mark.parametrize("label", SPARSE)
def test_peaks_are_half_of_the_sparse_ones(label: str) -> None:
    sixteen_bit, eight_bit = SPARSE[label]
    values = of("gpu", label)
    assert values["peak_flops_bf16"] == pytest.approx(sixteen_bit * 1e12 / 2, rel=1e-3)
    if eight_bit is not None:
        assert values["peak_flops_fp8"] == pytest.approx(eight_bit * 1e12 / 2, rel=1e-3)


# Racks: totals of 72 GPUs in the Blackwell technical brief and on the GB300 page, dense PFLOP/s.
@pytest.mark.parametrize(
    ("label", "precision", "petaflops"),
    [("gb200", "bf16", 180), ("gb200", "fp8", 360), ("gb200", "fp4", 720), ("gb300", "fp4", 1080)],
)
def test_racks_of_72(label: str, precision: str, petaflops: float) -> None:
    assert 72 * of("gpu", label)[f"peak_flops_{precision}"] == petaflops * 1e15


# Boards of 8 on the HGX page: dense PFLOP/s in FP4.
@pytest.mark.parametrize(("label", "petaflops"), [("b200-sxm", 72), ("b300-sxm", 108)])
def test_boards_of_8(label: str, petaflops: float) -> None:
    assert 8 * of("gpu", label)["peak_flops_fp4"] == petaflops * 1e15


@each("label", kind("gpu"))
def test_narrow_formats_are_faster(label: str) -> None:
    values = of("gpu", label)
    peaks = [
        values[key]
        for key in ("peak_flops_bf16", "peak_flops_fp8", "peak_flops_fp4")
        if key in values
    ]
    assert peaks == sorted(peaks)
    if {"peak_flops_fp16", "peak_flops_bf16"} <= set(values):
        assert values["peak_flops_fp16"] == values["peak_flops_bf16"]


@each("label", kind("gpu"))
def test_memory_is_swept_in_a_plausible_time(label: str) -> None:
    # A slip by a factor of 1000, or bits for bytes, is outside this range.
    values = of("gpu", label)
    assert 0.012 < values["hbm_capacity"] / values["hbm_bandwidth"] < 0.085


# Links per GPU x bytes/s per link and direction: NVLink 2, 3 and 4 have 25 GB/s each way on a link,
# NVLink 5 has 50; Infinity Fabric joins each MI300X to its 7 peers at 64. PCIe: lanes x GT/s.
LINKS = {
    "v100-sxm2-32gb": 6 * 25e9,
    "v100-pcie-32gb": 16 * 8e9 * 128 / 130 / 8,
    "a100-sxm-40gb": 12 * 25e9,
    "a100-sxm-80gb": 12 * 25e9,
    "a100-pcie-80gb": 16 * 16e9 * 128 / 130 / 8,
    "h100-sxm": 18 * 25e9,
    "h100-pcie": 16 * 32e9 * 128 / 130 / 8,
    "h100-nvl": 12 * 25e9,
    "h200-sxm": 18 * 25e9,
    "h800-sxm": 8 * 25e9,
    "h20": 18 * 25e9,
    "gh200-96gb": 18 * 25e9,
    "gh200-144gb": 18 * 25e9,
    "b200-sxm": 18 * 50e9,
    "gb200": 18 * 50e9,
    "b300-sxm": 18 * 50e9,
    "gb300": 18 * 50e9,
    "rubin": 36 * 50e9,
    "t4": 16 * 8e9 * 128 / 130 / 8,
    "a10": 16 * 16e9 * 128 / 130 / 8,
    "l4": 16 * 16e9 * 128 / 130 / 8,
    "l40s": 16 * 16e9 * 128 / 130 / 8,
    "rtx-a6000": 112.5e9 / 2,
    "mi250x": 7 * 50e9,
    "mi300x": 7 * 64e9,  # 448 GB/s; the marketed 896 GB/s counts both directions
    "mi325x": 7 * 64e9,
    "mi350x": 7 * 76.5e9,
    "mi355x": 7 * 76.5e9,
    "gaudi-2": 21 * 100e9 / 8,
    "gaudi-3": 21 * 200e9 / 8,
    "tpu-v4": 6 * 50e9,
    "tpu-v5e": 4 * 50e9,
    "tpu-v5p": 1200e9 / 2,  # Google's totals are bidirectional
    "tpu-v6e": 800e9 / 2,
    "tpu-7x": 6 * 100e9,
    "trainium-2": 1280e9 / 2,
    "trainium-3": 2560e9 / 2,
}


@each("label", kind("gpu"))
def test_links_count_one_direction(label: str) -> None:
    bandwidth = of("gpu", label).get("intra_node_bandwidth")
    assert (bandwidth is not None) == (label in LINKS), f"enter {label} in LINKS, from its sheet"
    if label in LINKS:  # sources round the 31.5 GB/s of PCIe 4 to 31
        assert bandwidth == pytest.approx(LINKS[label], rel=0.02)


# Memory as the sheets print it: bytes, GB/s.
MEMORY = {
    "v100-sxm2-32gb": (31.74 * 2**30, 900),
    "a100-sxm-40gb": (39.50 * 2**30, 1555),
    "a100-sxm-80gb": (79.25 * 2**30, 2039),
    "a100-pcie-80gb": (80e9, 1935),
    "h100-sxm": (79.11 * 2**30, 3350),
    "h100-pcie": (80e9, 2000),
    "h100-nvl": (94e9, 3938),
    "h200-sxm": (139.81 * 2**30, 4800),
    "h800-sxm": (80e9, 3350),
    "h20": (95.08 * 2**30, 4000),
    "gh200-96gb": (96e9, 4000),
    "gh200-144gb": (141e9, 4800),
    "b200-sxm": (178.35 * 2**30, 7700),
    "gb200": (184.31 * 2**30, 8000),
    "b300-sxm": (267.69 * 2**30, 7700),
    "gb300": (276.50 * 2**30, 576e3 / 72),  # bandwidth: total of the rack
    "rubin": (288e9, 22000),
    "mi250x": (128e9, 3277),
    "mi300x": (192e9, 5300),
    "mi325x": (256e9, 6000),
    "mi350x": (288e9, 8000),
    "mi355x": (288e9, 8000),
    "gaudi-2": (96e9, 2450),
    "gaudi-3": (128e9, 3670),
    "tpu-v4": (32 * 2**30, 1200),
    "tpu-v5e": (16e9, 819),
    "tpu-v5p": (95 * 2**30, 2765),
    "tpu-v6e": (32 * 2**30, 1640),
    "tpu-7x": (192 * 2**30, 7380),
    "trainium-2": (96 * 2**30, 2900),
}


@pytest.mark.parametrize("label", MEMORY)
def test_memory(label: str) -> None:
    capacity, bandwidth = MEMORY[label]
    values = of("gpu", label)
    assert values["hbm_capacity"] == capacity
    assert values["hbm_bandwidth"] == pytest.approx(bandwidth * 1e9, rel=0.01)


# MiB that nvidia-smi counts: modal-labs/modal-client pull 2797, NVIDIA/TensorRT-LLM issue 9554.
@pytest.mark.parametrize(
    ("label", "mebibytes"),
    [("a100-sxm-40gb", 40960), ("a100-sxm-80gb", 81920), ("h100-sxm", 81559), ("h200-sxm", 143771)],
)
def test_a_program_may_have_nearly_all_that_the_driver_counts(label: str, mebibytes: int) -> None:
    assert 0.98 < of("gpu", label)["hbm_capacity"] / (mebibytes * 2**20) < 1


# Bits of the memory bus x rate of a pin / 8.
BUSES = {
    "v100-sxm2-32gb": 4096 * 1.752e9,
    "a100-sxm-40gb": 5120 * 2.430e9,
    "a100-sxm-80gb": 5120 * 3.186e9,
    "t4": 256 * 10e9,
    "a10": 384 * 12.5e9,
    "l4": 192 * 12.5e9,
    "l40s": 384 * 18e9,
    "rtx-a6000": 384 * 16e9,
    "mi250x": 8192 * 3.2e9,
    "mi300x": 8192 * 5.200e9,
}


@pytest.mark.parametrize("label", BUSES)
def test_memory_bandwidth_is_bus_times_rate(label: str) -> None:
    assert of("gpu", label)["hbm_bandwidth"] == pytest.approx(BUSES[label] / 8, rel=6e-3)


# InfiniBand ports have four lanes; data rate of a lane in Gbit/s (InfiniBand Trade Association).
@pytest.mark.parametrize(
    ("label", "lane"),
    [
        ("infiniband-edr", 25),
        ("infiniband-hdr", 50),
        ("infiniband-ndr", 100),
        ("infiniband-xdr", 200),
        ("infiniband-gxdr", 400),
    ],
)
def test_infiniband_ports_have_four_lanes(label: str, lane: float) -> None:
    assert of("fabric", label)["inter_node_bandwidth"] == 4 * lane * 1e9 / 8


# Machines of the clouds: cards x rate of a card / accelerators = the share that the fabric states.
@pytest.mark.parametrize(
    ("node", "fabric", "gigabits"),
    [
        ("aws-p4d", "efa-p4d", 100),
        ("aws-p5", "efa-p5", 100),
        ("aws-p5en", "efa-p5en", 200),
        ("aws-p6-b200", "efa-p6-b200", 400),
        ("aws-p6-b300", "efa-p6-b300", 400),
        ("aws-trn2", "efa-trn2", 200),
        ("gcp-a3-high", "gcp-tcpx", 200),
        ("gcp-a3-mega", "gcp-tcpxo", 200),
        ("dgx-h100", "infiniband-ndr", 400),
        ("frontier-node", "slingshot-11", 200),
        ("azure-nd-mi300x-v5", "infiniband-ndr", 400),
        ("aws-trn2-ultraserver", "efa-trn2", 200),
        ("h800-8gpu", "deepseek-h800", 400),
        ("grand-teton-h100", "meta-24k-roce", 400),
    ],
)
def test_share_of_the_network(node: str, fabric: str, gigabits: float) -> None:
    cards, gpus = (of("node", node)[key] for key in ("nics_per_node", "gpus_per_node"))
    share = of("fabric", fabric)["inter_node_bandwidth"]
    assert share == cards * gigabits * 1e9 / 8 / gpus


# Leaf switches of published clusters, from what their papers count: GPUs over switches.
LEAVES = {
    "meta-24k-roce": (3072 / 192, 1),  # a rack of two servers behind one switch
    "deepseek-h800": (64 / 2, 1),  # a plane in two layers of 64 ports: 64 x 64 / 2 = 16,384 / 8
    "fire-flyer-2": (8 * 800 / 40, 1),  # 800 nodes in two layers of 40 ports, one card a node
    "megascale": (2 * 64 / 2, 1),  # half of 64 ports down, each cut in two
    "alibaba-hpn": (1024 / 8, 1.067),  # a segment of 128 hosts of 8, rail by rail, in either plane
    "dgx-superpod-ndr": (512 / 16, 1),
}


@pytest.mark.parametrize("label", LEAVES)
def test_leaves_of_clusters(label: str) -> None:
    fabric = of("fabric", label)
    assert (fabric["gpus_per_switch"], fabric["oversubscription"]) == LEAVES[label]


# Pods, from what their papers count: GPUs of a cluster or of a segment, and the core's ratio.
@pytest.mark.parametrize(
    ("label", "gpus", "ratio"),
    [("meta-24k-roce", 24576 / 8, 7), ("alibaba-hpn", 15 * 1024, 15)],
)
def test_pods_of_clusters(label: str, gpus: float, ratio: float) -> None:
    fabric = of("fabric", label)
    assert (fabric["gpus_per_pod"], fabric["pod_oversubscription"]) == (gpus, ratio)


# A rack of trays: the values of a rack as one node, but trays fail one by one.
@pytest.mark.parametrize("rack", ["gb200-nvl72", "gb300-nvl72"])
def test_trays_of_a_rack(rack: str) -> None:
    job = {"model": "llama-3-70b", "fabric": "infiniband-ndr", "n_gpus": 288, "tensor_parallel": 8}
    outputs = ["scale_up_gpus", "step_time", "cluster_mtbf"]
    cards = {"global_batch_size": 36 * 8, "nic_mttf": math.inf, "psu_mttf": math.inf}
    whole, trays = (
        fleetcube.evaluate(outputs, node=node, **job, **cards) for node in (rack, f"{rack}-tray")
    )
    assert 18 * of("node", f"{rack}-tray")["gpus_per_node"] == of("node", rack)["gpus_per_node"]
    for name in outputs:
        assert float(trays[name]) == pytest.approx(float(whole[name]))


# Jin et al. 2025, MegaScale-MoE (arXiv:2505.11432), table 4: TFLOP/s, GB, TB/s, duplex GB/s.
@pytest.mark.parametrize(
    ("label", "peak", "memory", "rate", "link"),
    [
        ("h800-sxm", 989, 80, 3.4, 400),
        ("a100-sxm-80gb", 312, 80, 2.0, 600),
        ("h20", 148, 96, 4.0, 900),
    ],
)
def test_export_variants(label: str, peak: float, memory: float, rate: float, link: float) -> None:
    gpu = of("gpu", label)
    assert gpu["peak_flops_bf16"] == peak * 1e12
    assert gpu["hbm_capacity"] == pytest.approx(memory * 2**30, rel=0.07)
    assert gpu["hbm_bandwidth"] == pytest.approx(rate * 1e12, rel=0.03)
    assert gpu["intra_node_bandwidth"] == link * 1e9 / 2


# Totals of an UltraServer: PFLOP/s in 16 and 8 bits, TB/s (AWS Neuron documentation).
@pytest.mark.parametrize(
    ("label", "chips", "sixteen_bit", "eight_bit", "rate"),
    [
        ("trainium-2", 64, 42.8, 83.2, 185.6),
        ("trainium-3", 64, None, 161, 314),
        ("trainium-3", 144, None, 362, 706),
    ],
)
def test_ultraservers(
    label: str, chips: int, sixteen_bit: float | None, eight_bit: float, rate: float
) -> None:
    chip = of("gpu", label)
    assert chips * chip["peak_flops_fp8"] == pytest.approx(eight_bit * 1e15, rel=2e-3)
    assert chips * chip["hbm_bandwidth"] == pytest.approx(rate * 1e12, rel=2e-3)
    if sixteen_bit is not None:
        assert chips * chip["peak_flops_bf16"] == pytest.approx(sixteen_bit * 1e15, rel=4e-3)


@pytest.mark.parametrize("chip", ["v4", "v5e", "v5p", "v6e", "7x"])
def test_links_of_a_tpu_go_on_to_the_next_host(chip: str) -> None:
    inside = of("gpu", f"tpu-{chip}")["intra_node_bandwidth"]
    assert of("fabric", f"tpu-ici-{chip}")["inter_node_bandwidth"] == inside


@pytest.mark.parametrize(("chip", "gigabits"), [("gaudi-2", 100), ("gaudi-3", 200)])
def test_a_gaudi_has_24_ports(chip: str, gigabits: float) -> None:
    inside = of("gpu", chip)["intra_node_bandwidth"]
    outside = of("fabric", f"{chip}-scale-out")["inter_node_bandwidth"]
    assert inside + outside == 24 * gigabits * 1e9 / 8


@pytest.mark.parametrize("label", [name for name in kind("fabric") if name.endswith("-sharp")])
def test_sharp_is_the_only_difference(label: str) -> None:
    plain = of("fabric", label.removesuffix("-sharp"))
    assert dict(of("fabric", label)) == {**plain, "fabric_reduction": True}


@pytest.mark.parametrize(
    ("label", "gpus", "kilowatts"),
    # data sheets and user guides: maximum power of the system
    [("dgx-a100", 8, 6.5), ("dgx-h100", 8, 10.2), ("dgx-b200", 8, 14.3), ("gb200-nvl72", 72, 120)],
)
def test_nodes(label: str, gpus: int, kilowatts: float) -> None:
    node = of("node", label)
    assert node["gpus_per_node"] == gpus
    assert node["node_power"] == kilowatts * 1e3
    assert gpus * of("gpu", node["gpu"])["gpu_tdp"] < node["node_power"]
    assert node["series_psus_per_node"] == 0  # supplies of these systems are redundant


# NVLink SHARP came with the third NVSwitch, that of Hopper.
@each("label", kind("node"))
def test_switches_add_up_from_hopper_on(label: str) -> None:
    node = of("node", label)
    nvswitch = node["gpu"].startswith(
        ("h100-sxm", "h200", "h800", "b200", "gb200", "b300", "gb300")
    )
    bridged = label == "kempner-h100-4gpu"
    assert node.get("node_reduction", False) == (nvswitch and not bridged)


# Everything that is not a rack, a pod or a server of another size has 8.
SIZES = {
    "gb200-nvl72": 72,
    "gb300-nvl72": 72,
    "gb200-nvl72-tray": 4,
    "gb300-nvl72-tray": 4,
    "kempner-h100-4gpu": 4,
    "frontier-node": 4,
    "aws-trn2-ultraserver": 4 * 16,
    "aws-trn3-ultraserver-gen1": 4 * 16,
    "aws-trn3-ultraserver-gen2": 36 * 4,
}


@pytest.mark.parametrize("label", [name for name in kind("node") if not name.startswith("tpu")])
def test_accelerators_of_a_node(label: str) -> None:
    trainium = label.startswith("aws-trn")
    assert of("node", label)["gpus_per_node"] == SIZES.get(label, 16 if trainium else 8)


# Chips of a pod (Google Cloud TPU documentation, system architecture).
@pytest.mark.parametrize(
    ("label", "chips", "shape"),
    [
        ("tpu-v4-pod", 4096, (16, 16, 16)),
        ("tpu-v5e-pod", 256, (16, 16)),
        ("tpu-v5p-pod", 8960, (16, 20, 28)),
        ("tpu-v6e-pod", 256, (16, 16)),
        ("tpu-7x-pod", 9216, (16, 24, 24)),
    ],
)
def test_pods_are_tori(label: str, chips: int, shape: tuple[int, ...]) -> None:
    assert of("node", label)["gpus_per_domain"] == chips == math.prod(shape)


@pytest.mark.parametrize(
    ("label", "gpu_hours"),
    [
        ("llama-3-405b-run", 16384 * 54 * 24 / 419),  # Llama 3, section 3.3.4: unexpected ones
        ("rsc-1", 8 * 1000 * 24 / 6.50),  # Kokolis et al.: failures per 1000 node-days
        ("rsc-2", 8 * 1000 * 24 / 2.34),
    ],
)
def test_failure_rates_of_the_field(label: str, gpu_hours: float) -> None:
    assert of("reliability", label)["gpu_mttf"] / 3600 == pytest.approx(gpu_hours, rel=1e-5)


def test_components_of_the_llama_3_run_fail_as_often_as_table_5_says() -> None:
    # Llama 3, table 5: counts in 54 days on 16384 GPUs, 2048 hosts.
    values = of("reliability", "llama-3-405b-components")
    run = 54 * 86400

    def failures(units: int, name: str) -> float:
        return float(units * run / values[name])

    assert failures(16384, "gpu_mttf") == pytest.approx(148 + 72 + 19 + 17 + 6 + 6, rel=1e-4)
    assert failures(16384, "nic_mttf") == pytest.approx(7 + 35, rel=1e-4)
    assert failures(2048, "host_mttf") == pytest.approx(32 + 3 + 3 + 2 + 2 + 2 + 2, rel=1e-4)
    assert failures(2048, "software_mttf") == pytest.approx(54 + 7 + 2, rel=1e-4)
    total = sum(
        failures(units, name)
        for units, name in [
            (16384, "gpu_mttf"),
            (16384, "nic_mttf"),
            (2048, "host_mttf"),
            (2048, "software_mttf"),
            (4096, "psu_mttf"),
            (4096, "cable_mttf"),
            (512, "switch_mttf"),
        ]
    )
    assert total == pytest.approx(419, rel=1e-4)


def test_the_empirical_line_meets_both_measured_points() -> None:
    # Kokolis et al. 2025: 47.7 d at 8 GPUs, 7.9 h at 1024.
    values = of("reliability", "rsc-1-empirical-8gpu")
    assert values["mtbf_model"] == "empirical"
    at_8 = values["reference_mtbf"] * (values["reference_gpus"] / 8) ** values["mtbf_exponent"]
    assert at_8 == pytest.approx(47.7 * 86400, rel=1e-3)


def test_grids() -> None:
    # 429 g/kWh in the United States: kilograms of a joule.
    assert of("site", "us-average")["grid_carbon_intensity"] == pytest.approx(0.429 / 3.6e6)
    for label in kind("site"):
        assert 1 < of("site", label)["pue"] < 1.6
        assert 0 < of("site", label).get("grid_carbon_intensity", 1e-7) * 3.6e6 < 1


def test_storage() -> None:
    assert of("storage", "orion-disk")["checkpoint_write_bandwidth"] == 4.6e12
    assert of("storage", "3fs-180-nodes")["checkpoint_read_bandwidth"] == 6.6 * 2**40
    # 180 storage nodes x 2 x 200 Gbit/s is the most their cards carry.
    assert of("storage", "3fs-180-nodes")["checkpoint_read_bandwidth"] < 180 * 2 * 25e9
    assert of("storage", "peer-memory-ndr")["per_node_storage_bandwidth"] == 8 * 50e9


# Models: parameters counted from the shape alone, by the formulas of the engine

STATED = {"parameters", "active_parameters", "looked_up_parameters", "training_tokens"}


def counted(label: str, quantity: str = "parameters") -> float:
    """The engine's count for the shape of a catalog entry, without its stated counts."""
    shape = {
        key: value
        for key, value in of("model", label).items()
        if key not in STATED
        and (key in INPUTS or key in PHYSICS.quantities or key == "layer_pattern")
    }
    return float(fleetcube.evaluate(quantity, **shape))


# Weights of the released files, summed over their tensors (Hugging Face safetensors index).
RELEASED = {
    "gpt-2-124m": 124_439_808,
    "gpt-2": 1_557_611_200,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen-2-5-72b": 72_706_203_648,
    "qwen-3-0-6b": 596_049_920,
    "qwen-3-1-7b": 1_720_574_976,
    "qwen-3-4b": 4_022_468_096,
    "qwen-3-8b": 8_190_735_360,
    "qwen-3-14b": 14_768_307_200,
    "qwen-3-32b": 32_762_123_264,
}


@pytest.mark.parametrize("label", RELEASED)
def test_the_shape_yields_the_released_weights(label: str) -> None:
    # Left out: the last norm of a GPT (2 h), the biases of Qwen's queries, keys and values, the
    # norms of the queries and keys of Qwen3.
    assert counted(label) == pytest.approx(RELEASED[label], rel=1.5e-5)


def test_the_shape_of_gpt_3_yields_174600_million() -> None:
    # Brown et al. 2020, table D.1.
    assert counted("gpt-3-175b") == pytest.approx(174_600e6, rel=1e-3)


# Stated counts that differ by more than 1 % from that of the shape, and why.
NOT_EXACT = {
    "gpt-2": (0.04, "the paper says 1542M and 1.5B for 1558M"),
    "megatron-1-7b": (-0.03, "the table rounds 1.65 to 1.7"),
    "megatron-3-6b": (-0.011, "the table rounds 3.56 to 3.6"),
    "llama-2-7b": (-0.04, "named 7B for 6.74B"),
    "llama-2-70b": (-0.015, "named 70B for 68.98B"),
    "falcon-40b": (0.035, "named 40B for 41.3B"),
    "kimi-k2": (0.03, "announced as 1T for 1.026T"),
    "kimi-k2-thinking": (0.03, "announced as 1T for 1.026T"),
    "llama-4-scout": (-0.012, "109B with the encoder of images"),
}


@each("label", kind("model"))
def test_parameters_are_those_of_the_shape(label: str) -> None:
    difference = counted(label) / of("model", label)["parameters"] - 1
    if label in NOT_EXACT:
        bound, _ = NOT_EXACT[label]
        assert 0.01 < abs(difference) <= abs(bound)
        assert difference * bound > 0
    else:
        assert abs(difference) <= 0.01


@pytest.mark.parametrize("label", ["gemma-7b", "gemma-2-27b", "palm-540b"])
def test_tied_embeddings_are_counted_once(label: str) -> None:
    # 8.54e9 (the released weights), 27.227e9 (table 2 of the report), 540.35e9 (the paper's text)
    assert counted(label) == pytest.approx(of("model", label)["parameters"], rel=1e-4)


def test_untied_embeddings_are_counted_twice() -> None:
    # GPT-NeoX: a padded vocabulary in both, rotary instead of learned positions.
    shape = of("model", "gpt-neox-20b")
    padding = (2 * (50432 - 50257) - 2048) * shape["hidden_size"]
    assert counted("gpt-neox-20b") + padding == pytest.approx(shape["parameters"], rel=1e-4)


# A table of the model card: attention, feed-forward blocks, both embeddings; for one token.
GPT_OSS = {
    "gpt-oss-120b": (0.96e9, 114.71e9, 1.16e9, 5.13e9),
    "gpt-oss-20b": (0.64e9, 19.12e9, 1.16e9, 3.61e9),
}


@pytest.mark.parametrize("label", GPT_OSS)
def test_parts_of_gpt_oss_are_those_of_its_card(label: str) -> None:
    shape = of("model", label)
    attention, ffn, embeddings, active = GPT_OSS[label]
    layers = shape["layers"]
    per_layer = counted(label, "attention_parameters_per_layer")
    assert layers * per_layer == pytest.approx(attention, abs=0.01e9)
    assert counted(label, "ffn_parameters") == pytest.approx(ffn, rel=2e-3)
    assert 2 * shape["vocab_size"] * shape["hidden_size"] == pytest.approx(embeddings, abs=5e6)
    multiplied = counted(label, "layer_matrix_flops_per_token") / 6 + embeddings / 2
    assert multiplied == pytest.approx(active, rel=2e-3)
    assert layers == 2 * shape["windowed_layers"]


@each("label", kind("model"))
def test_the_multiplied_parameters_are_those_of_the_shape(label: str) -> None:
    # stated counts less look-ups, against every matrix; as accurate as the counts
    names = ["layer_matrix_flops_per_token", "logits_flops_per_token"]
    said = fleetcube.evaluate(names, model=label)
    stated = sum(float(said[name]) for name in names)
    shape = sum(counted(label, name) for name in names)
    assert stated == pytest.approx(shape, rel=0.04)


# Active parameters: published ones are rounded, and some leave out the embedding that is looked up.
ACTIVE = {
    "mixtral-8x7b": (0.01, False),
    "mixtral-8x22b": (0.01, False),
    "qwen-3-30b-a3b": (0.02, False),  # 3.35 is printed as 3.3
    "qwen-3-235b-a22b": (0.01, False),
    "dbrx": (0.015, False),  # 36.47 is printed as 36
    "deepseek-v2": (0.01, True),
    "deepseek-v3": (0.011, True),
    "deepseek-v3-2": (0.013, True),  # with the indexer, which 37 does not name
    "kimi-k2": (0.011, True),
    "kimi-k2-thinking": (0.011, True),
    "llama-4-scout": (0.011, False),  # 17.17 is printed as 17
    "llama-4-maverick": (0.011, False),
    "glm-4-5": (0.002, True),
    "glm-4-5-air": (0.002, True),
    "glm-5": (0.002, True),
    "minimax-m2": (0.002, True),
    "gpt-oss-120b": (0.01, True),
    "gpt-oss-20b": (0.01, True),
}


@pytest.mark.parametrize(
    "label", [name for name in kind("model") if "active_parameters" in of("model", name)]
)
def test_active_parameters_of_a_mixture_of_experts(label: str) -> None:
    shape = of("model", label)
    tolerance, without_embedding = ACTIVE[label]
    embedding = shape["vocab_size"] * shape["hidden_size"] if without_embedding else 0
    found = counted(label, "active_parameters") - embedding
    assert shape["active_parameters"] == pytest.approx(found, rel=tolerance)


# For one token, without either embedding, as published; the records have the output layer.
WITHOUT_EMBEDDINGS = {
    "glm-4-5": 32e9,  # arXiv:2508.06471, table 1: the multi-token prediction layer is counted
    "glm-4-5-air": 12e9,
    "glm-5": 40e9,
    "minimax-m2": 10e9,
}


@pytest.mark.parametrize("label", WITHOUT_EMBEDDINGS)
def test_active_parameters_without_embeddings(label: str) -> None:
    shape = of("model", label)
    found = counted(label, "active_parameters") - 2 * shape["vocab_size"] * shape["hidden_size"]
    assert found == pytest.approx(WITHOUT_EMBEDDINGS[label], rel=0.021)


def test_latent_attention_counts_its_matrices() -> None:
    # DeepSeek-V3, section 4.2: d = 7168, 128 heads, latents 1536 and 512, heads 128 + 64 and 128.
    down = 7168 * 1536 + 7168 * (512 + 64)
    up = 1536 * 128 * (128 + 64) + 512 * 128 * (128 + 128)
    shape = of("model", "deepseek-v3")
    assert shape["attention_parameters_per_layer"] == down + up + 128 * 128 * 7168
    assert shape["kv_elements_per_layer"] == 512 + 64
    # DeepSeek-V3.2 and GLM-5 add an indexer, of queries from the latent, one key, weights.
    sparse = of("model", "deepseek-v3-2")
    indexer = 1536 * 64 * 128 + 7168 * 128 + 7168 * 64
    dense = shape["attention_parameters_per_layer"]
    assert sparse["attention_parameters_per_layer"] == dense + indexer
    assert sparse["kv_elements_per_layer"] == 512 + 64 + 128
    down, up = 6144 * 2048 + 6144 * (512 + 64), 2048 * 64 * 256 + 512 * 64 * (192 + 256)
    indexer = 2048 * 32 * 128 + 6144 * 128 + 6144 * 32
    glm = of("model", "glm-5")["attention_parameters_per_layer"]
    assert glm == down + up + 64 * 256 * 6144 + indexer


@each("label", kind("model"))
def test_every_shape_is_whole(label: str) -> None:
    shape = of("model", label)
    assert shape["attention_heads"] % shape["kv_heads"] == 0
    assert "head_size" in shape or shape["hidden_size"] % shape["attention_heads"] == 0
    mixture = {"experts", "experts_per_token", "active_parameters", "expert_ffn_hidden_size"}
    assert shape.get("mixture_of_experts", False) == bool(mixture & set(shape))
    if "experts" in shape:
        assert shape["experts_per_token"] < shape["experts"]
