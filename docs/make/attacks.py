"""The table of docs/security.md: the results of `make attack` so far."""

import json

from tests.attack import ATTACKS, RESULTS

from .text import DOCS, between, table

PAGE = DOCS / "security.md"


def page() -> str:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    rows = []
    for name, attack in ATTACKS.items():
        if name in results:
            tries, wrong, remark, day = results[name]
            failures = f"{wrong} ({remark})" if remark else str(wrong)
            rows.append([attack.what, f"{tries:,}", failures, attack.shown, day])
    return between(PAGE, "attacks", table(["attack", "tries", "wrong", "by", "on"], rows))
