"""The cells that an implementation supports, found by calls to the installed version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xverify.contracts.model import Cell, Contract
from xverify.core.call import encode_call
from xverify.strategies import simplest
from xverify.strategies.structures import build
from xverify.strategies.walk import cell_structures
from xverify.workers.worker import Worker


@dataclass(frozen=True)
class Support:
    """The cells of one edition that an implementation supports."""

    contract: str

    answered: tuple[Cell, ...]
    """Cells whose simplest call was answered."""

    refused: tuple[Cell, ...]
    """The other cells."""

    refusal: str = ""
    """The most frequent error of the other cells."""

    def in_words(self) -> str:
        """The number of supported cells, and the types and granularities that no supported cell has."""
        total = len(self.answered) + len(self.refused)
        words = [f"{len(self.answered)} of {total} cells"]
        for name in ("x_dtype", "scale_dtype", "out_dtype", "granularity", "variant"):
            supported = {getattr(cell, name) for cell in self.answered}
            missing = sorted({getattr(cell, name) for cell in self.refused} - supported)
            if missing and supported:
                words.append(f"no {name.replace('_dtype', '')} {', '.join(missing)}")
        if not self.answered and self.refusal:
            words.append(f"most frequent error: {self.refusal}")
        return "; ".join(words)


def probe(worker: Worker, contract: Contract) -> Support:
    """Send the simplest call of every cell of an edition.

    Raises:
        WorkerFailedError: The worker is lost.
    """
    cells: Sequence[Cell] = list(
        dict.fromkeys(contract.cell(build(contract, structure)) for structure in cell_structures(contract))
    )
    worker.submit([(encode_call(simplest(contract, cell)), "") for cell in cells])
    outcomes = worker.collect()
    answered = tuple(c for c, o in zip(cells, outcomes, strict=True) if o.kind == "tensor")
    errors = Counter(f"{o.error or o.kind}: {o.message}".strip(": ") for o in outcomes if o.kind != "tensor")
    refusal = next((error for error, _ in errors.most_common(1)), "")
    return Support(contract.id, answered, tuple(c for c in cells if c not in set(answered)), refusal)
