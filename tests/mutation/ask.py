"""Run one gate of one kernel in a copy of the tree until the first fault.

    python ask.py '{"kernel": ..., "contracts": [...], "budget": ..., "seed": ..., "narrow": [x, scale, granularity],
                    "began": ...}'

The last line of the output is the answer. ``began`` is the value of `time.monotonic` when the caller started the process, so that
the start of the process counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Run the gate. Return the answer as a dictionary.

    outcome: "findings", "nothing" (also if the budget ended first) or "unable". by: verdict and contract of the first finding, or
    the reason for no answer. seconds: time until the first fault, or the whole time.
    """
    from xverify.engine import select
    from xverify.engine.events import FaultSeen
    from xverify.gate import gate
    from xverify.gate.options import GateOptions
    from xverify.workers.process import Limits

    gate.SHRINK_SECONDS = 0.0  # a smaller witness does not change the answer
    fault: list[FaultSeen] = []
    seen: list[float] = []

    def emit(event: object) -> None:
        if isinstance(event, FaultSeen):
            fault.append(event)
            seen.append(time.monotonic() - asked["began"])

    contracts, _ = select.contracts_named(asked["contracts"])
    narrow = [name.split(",") if name else [] for name in asked.get("narrow", ())]
    with tempfile.TemporaryDirectory() as directory:
        report = gate.gate(
            GateOptions(
                kernel=select.kernel_under_test(asked["kernel"]),
                contracts=contracts,
                directory=Path(directory, "run"),
                run_id="mutant",
                command="",
                within={c.id: gate.narrowed(c.domain, *narrow) for c in contracts} if narrow else {},
                today=date.today(),
                seed=asked["seed"],
                budget=asked["budget"],
                fail_fast=True,
                limits=Limits(call=5.0, start=asked["budget"], memory=4096 << 20),
            ),
            emit,
        )
    decided = report["gate"]
    first = next((f for f in report["findings"] if f["id"] in decided["failing"]), None)
    by = decided["reason"].partition("\n")[0]  # later lines name folders of this machine
    if first is not None:
        by = f"{first['verdict']}, {first['contract']}, {fault[0].origin if fault else 'at the end'}"
    found_nothing = decided["outcome"] == "pass" or decided["reason"].startswith("the budget")
    return {
        "outcome": "nothing" if found_nothing else decided["outcome"],
        "seconds": round(seen[0] if seen and first else time.monotonic() - asked["began"], 2),
        "by": by,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))), flush=True)
