"""Inputs of the network."""

import math

from ...declare import count, declared, option, real, switch

SWITCHED = (
    *("auto", "ring", "tree", "double_binary_tree", "recursive_halving_doubling"),
    *("hierarchical", "in_network", "fitted"),
)  # all-reduce algorithms for nodes whose GPUs are connected by a switch

INPUTS = declared(
    "hardware",
    count("gpus_per_domain", 72, "accelerators of one scale-up domain (NVL72), whole nodes of it"),
    switch(
        "scale_up_domain",
        "what joins GPUs inside a node joins those of several nodes, too, which fail one by one",
        "gpus_per_domain",
    ),
    real(
        "intra_node_bandwidth",
        "B/s",
        None,
        "per GPU and direction, inside a node",
        labels="gpu or node",
    ),
    real(
        "intra_node_latency",
        "s",
        3.4e-6,
        "start-up of one hop inside a node (NCCL: 3.4 us over NVLink, 5.7 over PCIe)",
        positive=False,
    ),
    switch("node_reduction", "switches inside a node add up (NVLink SHARP)"),
    "fabric",
    count("gpus_per_switch", 32, "accelerators behind one leaf switch"),
    real(
        "inter_node_bandwidth",
        "B/s",
        None,
        "per GPU and direction, between nodes",
        labels="fabric: infiniband-ndr, roce-400g, ...",
    ),
    real("inter_node_latency", "s", 5e-6, "one hop between nodes", positive=False),
    real("oversubscription", "1", 1.0, "downlink over uplink bandwidth of leaf switches", low=1.0),
    switch(
        "rail_optimized",
        "a leaf switch serves GPUs of one place in their nodes, not all GPUs of a few nodes",
    ),
    real(
        "gpus_per_pod",
        "1",
        math.inf,
        "accelerators whose leaf switches one layer joins; between pods is another (infinite: all)",
        low=1.0,
        may_be_infinite=True,
    ),
    real("pod_oversubscription", "1", 1.0, "bandwidth between leaves over that of pods", low=1.0),
    switch(
        "network_tiers",
        "traffic is followed tier by tier: leaf switches, pods and between them",
        "gpus_per_pod",
        "rail_optimized",
    ),
    switch("fabric_reduction", "switches of the fabric add up (SHARP)"),
    real("network_efficiency", "1", 1.0, "share of the bandwidth between nodes reached", high=1.0),
    "software",
    option(
        "all_reduce",
        "auto",
        (*SWITCHED, "torus"),
        "algorithm of every all-reduce, and of its halves (torus: rings along all dimensions of a "
        "torus, whose links carry all that stays in a node)",
        implied="torus",
        implied_by=("torus_x",),
    ),
    switch(
        "link_sharing",
        (
            "kinds of traffic hidden behind compute share a link's bandwidth (else each has "
            "all of it)"
        ),
        "data_parallel_overlap",
        "tensor_parallel_overlap",
        "expert_parallel_overlap",
        "weight_gather_overlap",
    ),
    "model",
    real(
        "sqrt_coefficient",
        "s/B^0.5",
        0.0,
        "square-root term of a fitted all-reduce",
        positive=False,
    ),
)
