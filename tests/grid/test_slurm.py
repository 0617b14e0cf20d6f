"""Cubes written by jobs of a real batch system: Slurm on one node, for these tests only."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetcube import Settings, Sweep
from fleetcube.grid.progress import watching
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.places.place import Folder

from .common import on_h100
from .kill import contents
from .servers import free_port, program

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "scontrol", "sinfo", "squeue")
PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin"))
MISSING = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
if MISSING:
    pytest.skip(
        f"Slurm is not installed ({', '.join(MISSING)}): apt install slurm-wlm munge",
        allow_module_level=True,
    )
dask_jobqueue = pytest.importorskip("dask_jobqueue", reason="pip install dask-jobqueue")
distributed = pytest.importorskip("distributed")

NODE = socket.gethostname().partition(".")[0]
CONFIGURATION = f"""
ClusterName=one
SlurmctldHost={NODE}(127.0.0.1)
SlurmctldPort={{control}}
SlurmdPort={{node}}
SlurmUser={getpass.getuser()}
SlurmdUser={getpass.getuser()}
AuthType=auth/munge
AuthInfo=socket={{folder}}/socket
StateSaveLocation={{folder}}/state
SlurmdSpoolDir={{folder}}/spool
SlurmctldPidFile={{folder}}/slurmctld.pid
SlurmdPidFile={{folder}}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
KillWait=1
NodeName={NODE} NodeAddr=127.0.0.1 CPUs=2 RealMemory=4000
PartitionName=all Nodes=ALL Default=YES
"""
SECONDS = 120.0  # limit of any wait on a busy machine
CHUNKS = {"n_gpus": 4, "gpu_mttf": 10}  # 120 blocks of job_time


def slurm(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def batch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Slurm's daemons as this user, in a folder with a name short enough for a socket."""
    monkeypatch.setenv("PATH", PATH)
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="slurm")))
        monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        (folder / "state").mkdir()
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        given = dict(folder=folder, control=free_port(), node=free_port())
        (folder / "slurm.conf").write_text(CONFIGURATION.format(**given), encoding="ascii")
        files = {name: f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed")}
        munged = ("munged", "--foreground", "--force", f"--socket={folder / 'socket'}")
        opened.enter_context(program(folder, *munged, *files.values()))
        until((folder / "socket").exists)
        opened.enter_context(program(folder, "slurmctld", "-D", "-c"))
        opened.enter_context(program(folder, "slurmd", "-D"))
        until(lambda: "idle" in subprocess.getoutput("sinfo --noheader"))
        try:
            yield
        finally:
            slurm("scancel", "--user", getpass.getuser())
            until(lambda: not slurm("squeue", "--noheader"))


@contextlib.contextmanager
def workers(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Two workers, each in a job that Slurm restarts if it is lost."""
    with (
        dask_jobqueue.SLURMCluster(
            cores=1,
            processes=1,
            memory="1 GB",
            job_extra_directives=["--requeue", "--open-mode=append"],
            log_directory=str(folder / "logs"),
            local_directory=str(folder),
            scheduler_options={"dashboard_address": ":0"},
        ) as jobs,
        distributed.Client(jobs, set_as_default=False) as client,
    ):
        jobs.scale(jobs=2)
        client.wait_for_workers(2, timeout=SECONDS)
        yield jobs, client


def stopped(sweep: Sweep, path: Path, client: Any, stop: Callable[[], Any], **given: Any) -> None:
    """Store, and call `stop` after blocks were counted nine times."""
    seen: list[None] = []
    done = threading.Event()

    def progress(count: int, *_: Any) -> None:
        seen.append(None)
        if len(seen) == 10:
            stop()
            done.set()

    with watching(progress):
        sweep.to_zarr(path, chunks=CHUNKS, settings=Settings(dask=client), **given)
    assert done.is_set()


def test_lost_jobs_change_no_byte_of_a_cube(batch: None, tmp_path: Path) -> None:
    axes: dict[str, Any] = {"n_gpus": {"arange": [8, 648, 8]}}
    axes |= {"gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 60}}
    sweep = Sweep(on_h100(), axes, ["job_time", "cluster_mtbf"])
    whole = contents(sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS))
    with workers(tmp_path) as (jobs, client):
        lost = next(iter(jobs.workers.values())).job_id

        def requeue() -> None:
            slurm("scontrol", "requeue", lost)  # as after a node failure, or a preemption

        def runs_again() -> bool:
            state = slurm("scontrol", "show", "job", lost)
            if "Reason=BeginTime" in state:  # else Slurm waits for two minutes
                slurm("scontrol", "update", f"jobid={lost}", "StartTime=now")
            return "Restarts=1" in state and "JobState=RUNNING" in state

        stopped(sweep, tmp_path / "a.zarr", client, requeue)
        assert contents(tmp_path / "a.zarr") == whole
        until(runs_again)
        until(lambda: len(client.nthreads()) == 2)  # the same job, with a worker again

        def end() -> None:
            slurm("scancel", "--user", getpass.getuser())
            jobs.close()  # with the scheduler, as at its job's time limit

        with pytest.raises(OSError, match=r"\d+ finished blocks are kept in .*--resume"):
            stopped(sweep, tmp_path / "b.zarr", client, end)
    assert 9 <= len(examine(Folder(tmp_path / "b.zarr.partial")).blocks) < 120
    with workers(tmp_path) as (_, client):
        sweep.to_zarr(
            tmp_path / "b.zarr", chunks=CHUNKS, resume=True, settings=Settings(dask=client)
        )
    assert contents(tmp_path / "b.zarr") == whole
