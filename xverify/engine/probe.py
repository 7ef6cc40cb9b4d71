"""What an implementation supports: asked of the installed version, cell by cell, and not kept in any list."""

from __future__ import annotations

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
    """Of the cells of one edition, those whose simplest call was answered, and those where it was not."""

    contract: str
    answered: tuple[Cell, ...]
    refused: tuple[Cell, ...]

    def in_words(self) -> str:
        """How many cells, and what the refused ones have in common: the types of which no cell is answered."""
        total = len(self.answered) + len(self.refused)
        words = [f"{len(self.answered)} of {total} cells"]
        for name in ("x_dtype", "scale_dtype", "out_dtype", "granularity", "variant"):
            supported = {getattr(cell, name) for cell in self.answered}
            missing = sorted({getattr(cell, name) for cell in self.refused} - supported)
            if missing and supported:
                words.append(f"no {name.replace('_dtype', '')} {', '.join(missing)}")
        return "; ".join(words)


def probe(worker: Worker, contract: Contract) -> Support:
    """Ask for the simplest call of every cell of an edition. Raises WorkerFailedError when there is no worker."""
    cells: Sequence[Cell] = list(
        dict.fromkeys(contract.cell(build(contract, structure)) for structure in cell_structures(contract))
    )
    worker.submit([(encode_call(simplest(contract, cell)), "") for cell in cells])
    outcomes = worker.collect()
    answered = tuple(c for c, o in zip(cells, outcomes, strict=True) if o.kind == "tensor")
    return Support(contract.id, answered, tuple(c for c in cells if c not in set(answered)))
