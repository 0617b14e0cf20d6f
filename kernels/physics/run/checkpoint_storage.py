"""Checkpoints in steps, and what those on storage take of it."""

from ...alternatives import alternative, same_as
from ...ops import where


@alternative("checkpoint_interval", checkpoint_policy="steps")
def stepped_checkpoint_interval(checkpoint_steps, step_time):
    """steps x step time"""
    return checkpoint_steps * step_time


@alternative("timed_drive_interval", drive_steps=True)
@same_as(stepped_checkpoint_interval)
def stepped_drive_interval(drive_tier_steps, step_time):
    """steps x step time"""


@alternative("target_storage_interval", storage_steps=True)
@same_as(stepped_checkpoint_interval)
def stepped_storage_interval(storage_tier_steps, step_time):
    """steps x step time"""


@alternative("storage_duty", checkpoint_mode=("sync", "async", "in_memory"))
def storage_duty(checkpoint_write_time, goodput, storage_write_interval):
    """Share of the wall time in which checkpoints take the storage's bandwidth for writing.

    t goodput / tau: no checkpoint that is safe is written twice

    Returns: [1] share of the wall time
    Range: while the job runs. Restores, and parts of writes that a failure ends, are not counted
    Source: by definition of the segment (Daly 2006, section 2)
    """
    return checkpoint_write_time * goodput / storage_write_interval


@alternative("storage_duty", checkpoint_mode="tiered")
def tiered_storage_duty(checkpoint_write_time, goodput, storage_write_interval, storage_tier_share):
    """t goodput / tau; 0 if the tier serves no failures, and so is not written"""
    duty = checkpoint_write_time * goodput / storage_write_interval
    return where(storage_tier_share > 0, duty, 0.0)


def storage_bytes(kept_checkpoints, checkpoint_size):
    """Space that checkpoints take on storage.

    (kept + 1) x size: those kept, and one being written

    Returns: [B] space
    Source: by definition
    """
    return (kept_checkpoints + 1) * checkpoint_size


def checkpoint_storage_cost(storage_bytes, storage_rent, job_time):
    """Cost of the space of checkpoints on storage for the whole job; not part of job_cost.

    bytes x rent x wall time

    Returns: [USD] cost
    Source: by definition
    """
    return storage_bytes * storage_rent * job_time
