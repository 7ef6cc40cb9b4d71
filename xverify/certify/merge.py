"""Certificates of one proof combined: those of its shards, or of different machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xverify.certify import ranges
from xverify.certify.certificate import (
    MOST_COUNTEREXAMPLES,
    Findings,
    Place,
    changed,
    content,
    domain_of,
    excluded_of,
    held,
    load,
    machines_of,
    proven_of,
    replace_file,
    requested_of,
    same_machine,
    shard_of,
    together,
    triples,
)
from xverify.certify.domains import Domain, size
from xverify.certify.identity import joined
from xverify.certify.listing import grouped
from xverify.certify.ranges import Ranges
from xverify.certify.witness import in_words
from xverify.core.errors import UsageError

Certificate = Mapping[str, Any]

MOST_NAMED = 5
"""Number of missing ranges or shards that a sentence names."""


class Result(NamedTuple):
    """The result of a merge."""

    code: int
    """Exit code: 0 everything requested is proven, 1 counterexample, 3 something is missing."""
    sentences: tuple[str, ...]
    """Sentences for the terminal."""


def merge_certificates(paths: Sequence[Path], output: Path) -> Result:
    """Combine certificates of one proof, and write the result.

    Args:
        paths: The certificates. Their units may overlap.
        output: File to write. If it exists, it must be a certificate of the same proof, and is replaced.

    Raises:
        UsageError: A certificate is of another proof, or another run is writing the output.
        DamagedFileError: A file is damaged, or is no certificate.
    """
    certificates = [load(path) for path in paths]
    merged = merge(certificates, [str(path) for path in paths])
    with held(output):
        if output.exists() and (differences := _differences(load(output), merged)):
            raise UsageError(f"{output} holds another proof: {'; '.join(differences)}. Write to another file with -o")
        replace_file(output, merged)
    return _result(merged, certificates, paths, output)


def merge(certificates: Sequence[Certificate], names: Sequence[str]) -> dict[str, Any]:
    """Return the combined certificate.

    If no admitted reading gives everything, a counterexample says so. It takes the certificates in the order of their
    units, as an undivided run does.

    Args:
        certificates: The certificates.
        names: Names of the certificates, for messages.

    Raises:
        UsageError: A certificate is of another proof than the first.
    """
    head = _identity(certificates, names)
    domain = domain_of(head["domain"])
    ordered = sorted(certificates, key=_first_place)
    machines = _machines(ordered)
    admitted = tuple(head["readings"]["admitted"])
    explaining, agreeing, conflicts = _agreeing(ordered, admitted)
    counterexamples = [*_labelled("counterexamples", ordered, machines), *conflicts]
    counterexamples = sorted(_distinct(counterexamples), key=lambda entry: (entry["slice"], entry["range"]))
    refuted = _refuted(counterexamples)
    proven = {
        part: left
        for part, units in together(domain, *map(proven_of, agreeing)).items()
        if (left := ranges.without(units, refuted.get(part, ())))
    }
    findings = Findings(
        admitted,
        explaining,
        _excluded(agreeing),
        together(domain, *map(requested_of, certificates)),
        proven,
        counterexamples[:MOST_COUNTEREXAMPLES],
        sorted(_distinct(_labelled("runs", ordered, machines)), key=lambda run: str(run["started"])),
        machines,
    )
    return content(domain, head, findings)


def _identity(certificates: Sequence[Certificate], names: Sequence[str]) -> dict[str, Any]:
    """Return the parts that all certificates share, with the files and packages of all of them."""
    head = dict(certificates[0])
    for certificate, name in zip(certificates[1:], names[1:], strict=True):
        if differences := _differences(head, certificate):
            raise UsageError(
                f"{name} is of another proof than {names[0]}: {'; '.join(differences)}. Merge certificates of one proof"
            )
        head["subject"] = joined(head["subject"], certificate["subject"])
        head["versions"] = {**certificate["versions"], **head["versions"]}
    return head


def _differences(first: Certificate, other: Certificate) -> list[str]:
    words = changed(first, {**other, "machine": first["machine"]})
    if first["readings"]["admitted"] != other["readings"]["admitted"]:
        words.append("the admitted readings differ")
    return words


def _first_place(certificate: Certificate) -> tuple[int, Sequence[int]]:
    """The first units that a certificate decides."""
    places = [(entry["slice"], entry["ranges"][0]) for entry in certificate["proven"]]
    places += [(entry["slice"], entry["range"]) for entry in certificate["counterexamples"]]
    return min(places, default=(1 << 33, []))


def _machines(certificates: Sequence[Certificate]) -> list[Mapping[str, Any]]:
    machines: list[Mapping[str, Any]] = []
    for certificate in certificates:
        for machine in machines_of(certificate):
            if not any(same_machine(machine, other) for other in machines):
                machines.append(machine)
    return machines


def _labelled(
    part: str, certificates: Sequence[Certificate], machines: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return all runs or counterexamples, each with its processor if there are several machines."""
    return [
        {**({"processor": certificate["machine"]["processor"]} if len(machines) > 1 else {}), **entry}
        for certificate in certificates
        for entry in certificate[part]
    ]


def _distinct(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    distinct: list[dict[str, Any]] = []
    for entry in entries:
        if entry not in distinct:
            distinct.append(entry)
    return distinct


def _agreeing(
    ordered: Sequence[Certificate], admitted: tuple[str, ...]
) -> tuple[tuple[str, ...], list[Certificate], list[dict[str, Any]]]:
    """Return the common readings, the certificates that agree, and a counterexample for each other."""
    explaining, agreeing, conflicts = admitted, [], []
    for certificate in ordered:
        common = tuple(name for name in explaining if name in certificate["readings"]["explain"])
        if common:
            explaining = common
            agreeing.append(certificate)
        else:
            conflicts.append(_conflict(certificate, explaining))
    return explaining, agreeing, conflicts


def _conflict(certificate: Certificate, explaining: Sequence[str]) -> dict[str, Any]:
    """Return a counterexample: units that no reading of the units before gives."""
    excluded = excluded_of(certificate)
    first = certificate["proven"][0]
    begin = first["ranges"][0][0]
    place: Place = (first["slice"], (begin, begin + 1))  # an earlier version of xverify does not say where
    if all(name in excluded for name in explaining):
        place = max(excluded[name] for name in explaining)
    others = ", ".join(certificate["readings"]["explain"])
    return {
        "kind": "mixed",
        "slice": place[0],
        "range": list(place[1]),
        "wrong": 0,
        "triple": None,
        "got": None,
        "expected": [],
        "message": f"these values are by the reading {others}, those of other shards by {', '.join(explaining)}; "
        "replay the certificate for the smallest triple",
        "call": "",
        "values_of_call": 0,
    }


def _excluded(certificates: Sequence[Certificate]) -> dict[str, Place]:
    """The first units that each reading does not give."""
    excluded: dict[str, Place] = {}
    for certificate in certificates:
        for name, place in excluded_of(certificate).items():
            excluded[name] = min(place, excluded.get(name, place))
    return excluded


def _refuted(counterexamples: Sequence[Mapping[str, Any]]) -> dict[int, Ranges]:
    slices = {entry["slice"] for entry in counterexamples}
    return {
        part: ranges.united(entry["range"] for entry in counterexamples if entry["slice"] == part) for part in slices
    }


# -- what to tell ---------------------------------------------------------------------------------------


def _result(merged: Certificate, certificates: Sequence[Certificate], paths: Sequence[Path], output: Path) -> Result:
    domain = domain_of(merged["domain"])
    done, total = merged["counts"]["proven"], size(domain)
    proven = f"{grouped(done)} of {grouped(total)} triples are proven ({100 * done / total:.3g} %), in {output}"
    sentences = _present_twice(certificates, paths)
    if len(machines := machines_of(merged)) > 1:
        sentences.append(f"{len(machines)} kinds of machines: {', '.join(str(each['processor']) for each in machines)}")
    missing = undecided(merged, requested_of(merged))
    if merged["counterexamples"]:
        sentences += [in_words(entry) for entry in merged["counterexamples"]]
        return Result(1, (*sentences, f"refuted: {proven}"))
    if missing:
        left = grouped(triples(domain, missing))
        places = _named_ranges(domain, missing)
        sentences.append(f"unfinished: {proven}. {left} requested triples are missing: {places}")
        if absent := _absent_shards(certificates):
            sentences.append(f"there is no certificate of {absent}: run the missing shards, and merge again")
        else:
            sentences.append("repeat the commands of the unfinished shards, and merge again")
        return Result(3, tuple(sentences))
    return Result(0, (*sentences, f"proven by the reading {merged['readings']['explain'][0]}: {proven}"))


def undecided(certificate: Certificate, units: Mapping[int, Ranges]) -> dict[int, Ranges]:
    """Units that a certificate neither proves nor refutes, by slice."""
    proven, refuted = proven_of(certificate), _refuted(certificate["counterexamples"])
    left = {
        part: ranges.without(wanted, ranges.united([*proven.get(part, ()), *refuted.get(part, ())]))
        for part, wanted in units.items()
    }
    return {part: remaining for part, remaining in left.items() if remaining}


def _named_ranges(domain: Domain, missing: Mapping[int, Ranges]) -> str:
    places = [
        f"{f'slice {part}, ' if domain.slice_words else ''}units {start}:{stop}"
        for part, units in missing.items()
        for start, stop in units
    ]
    return "; ".join(_shortened(places))


def _shortened(words: list[str]) -> list[str]:
    return words if len(words) <= MOST_NAMED else [*words[:MOST_NAMED], f"{len(words) - MOST_NAMED} more"]


def _absent_shards(certificates: Sequence[Certificate]) -> str:
    """Name the shards without a certificate, if all certificates have the same number of shards."""
    shards = {shard for certificate in certificates if (shard := shard_of(certificate)) is not None}
    counts = {shard.count for shard in shards}
    if len(counts) != 1:
        return ""
    (count,) = counts
    absent = sorted(set(range(1, count + 1)) - {shard.index for shard in shards})
    return ", ".join(_shortened([f"shard {index}/{count}" for index in absent]))


def _present_twice(certificates: Sequence[Certificate], paths: Sequence[Path]) -> list[str]:
    shards = [shard_of(certificate) for certificate in certificates]
    twice = [shard for shard, number in Counter(shards).items() if shard is not None and number > 1]
    return [
        f"shard {shard} is present twice: {', '.join(str(path) for path, of in zip(paths, shards, strict=True) if of == shard)}"
        for shard in sorted(twice)
    ]
