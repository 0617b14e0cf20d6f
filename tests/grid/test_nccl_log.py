"""The output of nccl-tests in its versions and launchers, and malformed input."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetcube import InputError
from fleetcube.calibration.fit import fit_collective
from fleetcube.calibration.nccl import Log, Measured, factor, measured, parse_log
from fleetcube.formats.training_log import LARGEST
from fleetcube.scenario.bounded import read_text

from ..draws import scaled
from .common import cases, refused

# src/util.cu of 2.19: version, test, parameters, devices, three lines of headings, rows, summary.
HEAD = """\
# nccl-tests version 2.19.6 nccl-headers=22907 nccl-library=22907
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 20 \
agg iters: 1 validation: 1 graph: 0 unalign: 0
#
# Using devices
"""
DEVICES = "".join(
    f"#  Rank {k:2d} Group  0 Pid   4{k:02d} on      node{k // 4} device {k % 4:2d} "
    "[0000:19:00] NVIDIA H100 80GB HBM3\n"
    for k in range(8)
)
COLUMNS = """\
#
#                                                              out-of-place                       \
in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   \
algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  \
(GB/s)  (GB/s)
"""
ROWS = """\
     1048576        262144     float     sum      -1    45.12   23.24   40.67       0    44.80   \
23.41   40.96       0
     4194304       1048576     float     sum      -1    85.00   49.34   86.35       0    84.00   \
49.93   87.38       0
     2097152        524288     float     sum      -1    60.50   34.66   60.66       0    60.00   \
34.95   61.17       0
"""
FOOT = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 62.0333
#
# Collective test concluded: all_reduce_perf
"""
LOG = HEAD + DEVICES + COLUMNS + ROWS + FOOT
TIMES = [45.12e-6, 44.8e-6, 85e-6, 84e-6, 60.5e-6, 60e-6]
SIZES = [1 << 20, 1 << 20, 1 << 22, 1 << 22, 1 << 21, 1 << 21]


def found(text: str, **wanted: int | str | bool) -> Measured:
    return measured(parse_log(text), **wanted)  # type: ignore[arg-type]


def times(text: str, **wanted: int | str | bool) -> list[float]:
    return [row.seconds for row in found(text, **wanted).rows]


def test_a_log_and_a_report_give_rows_in_order_with_ranks_and_nodes() -> None:
    for text in (LOG, json.dumps(report())):
        read = found(text)
        assert [row.size for row in read.rows] == SIZES
        assert [row.seconds for row in read.rows] == pytest.approx(TIMES)
        assert [row.in_place for row in read.rows] == [False, True] * 3
        assert (read.collective, read.ranks, read.gpus_per_node) == ("all_reduce", 8, 4)
        assert read.dropped == {}


# Changes to a log by launchers, shells and NCCL.
DISGUISES: dict[str, Callable[[str], str]] = {
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "mpirun": lambda text: "".join(f"[1,0]<stdout>:{line}\n" for line in text.splitlines()),
    "mpirun 5": lambda text: "".join(f"[prterun-1,0]<stdout>: {s}\n" for s in text.splitlines()),
    "slurm": lambda text: "".join(f" 0: {line}\n" for line in text.splitlines()),
    "kubernetes": lambda text: "".join(
        f"2026-03-06T10:11:12.123456789Z {line}\n" for line in text.splitlines()
    ),
    "pod": lambda text: "".join(f"launcher-x7k2p: {line}\n" for line in text.splitlines()),
    "colours": lambda text: "".join(f"\x1b[32m{line}\x1b[0m\n" for line in text.splitlines()),
    "nccl": lambda text: "".join(
        f"{line}\nnode0:401:417 [0] NCCL INFO Channel 00/24 : 0 1 2 3 8 16 half\n"
        for line in text.splitlines()
    ),
    "tabs": lambda text: text.replace("  ", "\t"),
    "bom": lambda text: "\ufeff" + text,
    "noise": lambda text: f"+ mpirun ./build/all_reduce_perf -b 1M\n\0\n{'9 ' * 5000}\n{text}",
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_prefixes_and_noise_change_nothing(disguise: str) -> None:
    read = found(DISGUISES[disguise](LOG))
    assert [row.seconds for row in read.rows] == pytest.approx(TIMES)
    assert (read.ranks, read.gpus_per_node, read.dropped) == (8, 4, {})


def test_columns_of_other_versions() -> None:
    # 2.4 to 2.12: no root for an all-reduce, errors as numbers; without -c they are N/A
    old = "     1048576        262144   float     sum    45.12   23.24   40.67  4e-07    44.80   "
    old += "23.41   40.96    N/A\n"
    assert times(old, ranks=8) == pytest.approx(TIMES[:2])
    # before 2.4: bytes, N and milliseconds
    older = "#      bytes             N    type      op     time  algbw  busbw      res     time\n"
    older += "     1048576        262144   float     sum    0.045  23.30  40.78    4e-07    0.045  "
    older += "23.30  40.78    4e-07\n"
    assert times(older, ranks=8) == pytest.approx([45e-6, 45e-6])
    # broadcast: a root and no operation; an old one ran out of place only
    root = "     1048576        262144   float       0    45.12   23.24   23.24  0e+00\n"
    assert times(root, ranks=8, collective="broadcast") == pytest.approx(TIMES[:1])
    # -T: the time of day at the end of a row
    stamped = ROWS.replace("       0\n", "       0  2026-03-06 10:11:12\n")
    assert times(stamped, ranks=8) == pytest.approx(TIMES)
    # out of place left blank
    blank = f"     1048576        262144     float     sum      -1{'':32}    44.80   23.41   40.96"
    (row,) = found(f"{blank}       0\n", ranks=8).rows
    assert row.in_place
    assert row.seconds == pytest.approx(44.8e-6)


def test_statistics_of_iterations_are_not_times() -> None:
    # -I: i_min, i_max, i_p99 and i_cv% behind each group of four
    row = "     1048576        262144     float     sum      -1    45.12   23.24   40.67       0"
    row += "    40.00    50.00    49.00     2.10    44.80   23.41   40.96       0    40.00    50.00"
    row += "    49.00     2.10\n"
    assert times(row, ranks=8) == pytest.approx(TIMES[:2])
    # large times lose their decimals
    row = "  8589934592    2147483648     float     sum      -1  1234567    6.96   12.18       0"
    row += "  1.2e+06    7.16   12.53       0\n"
    assert times(row, ranks=8) == pytest.approx([1.234567, 1.2])


def test_cpu_times_are_no_times_of_the_collective() -> None:
    refused("6 CPU times", lambda: found(HEAD + COLUMNS.replace("    time", " cputime") + ROWS))


def test_one_kind_of_rows() -> None:
    assert times(LOG, in_place=True) == pytest.approx(TIMES[1::2])
    assert times(LOG, in_place=False) == pytest.approx(TIMES[::2])


def test_rows_that_contradict_themselves_are_counted() -> None:
    damaged = LOG.replace("    45.12 ", "    54.12 ").replace("    84.00 ", "    0.00 ")
    damaged = damaged.replace("  60.66       0", "  60.66       7").replace("61.17", "99.99")
    damaged += f"{0:12} {0:13}     float     sum      -1     5.00    0.00    0.00     0\n"
    damaged += "           8             2     float     sum      -1     half a row\n"
    read = found(damaged)
    assert [row.seconds for row in read.rows] == pytest.approx([44.8e-6, 85e-6])
    assert read.dropped == {
        **{"algbw is not size over time": 1, "time 0": 1, "wrong results": 1},
        **{"busbw is not that of the ranks": 1, "no bytes": 1, "unreadable": 1},
    }


def test_ranks_follow_from_bus_bandwidths() -> None:
    assert found(COLUMNS + ROWS).ranks == 8
    assert found(COLUMNS + ROWS).gpus_per_node is None
    with pytest.raises(InputError, match="give --ranks N"):
        found("     1024        256     float     sum      -1    45.12    0.02    0.04       0\n")
    with pytest.raises(InputError, match="bus bandwidths are not those of all_reduce on 16 ranks"):
        found(COLUMNS + ROWS, ranks=16)
    refused("the log is of 8 ranks, not 16", found, LOG, ranks=16)


def test_tests_of_one_file_are_told_apart() -> None:
    gather = LOG.replace("all_reduce", "all_gather")
    pairs = (
        *("23.24 40.67", "23.41 40.96", "49.34 86.35", "49.93 87.38", "34.66 60.66"),
        "34.95 61.17",
    )
    for time, bus in map(str.split, pairs):
        gather = gather.replace(bus, f"{float(time) * 7 / 8:.2f}")
    refused("all_gather, all_reduce; choose with --collective", found, LOG + gather)
    assert len(found(LOG + gather, collective="all_gather").rows) == 6
    assert found(gather).collective == "all_gather"
    refused("holds all_gather, not all_reduce", found, gather, collective="all_reduce")
    four = LOG.replace(DEVICES, "".join(DEVICES.splitlines(keepends=True)[:4]))
    refused("tests of 4 and 8 ranks; choose with --ranks", found, LOG + four)
    assert (len(found(LOG + four, ranks=8).rows), len(found(LOG + LOG).rows)) == (6, 12)


def test_groups_of_ranks_are_communicators() -> None:
    # NCCL_TESTS_SPLIT: every group runs the test separately
    split = DEVICES
    for k in range(4, 8):
        split = split.replace(f"Rank  {k} Group  0", f"Rank  {k} Group  1")
    rows = "     1048576        262144     float     sum      -1    45.12   23.24   34.86       0\n"
    assert found(HEAD + split + COLUMNS + rows).ranks == 4


def test_mixed_types_are_said_and_a_collective_without_a_law_is_refused() -> None:
    both = LOG.replace("262144     float", "524288      half")
    assert found(both).notes == ("rows of types float, half are fitted together",)
    with pytest.raises(InputError, match="'hypercube' has no law; choose one of all_reduce"):
        found(LOG.replace("all_reduce", "hypercube"))


# doc/PERFORMANCE.md, summary
@cases(
    "collective, share",
    ("all_reduce", 1.75),
    ("all_gather", 0.875),
    ("reduce_scatter", 0.875),
    ("alltoall", 0.875),
    ("broadcast", 1.0),
    ("reduce", 1.0),
)
def test_bytes_on_the_bus(collective: str, share: float) -> None:
    assert factor(collective, 8) == share


def report() -> dict[str, object]:
    results = []
    for size, out, inside in zip(SIZES[::2], TIMES[::2], TIMES[1::2], strict=True):
        row: dict[str, object] = {"size": size, "count": size // 4, "type": "float", "redop": "sum"}
        for place, time in (("out_of_place", out), ("in_place", inside)):
            speeds = {"alg_bw": size / time / 1e9, "bus_bw": size / time / 1e9 * 1.75}
            numbers = {"time": time * 1e6, **speeds, "nwrong": 0.0}
            row[place] = {name: round(value, 6) for name, value in numbers.items()}
        results.append(row)
    devices = [{"rank": k, "group": 0, "hostname": f"node{k // 4}"} for k in range(8)]
    told = {"version": 3, "args": ["./build/all_reduce_perf", "-b", "1M"]}
    return {**told, "config": {"devices": devices}, "results": results}


NOT_LOGS = ["", "{", "[]", "{}", "[" * 100_000, "{" * 100_000, "\0" * 1000, "time 1 2 3", HEAD]


@pytest.mark.parametrize("text", NOT_LOGS, ids=range(len(NOT_LOGS)))
def test_what_is_not_a_log_is_one_line(text: str) -> None:
    refused("holds no usable row of nccl-tests", found, text)


def read_log(path: str | Path) -> Log:
    return parse_log(read_text(path, LARGEST, "a log", "give a part of it"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name in ("missing.log", ".", "a\0b"):
        with pytest.raises(InputError, match="give a log"):
            read_log(tmp_path / name if "\0" not in name else name)
    large = tmp_path / "large.log"
    with large.open("wb") as file:
        file.truncate(LARGEST + 1)
    refused("more than 67,108,864 bytes", read_log, large)
    wide = tmp_path / "wide.log"
    wide.write_bytes(LOG.encode("utf-16"))
    assert len(read_log(wide).rows) == 6


# Fuzzing: a parser of untrusted text raises InputError, or returns consistent rows.

PIECES = st.one_of(
    st.sampled_from([*LOG.splitlines(), "nan", "1e308", "-1", "N/A", "float", "[1,0]<stdout>:"]),
    st.integers(-5, 10**20).map(str),
    st.floats().map(str),
    st.text(max_size=20),
)
TEXTS = st.lists(
    st.tuples(PIECES, st.sampled_from([" ", "\n", "\t", "\r", "", "#"])), max_size=60
).map(lambda parts: "".join(map("".join, parts)))


def sane(text: str) -> None:
    try:
        read = measured(parse_log(text))
        fit_collective(read)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    for row in read.rows:
        assert row.size > 0
        assert row.seconds > 0
        assert row.algbw[0] * 0.98e9 <= row.size / row.seconds * (1 + 1e-9) or row.seconds < 1e-8


@given(TEXTS)
@settings(max_examples=scaled(30, 100))
def test_any_text_is_read_or_refused(text: str) -> None:
    sane(text)


@given(st.data())
@settings(max_examples=scaled(30, 100))
def test_damaged_logs_are_read_or_refused(data: st.DataObject) -> None:
    text = list(LOG)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at] = data.draw(st.sampled_from(list("0123456789.e-# \n\tx")) | st.just(""))
    sane("".join(text))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.data())
@settings(max_examples=scaled(30, 70))
def test_damaged_reports_are_read_or_refused(data: st.DataObject) -> None:
    whole = report()
    results = whole["results"]
    assert isinstance(results, list)
    target = data.draw(st.sampled_from([whole, results[0], results[0]["in_place"]]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(VALUES)
    sane(json.dumps(whole))


def test_a_row_stands_after_few_words() -> None:
    begins = HEAD + DEVICES + COLUMNS
    row = ROWS.splitlines()[0]
    for words, rows in ((10, 2), (60, 0)):
        assert len(parse_log(begins + "x " * words + row).rows) == rows


# src/common.cu of ROCm/rccl-tests: Reporter::writeFile, and the lines of a table
RCCL = (
    "# Collective test starting: all_reduce_perf\n#\nrccl-tests: Version HEAD:e1b8a3a\n"
    "# Using devices\n"
    + "".join(
        f"#  Rank {k:2d} Group  0 Pid   9632 on   GPU-{k // 8} device {k % 8:2d} [0000:72:00] AMD "
        "Instinct MI355X\n"
        for k in range(16)
    )
    + "RCCL version : 2.27.7-develop:29e1567\nHIP version  : 7.0.51831-a3e329ad8\n"
    + COLUMNS
    + "  8589934592    2147483648     float     sum      -1    36956  232.44  435.82      0 "
    "   36911  232.72  436.36    N/A\n"
)
ENTRY = (
    '{{"numCycle":0, "name":"AllReduce", "nodes":2, "ranks":16, "ranksPerNode":8, "gpusPerRank":1, '
    '"size":8589934592, "type":"float", "redop":"sum", "inPlace":{}, "time":{:f}, "algBw":{:f}, '
    '"busBw":{:f}, "wrong":"{}"}}'
)


def test_rccl_tests_print_the_same_table_and_a_report_of_their_own() -> None:
    size, times = 8589934592, (36956e-6, 36911e-6)
    speeds = [size / time / 1e9 for time in times]
    entries = [
        ENTRY.format(k, time * 1e6, speed, speed * 1.875, wrong)
        for k, time, speed, wrong in zip((0, 1), times, speeds, ("0", "N/A"), strict=True)
    ]
    for text in (RCCL, "[\n" + ",\n".join(entries) + "\n]\n"):
        log = found(text)
        assert (log.collective, log.ranks, log.gpus_per_node) == ("all_reduce", 16, 8)
        assert [row.in_place for row in log.rows] == [False, True]
        assert [row.seconds for row in log.rows] == pytest.approx(times)
        assert not log.dropped
