"""The claims as a page of Markdown: docs/claims.md."""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ..text import DOCS, filled, table
from . import question
from .claim import MARGIN, Claim, Document, Figure, Reading, Verdict
from .conflicts import CONFLICTS, DOCUMENTS
from .numbers import NUMBERS, computed

PAGE = DOCS / "claims.md"
INTRODUCTION = f"""# Every claim recomputed

Five documents on large-scale training make 95 claims that can be checked. Here is each of them with
what fleetcube computes for it, through its public names. The page is written by
`python -m docs.make`, and a test fails if a number, a verdict or this page is out of date.

- **reproduces**: our value, rounded as the document rounds it, is the printed one ("~" allows
  {MARGIN:.0%}).
- **reproduces under a stated convention**: it does so only with the option or reading named.
- **wrong**: it does not, by more than {MARGIN:.0%}; the right value is given.
- **contradicts another**, **contradicts itself**: another document, a data sheet or the document's
  own numbers say otherwise.
- **unsupported**: measurements or a model of the whole say otherwise, and the document gives none.

"As printed with" explains a wrong number. Right values are checked against derivations by
hand, not against this program's output; a figure that nothing here can compute (a version, a
measurement) names its source."""


def page() -> str:
    parts = [INTRODUCTION, _summary(), _question(), _conflicts()]
    parts += [_document(k, document) for k, document in enumerate(DOCUMENTS)]
    return "\n\n".join([*parts, _numbers()]) + "\n"


def _summary() -> str:
    rows = []
    for document in DOCUMENTS:
        verdicts = Counter(claim.verdict for claim in document.claims)
        counts = [str(verdicts[verdict]) for verdict in Verdict]
        rows.append([f'"{document.name}"', *counts, str(len(document.claims))])
    everything = Counter(claim.verdict for document in DOCUMENTS for claim in document.claims)
    totals = [str(everything[verdict]) for verdict in Verdict]
    rows.append(["all", *totals, str(everything.total())])
    head = ["document", *Verdict, "claims"]
    head[2] = "under a convention"
    agree = sum(number.agrees for number in NUMBERS)
    below = (
        f"Of the {len(NUMBERS)} numbers printed in tables, {agree} reproduce to the printed digit "
        "([list](#the-numbers-printed-in-tables))."
    )
    return f"## Summary\n\n{table(head, rows, ' rrrrrrr')}\n\n{filled(below)}"


def _about(value: float) -> str:
    return "-" if np.isinf(value) else f"{float(f'{value:.2g}'):,.0f}"


def _question() -> str:
    cube, beyond = question.swept(), question.crossovers()
    usual = {"gpu_mttf": 1, "checkpoint_write_bandwidth": 1, "layout": 0}
    point = cube.isel(usual).sel(n_gpus=1024)
    shares = [100 * float(point[name]) for name in question.SHARES[:2]]
    frail = _about(beyond.isel({**usual, "gpu_mttf": 0}))
    slow = _about(beyond.isel({**usual, "checkpoint_write_bandwidth": 0}))
    deep = _about(beyond.isel({**usual, "layout": 1}))
    rows = []
    for layout in range(len(question.LAYOUTS["labels"])):
        for k, mttf in enumerate(question.FAILING):
            for j, stored in enumerate(question.STORED):
                cut = {"gpu_mttf": k, "checkpoint_write_bandwidth": j, "layout": layout}
                ratios = cube[question.SHARES[-1]].isel(cut).values
                shown = [f"**{r:.2f}**" if r > 1 else f"{r:.2f}" for r in ratios]
                name = question.LAYOUTS["labels"][layout]
                row = [name, mttf.replace("_", ","), stored, *shown]
                rows.append([*row, _about(float(beyond.isel(cut)))])
    sizes = [f"{n:,}" for n in question.SIZES]
    head = ["pipeline", "GPU MTTF", "storage", *sizes, "above 1 from"]
    answer = (
        f"**No: on 1,024 GPUs of 50,000 hours with 100 GB/s of storage, communication takes "
        f"{shares[0]:.1f} % of the time and reliability {shares[1]:.1f} %, and in one stage that "
        f"order holds up to 16,384 GPUs. It turns where a large cluster is frail (from about "
        f"{frail} GPUs of 10,000 hours), its storage slow (from about {slow} GPUs at 10 GB/s), or "
        f"its pipeline deep (from about {deep} GPUs with 8 stages, whose bubbles replace "
        f"communication).**"
    )
    return f"""## Does reliability cost more than communication?

"Reliability at scale" says that it does, from 512 GPUs on. Here is its model, Llama 3 70B, on DGX
H100 nodes with InfiniBand NDR: tensor parallelism inside the node, replicas over the nodes on one
rail for each GPU, checkpoints written at the rate that their interval is chosen for, restarts
counted (the scenario of `examples/scaling-and-reliability.toml`). The table has the share of the
time lost to reliability over that lost to communication, by number of GPUs.

{table(head, rows, "  rrrrrrr")}

{filled(answer)}

{_own_numbers()}"""


def _own_numbers() -> str:
    claims = {claim.number: claim for claim in DOCUMENTS[0].claims}
    printed = [claims["0.7"].figures[0], claims["0.8"].figures[0], claims["0.8"].figures[1]]
    columns = [figure.printed.split() for figure in printed]
    rows = []
    for k, row in enumerate(question.tutorial_rows()):
        ours = [row["placed"], row["consistent"], row["with restarts"]]
        ratio = f"{row['with restarts'] / row['placed']:.2f}"
        as_printed = [column[k] for column in columns]
        rows.append([f"{row['n_gpus']:,.0f}", *as_printed, *(f"{x:.1f}" for x in ours), ratio])
    head = ["GPUs", "communication", "checkpoints", "ratio"]
    head += ["communication, placed", "checkpoints, consistent", "with restarts", "ratio"]
    drive, storage = (_about(question.tutorial_crossover(rate)) for rate in ("7 GB/s", "100 GB/s"))
    before = (
        "With the tutorial's own numbers (a step of 6642.8 ms, a write of 141.2 s), hours of 30 "
        "days, as printed on the left and placed and charged consistently on the right:"
    )
    after = (
        "Its table contradicts its headline from 256 GPUs on; the 64-GPU row, which alone supports "
        "it, comes from eight replicas packed into one node. Its job would cross at about "
        f"{drive} GPUs, since it writes whole checkpoints through one drive of 7 GB/s; with 100 "
        f"GB/s, at about {storage}."
    )
    return f"{filled(before)}\n\n{table(head, rows, 'rrrrrrrr')}\n\n{filled(after)}"


def _conflicts() -> str:
    parts = ["## Where the documents disagree\n\nEvery reading is a name or an option here."]
    for k, conflict in enumerate(CONFLICTS, 1):
        rows = [[stand.who, _names(stand.names), _line(stand.figure)] for stand in conflict.stands]
        readings = table(["reading of", "expressed here by", "gives"], rows)
        parts.append(f"### {k}. {conflict.title}\n\n{readings}\n\n{filled(conflict.settled)}")
    return "\n\n".join(parts)


def _names(names: str) -> str:
    return ", ".join(f"`{name.replace('=', ' = ')}`" for name in names.split())


def _line(figure: Figure) -> str:
    """One figure as computed, with its label."""
    label = figure.label
    if re.fullmatch(r"[a-z]+(_[a-z]+)+( = \w+)?|[a-z]+ = [\w-]+", label):
        label = f"`{label}`"
    if figure.reading is Reading.ORIGIN:
        label = f"as printed with {label}"
    value = f"{figure.shown} {figure.unit}".rstrip()
    return f"{label}: {value}" if label else value


def _printed(claim: Claim) -> Iterator[str]:
    for figure in claim.figures:
        if figure.printed:
            yield f"{figure.quoted} {figure.unit}".rstrip()


def _document(k: int, document: Document) -> str:
    rows = []
    for claim in document.claims:
        printed = "<br>".join(dict.fromkeys(_printed(claim)))
        ours = "<br>".join(_line(figure) for figure in claim.figures)
        bold = claim.verdict if claim.verdict is Verdict.REPRODUCES else f"**{claim.verdict}**"
        verdict = f"{bold}. {claim.why}" if claim.why else bold
        rows.append([claim.number, claim.says, printed, ours, verdict])
    claims = table(["", "claim", "printed", "computed", "verdict"], rows)
    about = document.about[0].upper() + document.about[1:]
    return f'## {k}. "{document.name}"\n\n{filled(about)}.\n\n{claims}'


def _numbers() -> str:
    rows = [
        [
            number.document,
            number.what,
            number.printed,
            f"{computed(number):,.7g}",
            "yes" if number.agrees else "**no**",
        ]
        for number in NUMBERS
    ]
    head = ["document", "number", "printed", "computed", "agrees"]
    intro = "The row of 350 million parameters was computed for 340 million (3.12)."
    return f"## The numbers printed in tables\n\n{intro}\n\n{table(head, rows, '  rr')}"
