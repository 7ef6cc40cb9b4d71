"""Search of a document for the sentences that a contract quotes."""

from __future__ import annotations

import re

from xverify.contracts.model import Contract


def folded(text: str) -> str:
    """Return the text with plain white space, bullets and quotation marks."""
    for odd, plain in (("‘", "'"), ("’", "'"), ("`", ""), ("•", " "), ("::", ":")):
        text = text.replace(odd, plain)
    return re.sub(r"\( | (?=\))", lambda match: match.group().strip(), re.sub(r"\s+", " ", text)).strip()


def quoted_but_absent(contract: Contract, document: str) -> list[str]:
    """Return quotations that are not in the document. " ... " in a quotation skips words."""
    whole = folded(document)
    absent = []
    for clause in contract.clauses.values():
        position = 0
        for part in filter(None, folded(clause.text).split(" ... ")):
            position = whole.find(part, position)
            if position < 0:
                absent.append(f"{clause.id}: {part}")
                break
    return absent
