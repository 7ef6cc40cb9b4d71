"""The certificate: a JSON file that always records what is proven so far."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from xverify.certify import ranges
from xverify.certify.bulk import Through
from xverify.certify.domains import Domain, GivenScales, named, size, triples_of_unit
from xverify.certify.identity import changed_files
from xverify.certify.ranges import Range, Ranges
from xverify.core.codec import read_json
from xverify.core.errors import DamagedFileError, UsageError
from xverify.core.shard import Shard
from xverify.report.schema import errors

SCHEMA = "xverify.certificate/2"
"""Name of the certificate format that this version reads and writes."""
MOST_BYTES = 16 << 20
"""Largest certificate that is read, in bytes."""
MOST_COUNTEREXAMPLES = 64
"""Number of counterexamples that a certificate keeps."""
EQUALITY = "bit for bit; any NaN is any NaN, -0 is not +0, subnormals are kept"
"""Definition of equality in the certificate."""

Place = tuple[int, Range]
"""A slice, and a range of its units."""

IDENTITY = ("subject", "contract", "domain", "through", "versions", "machine")
"""Parts of a certificate that must be unchanged when a run continues it."""


@cache
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a certificate."""
    loaded: dict[str, Any] = json.loads(files("xverify.certify").joinpath("schema.json").read_text("utf-8"))
    return loaded


def is_certificate(path: Path) -> bool:
    """Return True if a file names a certificate's schema."""
    try:
        content = read_json(path, MOST_BYTES)
    except DamagedFileError:
        return False
    return isinstance(content, dict) and str(content.get("schema", "")).startswith("xverify.certificate/")


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Lock a certificate: no other run writes it inside this context.

    A killed run leaves no lock.

    Raises:
        UsageError: Another run is writing the certificate.
    """
    lock = path.with_name(path.name + ".lock")
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another run is writing {path}: wait for it, or write to another file (-o)") from None
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def load(path: Path) -> dict[str, Any]:
    """Read and validate a certificate.

    Raises:
        DamagedFileError: The file is too large, damaged, or from another version of xverify.
    """
    content = read_json(path, MOST_BYTES)
    name = content.get("schema") if isinstance(content, dict) else None
    if name != SCHEMA:
        shown = f"its schema is {name!r}"[:100] if name is not None else "it names no schema"
        raise DamagedFileError(f"{path} is no certificate that this version reads: {shown}; expected is {SCHEMA!r}")
    for sentence in errors(schema(), content, "the certificate"):
        raise DamagedFileError(f"{path} is damaged: {sentence}")
    certificate: dict[str, Any] = content
    sentence = _contradiction(certificate)
    if sentence:
        raise DamagedFileError(f"{path} is damaged: {sentence}")
    return certificate


def _contradiction(certificate: Mapping[str, Any]) -> str:
    """Return a sentence about a contradiction inside a certificate; empty if there is none."""
    try:
        domain = domain_of(certificate["domain"])
    except (KeyError, ValueError):
        return f"there is no domain {certificate['domain']['name']!r} with such zero points"
    domain_entry = certificate["domain"]
    if domain_entry != domain_to_json(domain, domain_entry["out_dtype"]):
        return f"the domain {domain.name} is not described as it is"
    proven = proven_of(certificate)
    entries = certificate["proven"]
    if len(proven) != len(entries) or any(
        [list(units) for units in proven[entry["slice"]]] != entry["ranges"] for entry in entries
    ):
        return "its proven ranges are not in order, or empty"
    if set(proven) - set(domain.slices) or any(r[-1][1] > domain.units for r in proven.values()):
        return "a proven range is outside the domain"
    for part, (start, stop) in excluded_of(certificate).values():
        if part not in domain.slices or not start < stop <= domain.units:
            return "a reading is excluded outside the domain"
    for entry in certificate["counterexamples"]:
        start, stop = entry["range"]
        if entry["slice"] not in domain.slices or not start < stop <= domain.units:
            return "a counterexample is outside the domain"
        if ranges.count(ranges.without(((start, stop),), proven.get(entry["slice"], ()))) < stop - start:
            return "a counterexample is in what is proven"
    if any(
        part not in domain.slices or units[-1][1] > domain.units
        for part, units in requested_of(certificate).items()
        if units
    ):
        return "a requested range is outside the domain"
    counts, total = certificate["counts"], size(domain)
    if counts != {"triples": total, "proven": triples(domain, proven)}:
        return "its counts are not those of its ranges"
    if certificate["status"] != status(domain, proven, certificate["counterexamples"]):
        return f"it is not {certificate['status']}, by its ranges and counterexamples"
    readings = certificate["readings"]
    if set(readings["explain"]) & set(excluded_of(certificate)):
        return "a reading that explains it is excluded as well"
    if set(readings["explain"]) - set(readings["admitted"]) or not readings["explain"]:
        return "the readings that explain it are none of those that are admitted"
    return ""


def domain_to_json(domain: Domain, out: str) -> dict[str, Any]:
    """Return the domain as it stands in a certificate."""
    return {
        "name": domain.name,
        "words": domain.words,
        "x_dtype": domain.x_dtype,
        "scale_dtype": domain.scale_dtype,
        "out_dtype": out,
        "zero_points": "all" if domain.has_zero_point else "absent",
        "slice": domain.slice_words,
        "slices": list(domain.slices),
        "unit": domain.unit,
        "units": domain.units,
        "triples_of_unit": triples_of_unit(domain),
    }


def domain_of(entry: Mapping[str, Any]) -> Domain:
    """Return the domain of a certificate: the inverse of `domain_to_json`.

    Raises:
        KeyError: There is no domain of this name.
        ValueError: The domain has no such zero points or scales.
    """
    domain = named(entry["name"], entry["zero_points"] == "all", entry["slices"])
    if isinstance(domain, GivenScales) and not domain.slices:
        raise ValueError("no scale")
    if isinstance(domain, GivenScales) and not 0 <= domain.slices[0] <= domain.slices[-1] < 1 << 32:
        raise ValueError("no code of a scale")
    return domain


def proven_of(certificate: Mapping[str, Any]) -> dict[int, Ranges]:
    """Return the proven units of a certificate, by slice, without empty entries."""
    proven = {entry["slice"]: ranges.united(_pairs(entry["ranges"])) for entry in certificate["proven"]}
    return {part: united for part, united in proven.items() if united}


def requested_of(certificate: Mapping[str, Any]) -> dict[int, Ranges]:
    """Return the requested units of a certificate, by slice.

    A certificate of an earlier version of xverify does not state them. Then they are those that it decides.
    """
    if "requested" not in certificate:
        decided = {part: list(units) for part, units in proven_of(certificate).items()}
        for entry in certificate["counterexamples"]:
            decided.setdefault(entry["slice"], []).append((entry["range"][0], entry["range"][1]))
        return {part: ranges.united(units) for part, units in decided.items()}
    return {part: ranges.united(entry["ranges"]) for entry in certificate["requested"] for part in entry["slices"]}


def requested_to_json(requested: Mapping[int, Ranges]) -> list[dict[str, Any]]:
    """Return requested units as they stand in a certificate: slices with the same ranges are one entry."""
    slices: dict[Ranges, list[int]] = {}
    for part, units in requested.items():
        slices.setdefault(units, []).append(part)
    return [{"slices": parts, "ranges": [list(interval) for interval in units]} for units, parts in slices.items()]


def together(domain: Domain, *sets: Mapping[int, Ranges]) -> dict[int, Ranges]:
    """Return the units that are in some of the sets, by slice, in the order of the domain."""
    united = {
        part: ranges.united(units for units_of in sets for units in units_of.get(part, ())) for part in domain.slices
    }
    return {part: units for part, units in united.items() if units}


def excluded_of(certificate: Mapping[str, Any]) -> dict[str, Place]:
    """Return the first proven units that each excluded reading does not give, by its name."""
    return {
        entry["reading"]: (entry["slice"], (entry["range"][0], entry["range"][1]))
        for entry in certificate["readings"].get("excluded", ())
    }


def machines_of(certificate: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the machines on which a certificate was made."""
    return list(certificate.get("machines") or [certificate["machine"]])


def same_machine(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if two machines differ at most in their number of cores."""
    return {**one, "cores": None} == {**other, "cores": None}


def shard_of(certificate: Mapping[str, Any]) -> Shard | None:
    """Return the shard that a certificate is of, or None."""
    entry = certificate.get("shard")
    return None if entry is None else Shard(entry["index"], entry["count"])


def shard_to_json(shard: Shard) -> dict[str, int]:
    """Return a shard as it stands in a certificate."""
    return {"index": shard.index, "count": shard.count}


def _pairs(entries: Sequence[Sequence[int]]) -> list[Range]:
    return [(entry[0], entry[1]) for entry in entries if len(entry) == 2]


def triples(domain: Domain, proven: Mapping[int, Ranges]) -> int:
    """Return the number of triples in ranges of units."""
    return sum(map(ranges.count, proven.values())) * triples_of_unit(domain)


def status(domain: Domain, proven: Mapping[int, Ranges], counterexamples: Sequence[Any]) -> str:
    """Return "proven", "partial" or "refuted"."""
    if counterexamples:
        return "refuted"
    return "proven" if triples(domain, proven) == size(domain) else "partial"


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Describe the differences between the identities of two certificates, a few words each."""
    words = []
    for part in IDENTITY:
        if part == "machine" and any(same_machine(machine, new[part]) for machine in machines_of(old)):
            continue
        if old[part] == new[part] or not isinstance(new[part], dict):
            words += [] if old[part] == new[part] else [f"{part} was {old[part]}, is {new[part]}"]
            continue
        names = [name for name in {**old[part], **new[part]} if old[part].get(name) != new[part].get(name)]
        if part == "machine":
            names = [name for name in names if name != "cores"]
        if part == "versions":  # a kernel may import packages later
            names = [name for name in names if name in old[part] and name in new[part]]
        if part == "subject":
            words += [f"the code of the subject ({name})" for name in changed_files(old[part], new[part])]
            names = [name for name in names if name not in ("digest", "sources")]
        for name in names:
            words.append(_difference(part, name, old[part].get(name), new[part].get(name)))
    return words


def _difference(part: str, name: str, old: Any, new: Any) -> str:
    if isinstance(old, list) or isinstance(new, list):
        return f"the {name} of the {part}"
    return (
        f"the {name} of the {part} was {old}, is {new}"
        if part not in ("versions", "through")
        else f"{name} was {old}, is {new}"
    )


@dataclass(frozen=True)
class Findings:
    """The results that a certificate states."""

    admitted: Sequence[str]
    """Names of the readings that the edition admits."""
    explaining: Sequence[str]
    """Names of the readings that give everything proven."""
    excluded: Mapping[str, Place]
    """The first proven units that a reading does not give, by the reading's name."""
    requested: Mapping[int, Ranges]
    """Requested units, by slice."""
    proven: Mapping[int, Ranges]
    """Proven units, by slice."""
    counterexamples: Sequence[Mapping[str, Any]]
    """Entries of the certificate, in order of slice and range."""
    runs: Sequence[Mapping[str, Any]]
    """Entries of the runs."""
    machines: Sequence[Mapping[str, Any]]
    """Machines of the runs, at least one."""


def content(domain: Domain, head: Mapping[str, Any], findings: Findings, shard: Shard | None = None) -> dict[str, Any]:
    """Return a certificate as JSON data.

    Args:
        domain: The domain.
        head: Values of the parts in `IDENTITY`.
        findings: The results.
        shard: The shard that the certificate is of, or None.
    """
    proven, excluded = findings.proven, findings.excluded
    left_out = [
        {"reading": name, "slice": excluded[name][0], "range": list(excluded[name][1])}
        for name in findings.admitted
        if name in excluded
    ]
    return {
        "schema": SCHEMA,
        "status": status(domain, proven, findings.counterexamples),
        **({} if shard is None else {"shard": shard_to_json(shard)}),
        **{part: head[part] for part in ("subject", "contract", "domain", "through")},
        "readings": {
            "admitted": list(findings.admitted),
            "explain": list(findings.explaining),
            **({"excluded": left_out} if left_out else {}),
        },
        "equality": EQUALITY,
        "requested": requested_to_json(findings.requested),
        "proven": [
            {"slice": part, "ranges": [list(interval) for interval in proven[part]]}
            for part in domain.slices
            if proven.get(part)
        ],
        "counts": {"triples": size(domain), "proven": triples(domain, proven)},
        "counterexamples": list(findings.counterexamples),
        "versions": head["versions"],
        "machine": findings.machines[0],
        **({"machines": list(findings.machines)} if len(findings.machines) > 1 else {}),
        "runs": list(findings.runs),
    }


def replace_file(path: Path, certificate: Mapping[str, Any]) -> None:
    """Write a certificate. At every moment its file is the complete old one or the complete new one."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(json.dumps(certificate, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


@dataclass(eq=False)
class Book:
    """A certificate in progress, shared by several threads. Every change is written to its file."""

    path: Path
    """File of the certificate."""
    head: Mapping[str, Any]
    """Values of the parts in `IDENTITY`."""
    through: Through
    """The form of the calls."""
    admitted: tuple[str, ...]
    """Names of the readings that the edition admits."""
    workers: int
    """Number of workers of this run."""
    explaining: tuple[str, ...] = ()
    """Names of the readings that give everything proven so far."""
    proven: dict[int, Ranges] = field(default_factory=dict)
    """Proven units, by slice."""
    counterexamples: list[dict[str, Any]] = field(default_factory=list)
    """Entries of the certificate, in order of slice and range."""
    runs: list[dict[str, Any]] = field(default_factory=list)
    """Entries of earlier runs."""
    requested: Mapping[int, Ranges] = field(default_factory=dict)
    """Units that all runs together were to prove, by slice; of a shard, those of the undivided run."""
    shard: Shard | None = None
    """The shard that this run proves, or None."""
    excluded: dict[str, Place] = field(default_factory=dict)
    """The first proven units that a reading does not give, by the reading's name."""
    machines: list[Mapping[str, Any]] = field(default_factory=list)
    """Machines of all runs, if an earlier one ran on another machine."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _began: float = field(default_factory=time.time)
    _before: int = 0

    def __post_init__(self) -> None:
        self.explaining = self.explaining or self.admitted

    @property
    def domain(self) -> Domain:
        return self.through.domain

    def go_on(self, certificate: Mapping[str, Any]) -> None:
        """Continue the certificate of an earlier run."""
        self.proven = proven_of(certificate)
        self.explaining = tuple(certificate["readings"]["explain"])
        self.excluded = excluded_of(certificate)
        self.counterexamples = list(certificate["counterexamples"])
        here = self.head["machine"]
        self.machines = [here if same_machine(each, here) else each for each in machines_of(certificate)]
        self.runs = list(certificate["runs"])
        self.requested = together(self.domain, requested_of(certificate), self.requested)
        self._before = self.triples()

    def triples(self) -> int:
        """Return the number of proven triples."""
        return triples(self.domain, self.proven)

    def refuted(self, part: int) -> Ranges:
        """Return the units of a slice that contain a counterexample."""
        return ranges.united(entry["range"] for entry in self.counterexamples if entry["slice"] == part)

    def compared(self, part: int, units: Range) -> tuple[str, ...]:
        """Return the readings to compare the values of some units with.

        A reading that only later units exclude is among them. So the first units that exclude a reading do not depend on
        the order in which the workers finish.
        """
        with self._lock:
            later = (name for name, place in self.excluded.items() if place > (part, units))
            return (*self.explaining, *later)

    def add(self, part: int, units: Range, explaining: Sequence[str]) -> bool:
        """Record units as proven.

        Args:
            part: The slice.
            units: Range of units.
            explaining: Names of those readings of `compared` that each give all values of these units.

        Returns:
            False, with nothing recorded, if none of the readings gives everything that was proven before.
        """
        with self._lock:
            left = tuple(name for name in self.explaining if name in explaining)
            if not left:
                return False
            for name in self.compared(part, units):
                if name not in explaining:
                    self.excluded[name] = (part, units)
            self.explaining = left
            self.proven[part] = ranges.united([*self.proven.get(part, ()), units])
            self.write()
            return True

    def refute(self, counterexample: dict[str, Any]) -> None:
        """Record a counterexample."""
        with self._lock:
            if len(self.machines) > 1:
                counterexample = {**counterexample, "processor": self.head["machine"]["processor"]}
            if len(self.counterexamples) < MOST_COUNTEREXAMPLES:
                self.counterexamples.append(counterexample)
                self.counterexamples.sort(key=lambda entry: (entry["slice"], entry["range"]))
            self.write()

    def write(self) -> None:
        """Write the file. At every moment it is the complete old file or the complete new one."""
        with self._lock:
            replace_file(self.path, self.to_json())

    def take_back(self, before: Mapping[str, Any] | None) -> None:
        """Restore the certificate as it was before the run, or remove it if there was none."""
        with self._lock:
            if before is None:
                self.path.unlink(missing_ok=True)
            else:
                replace_file(self.path, before)

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as JSON data."""
        now: dict[str, Any] = {
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._began)),
            "seconds": round(time.time() - self._began, 1),
            "proven": self.triples() - self._before,
            "workers": self.workers,
        }
        if self.shard is not None:
            now["shard"] = shard_to_json(self.shard)
        if len(self.machines) > 1:
            now["processor"] = self.head["machine"]["processor"]
        return content(
            self.domain,
            self.head,
            Findings(
                self.admitted,
                self.explaining,
                self.excluded,
                self.requested,
                self.proven,
                self.counterexamples,
                [*self.runs, now],
                self.machines or [self.head["machine"]],
            ),
            self.shard,
        )
