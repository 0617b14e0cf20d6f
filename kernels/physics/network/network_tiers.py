"""Network tiers: node or scale-up domain, leaf switch, pod, and above."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where
from .inputs import SWITCHED


def rail_bandwidth(inter_node_bandwidth, oversubscription, network_efficiency):
    """Bandwidth per direction and GPU for traffic that leaves its leaf switch.

    efficiency x B / oversubscription

    Returns: [B/s] bandwidth of one rail under load
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    """
    return network_efficiency * inter_node_bandwidth / oversubscription


# meaning of tier numbers, for Flags sections
TIERS = "0 none, 1 node, 2 leaf_switch, 3 pod, 4 between_pods"


@alternative("leaf_gpus", rail_optimized=True, off="gpus_per_switch")
def rail_leaf_gpus(gpus_per_switch, gpus_per_node):
    """GPUs that reach each other through one leaf switch per rail.

    GPUs behind one switch x GPUs per node: a switch serves one GPU of each of its nodes, and
    traffic to another rail changes rails inside the node

    Returns: [1] GPUs
    Range: libraries that change rails inside the node (NCCL's PXN); else all-to-alls leave the leaf
    Source: Wang et al. 2024 (rail-only), arXiv:2307.12169, section 2; Qian et al. 2024 (Alibaba
        HPN), SIGCOMM, section 4
    """
    return gpus_per_switch * gpus_per_node


def leaf_bandwidth(rail_bandwidth, oversubscription):
    """Bandwidth per direction of one GPU's rail below its leaf switch.

    bandwidth out of the leaf x oversubscription

    Returns: [B/s] bandwidth of one rail
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    """
    return rail_bandwidth * oversubscription


def pod_bandwidth(rail_bandwidth, pod_oversubscription):
    """Bandwidth per direction and GPU out of its pod when all GPUs send.

    bandwidth out of the leaf / oversubscription of pods

    Returns: [B/s] bandwidth of one rail
    Source: Grattafiori et al. 2024 (Llama 3), arXiv:2407.21783, section 3.3.1 (1:7 between pods)
    """
    return rail_bandwidth / pod_oversubscription


IN_DOMAINS = {  # words of formulas of ranks on a node, where domains of several nodes are meant
    "gpus_per_node": "scale_up_gpus",
    "gpus per node": "gpus in use per domain",
    "on each node": "in each scale-up domain",
    "on one node": "in one domain",
}


row(
    "scale_up_gpus",
    "gpus_per_node",
    summary="GPUs that reach each other without the network between nodes.",
    returns="[1] GPUs",
    scale_up_domain=False,
)
row("scale_up_gpus", "seated_domain_gpus", scale_up_domain=True)


@alternative("seated_domain_gpus", all_reduce=SWITCHED)
def switched_seated_domain_gpus(
    gpus_per_domain, tensor_parallel, context_parallel, expert_parallel, expert_tensor_parallel
):
    """GPUs per scale-up domain that a job uses: whole groups, or equal parts of a group.

    floor(D / g) g for groups of g = max(t c, t_e e) GPUs up to D; g / ceil(g / D) of larger ones

    Returns: [1] GPUs
    Range: a scheduler that places tensor, context and expert groups so and leaves the rest of a
        domain to others (`idle_domain_gpus`); if it fills domains, some groups straddle two of them
    Source: by definition; as Slurm's topology/block seats segments, and Megatron-Bridge's recipes
        use 64 of a rack's 72 GPUs for 64 expert ranks
    """
    group = np.maximum(tensor_parallel * context_parallel, expert_parallel * expert_tensor_parallel)
    whole = np.floor(gpus_per_domain / group) * group
    return where(group > gpus_per_domain, group / np.ceil(group / gpus_per_domain), whole)


row(
    "seated_domain_gpus",
    "gpus_per_domain",
    source=("Jouppi et al. 2023 (TPU v4), arXiv:2304.01433, section 2 (slices of a pod)"),
    all_reduce="torus",
)


@alternative("idle_domain_gpus", scale_up_domain=True, off=0.0)
def idle_domain_gpus(n_gpus, gpus_per_domain, scale_up_gpus):
    """Idle GPUs in the scale-up domains of a job whose groups do not divide a domain.

    ceil(n / used) (D - used): domains in use x GPUs left in each

    Returns: [1] GPUs
    Range: not counted in power or cost
    Source: by definition
    """
    return np.ceil(n_gpus / scale_up_gpus) * (gpus_per_domain - scale_up_gpus)


row(
    "scale_up_bandwidth",
    "intra_node_bandwidth",
    summary=("Bandwidth per direction of one GPU inside its node, or scale-up domain."),
    returns="[B/s] bandwidth of one GPU",
)
row("job_gpus", "n_gpus", summary="GPUs of the job on all sites.", returns="[1] GPUs")


def site_gpus(n_gpus, sites):
    """GPUs of the job on one site.

    n / S

    Returns: [1] GPUs
    Source: by definition
    """
    return n_gpus / sites


def pod_gpus(gpus_per_pod, site_gpus):
    """GPUs of the job in one pod.

    min(P, n / S)

    Returns: [1] GPUs
    Source: by definition
    """
    return np.minimum(gpus_per_pod, site_gpus)
