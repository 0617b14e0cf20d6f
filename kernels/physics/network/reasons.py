"""Why nodes, scale-up domains and pods do not nest."""

import numpy as np

from ... import reasons
from ...alternatives import alternative, row
from ...ops import where
from ...reasons import REASONS as REASONS
from ...reasons import is_whole

row("domain_reason", 0.0, "a node is all there is", scale_up_domain=False)


@alternative("domain_reason", scale_up_domain=True)
def whole_domain_reason(gpus_per_domain, gpus_per_node):
    """Why nodes cannot form scale-up domains; 0 if they can.

    GPUs of a domain over those of a node whole

    Returns: [flag] reason
    Flags: REASONS
    Source: by definition (a domain is a switch behind whole nodes)
    """
    nodes = gpus_per_domain / gpus_per_node
    whole = is_whole(nodes) & is_whole(gpus_per_domain)
    return where(nodes == nodes, where(whole, 0.0, reasons.DOMAIN_NOT_WHOLE_NODES), np.nan)


row("tier_reason", 0.0, "leaf switches are all there is", network_tiers=False)


@alternative("tier_reason", network_tiers=True)
def nested_tier_reason(gpus_per_pod, scale_up_gpus, leaf_gpus):
    """Why tiers of a network do not nest; 0 if they do.

    a pod is at least as large as a node or scale-up domain, and as the GPUs of a leaf switch

    Returns: [flag] reason
    Flags: REASONS
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (a pod is leaf switches and a layer above)
    """
    holds = gpus_per_pod >= np.maximum(scale_up_gpus, leaf_gpus)
    operands = gpus_per_pod + scale_up_gpus + leaf_gpus
    return where(
        operands == operands, where(holds, 0.0, reasons.POD_SMALLER_THAN_WHAT_IT_HOLDS), np.nan
    )
