"""`fleetcube record`: what scripts launch, with programs that only write down their arguments."""

import stat
from pathlib import Path

from fleetcube.formats.read import read_job

from .command import fleetcube

MODEL = (
    "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 "
    "--seq-length 8192 --vocab-size 131072 --micro-batch-size 1 --bf16"
)
SCRIPT = f"""#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
export PATH=$PWD/venv:$PATH
TP=$(python -c "print(2 * 2)")
BATCH=$(python3 - <<X
print(96)
X
)
echo words of the script
torchrun --nproc-per-node 8 --nnodes $SLURM_NNODES {MODEL} \\
  --global-batch-size $BATCH --tensor-model-parallel-size $TP "$@"
"""


def test_a_script_is_run_with_stand_ins_and_its_launch_is_read(tmp_path: Path) -> None:
    """Sums by Python, Slurm's variables, and a virtual environment that comes before."""
    (tmp_path / "launch.sh").write_text(SCRIPT)
    own = tmp_path / "venv" / "torchrun"
    own.parent.mkdir()
    own.write_text(f"#!/bin/sh\ntouch {tmp_path}/trained\n")
    own.chmod(own.stat().st_mode | stat.S_IXUSR)
    line = ("record", "-o", "job.sh", "--", "bash", "launch.sh", "--swiglu", "--lr", "a b")
    ended = fleetcube(*line, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "wrote job.sh\n")
    assert "runs bash launch.sh" in ended.stderr
    assert "job.sh: 32 GPUs in 4 nodes of 8; TP4 PP1 DP8; 96 sequences of 8,192" in ended.stderr
    assert not (tmp_path / "trained").exists()
    job = read_job(str(tmp_path / "job.sh"))
    assert (job.scenario["tensor_parallel"], job.fields["lr"]) == (4, "a b")
    assert job.config["gated_ffn"] is True
    assert fleetcube(*line, folder=tmp_path).returncode == 2  # job.sh exists


def test_launches_are_printed_and_a_failed_script_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text("srun -N 2 python train.py 'a b'\ndeepspeed x.py\nexit 3\n")
    ended = fleetcube("record", "--", "bash", "a.sh", folder=tmp_path)
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-2:] == ["srun -N 2 python train.py 'a b'", "deepspeed x.py"]
    assert "note: it ended with status 3" in ended.stderr


def test_what_launches_nothing_is_refused(tmp_path: Path) -> None:
    for seconds, command, why in (
        ("60", ("bash", "-c", "exit 4"), "it ended with status 4"),
        ("0.5", ("bash", "-c", "sleep 600"), "it was stopped after 0.5 s"),
        ("60", ("no-such-program",), "'no-such-program' is no program"),
    ):
        ended = fleetcube("record", "--timeout", seconds, "--", *command, folder=tmp_path)
        assert ended.returncode == 2
        assert why in ended.stderr.splitlines()[-1]
