"""The explanation of one value, for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from xverify.arithmetic.reading import Reading
from xverify.contracts.model import Clause
from xverify.core.codec import call_to_json, outcome_to_json
from xverify.core.dtypes import decimal, hexadecimal
from xverify.engine.explain import Answer, Explanation, Result
from xverify.engine.store import describe

MOST_NAMES = 3
"""Number of readings named for each result, without --all."""

MOST_RESULTS = 12
"""Number of results shown that no reading admits and no implementation gives, without --all."""

NARROWEST = 60
"""Number of columns that the description of a reading needs beside its result."""

_VERDICTS = {
    "allowed": "The edition allows this call.",
    "forbidden": "The edition forbids this call, so it has no legal result. The clause:",
    "unspecified": "The edition leaves this call open, so its results are neither legal nor illegal. The clause:",
}
_LEGAL = {True: "legal", False: "illegal", None: ""}


def print_explanation(
    explanation: Explanation, answers: Sequence[Answer], left_out: Sequence[str], console: Console, every: bool = False
) -> None:
    """Print the call, the results of the readings and of the implementations, and the clauses.

    Args:
        explanation: Results of all readings.
        answers: Results of implementations.
        left_out: A sentence for each implementation that was not run.
        console: Where to print.
        every: Print all readings by name and all results, instead of the most important ones.
    """
    contract = explanation.contract
    _line(console, Text.assemble((contract.id, "bold"), "  ", contract.title))
    _print_call(explanation, console)
    for sentence in explanation.assumed:
        _line(console, Text(f"  {sentence}", style="dim"))
    console.print()
    _line(console, _VERDICTS[explanation.judgement.verdict])
    for identity in explanation.judgement.clauses:
        _quote(contract.clauses[identity], contract.id, console)
    if explanation.problem:
        _line(console, explanation.problem)
    else:
        console.print()
        _print_results(explanation, answers, console, every)
    if answers or left_out:
        console.print()
        _print_answers(explanation, answers, left_out, console)
    console.print()
    for clause in _cited(explanation):
        _quote(clause, contract.id, console)


def _line(console: Console, text: Text | str) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in table.columns[:-1]:
        column.no_wrap = True
    return table


def _print_call(explanation: Explanation, console: Console) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    for role, tensor in explanation.call.tensors.items():
        code = int(tensor.codes.reshape(-1)[0])
        table.add_row(
            role.replace("_", " "), decimal(tensor.dtype, code), hexadecimal(tensor.dtype, code), tensor.dtype
        )
    for name, value in explanation.call.attributes.items():
        table.add_row(name, str(value), "", "")
    if explanation.out_dtype:
        table.add_row("output", "", "", explanation.out_dtype)
    console.print(table)


def _print_results(explanation: Explanation, answers: Sequence[Answer], console: Console, every: bool) -> None:
    dtype = explanation.out_dtype
    given_codes = {answer.code for answer in answers}
    chosen = [r for r in explanation.results if r.admitted or r.code in given_codes]
    rest = [r for r in explanation.results if not r.admitted and r.code not in given_codes]
    shown = rest if every else rest[:MOST_RESULTS]
    rows = []
    is_allowed = explanation.judgement.verdict == "allowed"
    for result in (*chosen, *shown):
        admitted = not is_allowed and result.admitted
        cells = (
            decimal(dtype, result.code),
            bits(dtype, result.code),
            "formula's" if admitted else "open" if explanation.leaves_open(result.code) else _LEGAL[result.legal],
            result.clause.id.removeprefix(explanation.contract.id + "/") if is_allowed else "",
            _ulp(result),
        )
        rows.append((*cells, _readings(result, every)))
    _print_rows(rows, console)
    if len(shown) < len(rest):
        _line(
            console,
            f"and {len(rest) - len(shown)} results of readings that the edition does not admit; --all shows them",
        )
    if explanation.subnormal is not None:
        _line(console, "A subnormal result may also be a zero of the same sign: see 'subnormal' below.")


def _print_rows(rows: Sequence[tuple[str, ...]], console: Console) -> None:
    """Print a table of results, with the readings below each result where the terminal is narrow."""
    heads = ("result", "bits", "", "clause", "ULP off")
    widths = [max(map(len, column)) + 2 for column in zip(heads, *(row[:-1] for row in rows), strict=True)]
    if console.width - sum(widths) >= NARROWEST:
        table = _table(*heads, "given by a reading that")
        for row in rows:
            table.add_row(*row)
        console.print(table, highlight=False)
        return
    _line(console, Text("".join(map(str.ljust, heads, widths)) + "given by a reading that", "bold"))
    for row in rows:
        _line(console, "".join(map(str.ljust, row, widths)).rstrip())
        console.print(Padding(Text(row[-1]), (0, 0, 0, 4)), highlight=False)


def bits(dtype: str, code: int) -> str:
    """Return a result's bits in hexadecimal, or "any NaN"."""
    return "any NaN" if decimal(dtype, code) == "nan" else hexadecimal(dtype, code)


def _ulp(result: Result) -> str:
    if result.admitted:
        return ""
    return str(result.ulp) if result.ulp >= 0 else "NaN"


def _readings(result: Result, every: bool) -> str:
    """Describe the first reading, and name the others. For a legal result, these are the admitted ones."""
    if every:
        return "\n".join(f"{reading.words} ({reading.name})" for reading in result.readings)
    listed = result.admitted or result.others
    return f"{listed[0].words} ({_named(listed)})"


def _named(readings: Sequence[Reading]) -> str:
    names = ", ".join(reading.name for reading in readings[:MOST_NAMES])
    return names if len(readings) <= MOST_NAMES else f"{names} + {len(readings) - MOST_NAMES} more"


def _print_answers(
    explanation: Explanation, answers: Sequence[Answer], left_out: Sequence[str], console: Console
) -> None:
    table = _table("implementation", "gives", "bits", "which")
    for answer in answers:
        table.add_row(_who(answer), *_gives(explanation, answer))
    if answers:
        console.print(table, highlight=False)
    like = explanation.contract.like
    if answers and like:
        _line(console, f"They ran calls of {like}, which have the same form. They do not know this edition.")
    for sentence in left_out:
        _line(console, sentence)


def _who(answer: Answer) -> str:
    paths = [path or "plain" for path in answer.paths]
    others = f" [{', '.join(paths)}]" if any(answer.paths) and len(paths) == 1 else ""
    return f"{answer.name} {answer.version}{others}"


def _gives(explanation: Explanation, answer: Answer) -> tuple[str, str, str]:
    """Return the value, its bits, and its relation to the results of the readings."""
    outcome = answer.outcome
    if outcome is None:
        return "nothing", "", answer.problem
    if outcome.tensor is None:
        first_line = outcome.message.partition("\n")[0]
        return outcome.kind, "", ": ".join(part for part in (outcome.error, first_line) if part)
    if answer.code is None:
        odd = "" if explanation.problem else "has another type or shape than expected, or differs between elements"
        return describe(outcome), "", odd
    dtype = explanation.out_dtype
    return decimal(dtype, answer.code), bits(dtype, answer.code), which(explanation, answer.code)


def which(explanation: Explanation, code: int) -> str:
    """Describe the relation of a code to the results of the readings, as a predicate."""
    result = explanation.result_of(code)
    if explanation.leaves_open(code):
        return "is a subnormal flushed to zero, which the edition leaves open"
    if result is None:
        return "is explained by no known reading" if explanation.results else ""
    if result.legal:
        return f"is legal: {_named(result.admitted)}"
    by = _named(result.admitted or result.others)
    return f"is illegal: given by {by}" if result.legal is False else f"is given by {by}"


def _cited(explanation: Explanation) -> Iterable[Clause]:
    """Return the clauses that decide about the results, each once."""
    if explanation.judgement.verdict != "allowed":
        return ()
    clauses = {result.clause.id: result.clause for result in explanation.results}
    if explanation.subnormal is not None:
        clauses[explanation.subnormal.id] = explanation.subnormal
    return clauses.values()


def _quote(clause: Clause, edition: str, console: Console) -> None:
    quotation = f'"{clause.text}"' if clause.text else "the document is silent"
    note = f" ({clause.note})" if clause.note else ""
    name = clause.id.removeprefix(edition + "/")
    _line(console, Text.assemble("  ", (name, "bold"), f", {clause.document}: {quotation}{note}"))


# -- JSON ---------------------------------------------------------------------------------------------


def explanation_to_json(explanation: Explanation, answers: Sequence[Answer], left_out: Sequence[str]) -> dict[str, Any]:
    """Return the whole explanation as JSON data: every result with every reading.

    Args:
        explanation: Results of all readings.
        answers: Results of implementations.
        left_out: A sentence for each implementation that was not run.
    """
    contract, dtype = explanation.contract, explanation.out_dtype
    cited = [contract.clauses[identity] for identity in explanation.judgement.clauses]
    return {
        "schema": "xverify.explanation/1",
        "contract": contract.id,
        "document": contract.document,
        "asked_as": contract.asked_as,
        "call": call_to_json(explanation.call),
        "assumed": list(explanation.assumed),
        "verdict": explanation.judgement.verdict,
        "clauses": [_clause(clause) for clause in (*cited, *_cited(explanation))],
        "problem": explanation.problem,
        "out_dtype": dtype,
        "results": [
            {
                "hex": bits(dtype, result.code),
                "decimal": decimal(dtype, result.code),
                "legal": result.legal,
                "clause": result.clause.id,
                "ulp": result.ulp,
                "admitted": [_reading(reading) for reading in result.admitted],
                "readings": [_reading(reading) for reading in result.others],
            }
            for result in explanation.results
        ],
        "implementations": [
            {
                "name": answer.name,
                "version": answer.version,
                "paths": list(answer.paths),
                "outcome": None if answer.outcome is None else outcome_to_json(answer.outcome),
                "hex": None if answer.code is None else bits(dtype, answer.code),
                "legal": _legality(explanation, answer),
                "problem": answer.problem,
            }
            for answer in answers
        ],
        "not_asked": list(left_out),
    }


def _legality(explanation: Explanation, answer: Answer) -> bool | None:
    """Return True if an answer is legal.

    The result is None if the call has no legal set or the answer has no comparable value.
    """
    if explanation.judgement.verdict != "allowed" or answer.code is None:
        return None
    if explanation.leaves_open(answer.code):
        return None
    result = explanation.result_of(answer.code)
    return bool(result and result.legal)


def _clause(clause: Clause) -> dict[str, str]:
    return {"id": clause.id, "text": clause.text, "document": clause.document, "note": clause.note}


def _reading(reading: Reading) -> dict[str, str]:
    return {"name": reading.name, "words": reading.words}
