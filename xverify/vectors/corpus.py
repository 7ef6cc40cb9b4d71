"""Write a corpus into a folder: the calls in each form, and a manifest with a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from xverify import __version__
from xverify.contracts.documents import version_of
from xverify.contracts.model import Contract
from xverify.core.call import BITS
from xverify.core.dtypes import MANTISSA_BITS
from xverify.core.errors import UsageError
from xverify.vectors import jsonl, node_tests
from xverify.vectors.choose import SEED, SIZES, Vector, choose, vectors_of

NAME, FORMAT = "xverify-vectors", 1
"""The name and the version of the format. The version rises if a runner must change."""

MANIFEST = "manifest.json"

FORMS = ("jsonl", "onnx")

ENCODING = {
    "codes": "The bits of each element as a number in hex, the highest digit first: 1 digit for types of 2 and 4 bits, "
    "2 for 6 and 8 bits, 4 for 16 bits, 8 for 32 bits, 16 for 64 bits. Elements are in C order, with nothing between them.",
    "legal": "Each entry is a whole result. One entry must give all values of the call.",
    "cell": "If several entries are legal, the calls of a cell must have a reading in common, named in readings.",
    "nan": "A code is NaN if (code & mask) > infinity. Where the legal code is NaN, every NaN is legal. "
    "All other codes must be equal, also the sign of a zero. Subnormal results must not be zero.",
    "refused": "The kernel must refuse the call. Each clause forbids it.",
}  # fmt: skip
"""Sentences for the authors of runners."""


@dataclass(frozen=True)
class Corpus:
    """The chosen calls of a corpus."""

    contract: Contract
    size: str
    vectors: tuple[Vector, ...]
    node_tests: tuple[Vector, ...]
    """Those that are node tests too. Empty if the edition has none."""
    left_out: Mapping[str, int]
    """The number of calls of the walk that are not chosen, by reason."""


def corpus(contract: Contract, size: str) -> Corpus:
    """Choose the calls of a corpus.

    Args:
        size: A name of `xverify.vectors.choose.SIZES`.
    """
    limits = SIZES[size]
    source = vectors_of(contract, limits)
    chosen = choose(source.vectors, lambda vector: len(jsonl.line(contract, vector)), limits.lines, limits.fill)
    tests: list[Vector] = []
    if node_tests.has_node_tests(contract):
        single = [vector for vector in chosen if node_tests.is_node_test(vector)]
        tests = choose(single, node_tests.disk_bytes, limits.node_tests, limits.node_tests)
    left_out = {**source.counts, "not chosen": len(source.vectors) - len(chosen)}
    return Corpus(contract, size, tuple(chosen), tuple(tests), left_out)


def write(made: Corpus, folder: Path, forms: Collection[str]) -> dict[str, Any]:
    """Write a corpus and return its manifest.

    The manifest is written last, so that a folder with one is complete.

    Raises:
        UsageError: The folder is not empty.
    """
    require_empty(folder)
    folder.mkdir(parents=True, exist_ok=True)
    listed = []
    for path, content in _files(made, forms):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        listed.append({"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    manifest = _manifest(made, forms, listed)
    text = json.dumps({key: value for key, value in manifest.items() if key != "files"}, indent=1)
    rows = ",\n".join("  " + json.dumps(entry, separators=(",", ":")) for entry in listed)
    (folder / MANIFEST).write_bytes(f'{text[:-2]},\n "files": [\n{rows}\n ]\n}}\n'.encode())
    return manifest


def require_empty(folder: Path) -> None:
    """Check that a folder is new or empty.

    Raises:
        UsageError: It holds something.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; name a new folder with -o, or delete this one")


def _files(made: Corpus, forms: Collection[str]) -> Iterator[tuple[str, bytes]]:
    if "jsonl" in forms:
        yield jsonl.FILE, "".join(jsonl.line(made.contract, vector) for vector in made.vectors).encode()
    if "onnx" in forms:
        for vector in sorted(made.node_tests, key=node_tests.name):
            for path, content in sorted(node_tests.files(vector).items()):
                yield f"{node_tests.FOLDER}/{node_tests.name(vector)}/{path}", content


def _manifest(made: Corpus, forms: Collection[str], listed: list[dict[str, Any]]) -> dict[str, Any]:
    contract, allowed = made.contract, [vector for vector in made.vectors if vector.legal]
    several = sum(len(vector.legal) > 1 for vector in allowed)
    counts: dict[str, Any] = {
        "calls": len(made.vectors),
        "allowed": len(allowed),
        "refused": len(made.vectors) - len(allowed),
        "values": sum(vector.call.values for vector in allowed),
        "calls with several legal results": several,
        "left out of the walk": dict(made.left_out),
    }
    if node_tests.has_node_tests(contract):
        counts["node tests"] = len(made.node_tests) if "onnx" in forms else 0
        counts["no node test"] = {
            "several legal results": several,
            "must be refused": counts["refused"],
            "not chosen": len(allowed) - several - len(made.node_tests),
        }
    outputs = sorted({vector.output_dtype for vector in allowed} & MANTISSA_BITS.keys())
    return {
        "name": NAME,
        "format": FORMAT,
        "edition": contract.id,
        "document": contract.document,
        "edition_sha256": _text_digest(contract),
        "size": made.size,
        "seed": SEED,
        "forms": [form for form in FORMS if form in forms],
        "made_with": {
            "xverify": __version__,
            "numpy": np.__version__,
            "ml_dtypes": ml_dtypes.__version__,
            "onnx": version_of("onnx"),
        },
        "encoding": ENCODING,
        "nan": {dtype: _nan_rule(dtype) for dtype in outputs},
        "readings": _reading_words(contract, allowed),
        "counts": counts,
        "digest": digest(listed),
        "files": listed,
    }


def digest(listed: list[dict[str, Any]]) -> str:
    """The SHA-256 of the lines that ``sha256sum`` prints for the files, sorted by path."""
    lines = (f"{entry['sha256']}  {entry['path']}\n" for entry in sorted(listed, key=lambda entry: str(entry["path"])))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _nan_rule(dtype: str) -> dict[str, str]:
    bits, digits = BITS[dtype], BITS[dtype] // 4
    mask = (1 << (bits - 1)) - 1
    return {"mask": f"{mask:0{digits}x}", "infinity": f"{mask & ~((1 << MANTISSA_BITS[dtype]) - 1):0{digits}x}"}


def _text_digest(contract: Contract) -> str:
    """The SHA-256 of all clauses, so that a change of the edition's text shows."""
    clauses = [[clause.id, clause.text, clause.note] for clause in contract.clauses.values()]
    return hashlib.sha256(json.dumps(sorted(clauses)).encode()).hexdigest()


def _reading_words(contract: Contract, allowed: list[Vector]) -> dict[str, str]:
    """The words of every reading that some line may name, by name."""
    words = {reading.name: reading.words for vector in allowed for reading in contract.readings(vector.call)}
    return dict(sorted(words.items()))


__all__ = ["FORMAT", "FORMS", "MANIFEST", "NAME", "Corpus", "corpus", "digest", "require_empty", "write"]
