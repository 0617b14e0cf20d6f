"""Outages of pods, sites and links between sites."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where


@alternative("outage_rate", outages=True, off=0.0)
def counted_outage_rate(n_gpus, gpus_per_pod, pod_mttf, sites, site_mttf, site_link_mttf):
    """Outages of whole pods, sites and links between sites per unit of time.

    max(S, n / P) / MTTF_pod + S / MTTF_site + S / MTTF_link; one site has no link

    Returns: [1/s] outages per second
    Range: each stops the whole job once, even if sites could continue alone for some steps
    Source: superposition of independent renewals (Barlow & Proschan 1975, ch. 3)
    """
    pods = np.maximum(n_gpus / gpus_per_pod, sites)
    links = where(sites > 1, sites, 0.0)
    return pods / pod_mttf + sites / site_mttf + links / site_link_mttf


def site_uptime(sites, site_mttf, site_link_mttf, site_repair_time):
    """Share of the time in which one site is up and connected to the others.

    1 / ((1 + r / MTTF_site) (1 + r / MTTF_link)), r the repair time

    Returns: [1] share of the wall time
    Source: Barlow & Proschan 1975, ch. 7 (availability of a renewed part)
    """
    link = where(sites > 1, site_repair_time / site_link_mttf, 0.0)
    return 1 / ((1 + site_repair_time / site_mttf) * (1 + link))


@alternative("awaited_sites_uptime", elastic=False)
def rigid_awaited_sites_uptime(sites, site_uptime):
    """Share of the time in which the job does not wait for a site, as all are up.

    u^S

    Returns: [1] share of the wall time
    Source: series system of independent parts (Barlow & Proschan 1975, ch. 2)
    """
    return np.exp(sites * np.log(site_uptime))


row("awaited_sites_uptime", 1.0, elastic="shrink")
