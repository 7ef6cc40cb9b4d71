"""Whether a document has the sentences that a contract quotes."""

from __future__ import annotations

import re

from xverify.contracts.model import Contract


def folded(text: str) -> str:
    """White space, bullets and quotation marks made alike."""
    for odd, plain in (("‘", "'"), ("’", "'"), ("`", ""), ("•", " "), ("::", ":")):
        text = text.replace(odd, plain)
    return re.sub(r"\( | (?=\))", lambda found: found.group().strip(), re.sub(r"\s+", " ", text)).strip()


def quoted_but_absent(contract: Contract, document: str) -> list[str]:
    """Sentences of the contract that the document does not have; " ... " in a quotation skips something."""
    whole = folded(document)
    absent = []
    for clause in contract.clauses.values():
        place = 0
        for part in filter(None, folded(clause.text).split(" ... ")):
            place = whole.find(part, place)
            if place < 0:
                absent.append(f"{clause.id}: {part}")
                break
    return absent
