"""A stand-in for the command of a shard: it behaves as its mode says, and writes a result.

Arguments: the folder of the attempt, a folder for notes, the shard's name, and the mode.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def main() -> int:
    attempt, notes, name, mode = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    begun = notes / f"{name}.{os.getpid()}"
    first = not list(notes.glob(f"{name}.*"))
    begun.touch()
    if mode == "dies" or (mode == "dies-once" and first):
        os.kill(os.getpid(), signal.SIGSEGV)
    if mode == "hangs" or (mode == "hangs-once" and first):
        time.sleep(600)
    if mode == "refuses":
        print("a wrong option")
        return 2
    if mode == "floods":
        for _ in range(200):
            sys.stdout.write("x" * 65536)
        print("\nthe last line")
    if mode == "waits":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background ignores
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            name += " interrupted"
    if mode.startswith("sleeps"):
        time.sleep(float(mode.removeprefix("sleeps")))
    line = {"event": "Progressed", "phase": "walk", "cases": 5, "values": 50, "findings": 1, "elapsed": 0.1}
    (attempt / "events.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    (attempt / "run").mkdir()
    (attempt / "run" / "report.json").write_text(json.dumps({"name": name, "pid": os.getpid()}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
