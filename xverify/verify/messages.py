"""Messages of refusals and deaths without what changes from call to call."""

from __future__ import annotations

import re

_CHANGING = (
    (r"\[ONNXRuntimeError\] : \d+ : \w+ : |^Error in execution: ", ""),  # the same message through two interfaces
    # The same refusal of a kernel, whether the optimiser or a run computes the node.
    (
        r"^Exception during initialization: (?=\S+ [\w: ]*\b(\w+)(?:<\w+>)?::Compute\()",
        r"Non-zero status code returned while running \1 node. Name: Status Message: ",
    ),
    (r"^This is an invalid model\. (?:Type Error: )?", ""),
    # A name with a number is one of the graph's. A node that an optimiser names tells which optimiser made it.
    (r"\b(operator|parameter|node) \(([A-Za-z_]+)\)", r"\1 \2"),
    (r"\[with [^\]]*\]", ""),
    (r"0x[0-9a-fA-F]+", ""),
    (r"(?:/[\w.+-]+){2,}", ""),
    (r"\b(?:tensor|vector)\([^)]*\)|\bN\d+\w+|<[^<>]*>", ""),
    (r"'[^']*'|\"[^\"]*\"|\([^()]*\)", ""),
    (r"\d+(?:\.\d+)*", ""),
    (r"\s+", " "),
)
"""Patterns of what changes from call to call, and what replaces them."""

MOST_MESSAGE = 160
"""Number of characters of a normalised message."""

MOST_SLUG = 60
"""Number of characters of a message in a detail."""


def normalised(message: str) -> str:
    """A message without addresses, numbers, paths, quoted names and template arguments."""
    for pattern, replacement in _CHANGING:
        message = re.sub(pattern, replacement, message)
    return message.strip(" :.,")[:MOST_MESSAGE]


_SIGNATURE = re.compile(
    r"/\S+:\d+ (?:[^()]* )?(?:\w+(?:<\w+>)?::)*(\w+)(?:<\w+>)?\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])? "
)
"""The place of a check: path and line, and the signature of a function of C++."""

_VAGUE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |Error in execution: |Exception during initialization: |.*Status Message: |"
    r"(?:This is an i|I)nvalid model\. |Type Error: |Node \([^()]*\) (?=Op )|"
    r"\{\{function_node [^}]*\}\} |Detected unsupported operations when trying to compile graph \S+ on \S+: "
)
"""Beginnings of messages that say less than the rest."""


def useful_words(line: str) -> str:
    """A line of a message without vague beginnings, and with the name of a function instead of its place."""
    while (vague := _VAGUE.match(line)) and vague.end() < len(line):
        line = line[vague.end() :]
    condition, was_false, explanation = line.partition(" was false.")
    if was_false:  # the macro of a check: path, signature, condition, explanation
        return explanation.strip() or " ".join(condition.split(" ")[-3:]) + was_false
    place = _SIGNATURE.match(line)
    return f"{place[1]}: {line[place.end() :]}" if place else line


def telling_line(message: str) -> str:
    """The line of a message that says what is wrong.

    It is the first one, or the last one where the first only names a place. A summary at the end only repeats what failed.
    """
    message, _, _ = message.partition("\nSummary:\n")
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    return lines[-1] if re.fullmatch(r"Exception from \S+:", lines[0]) else lines[0]


def refusal_of(message: str) -> str:
    """The token of a refusal's message; empty without a message."""
    return normalised(telling_line(message))


_NOT_ABORT = re.compile(
    r"(?m)^(?:killed by |Fatal Python error|Current thread|Thread |Stack \(|terminate called|PLEASE submit|INFO: |\s*File |"
    r"Extension modules: |\s*@ +0x|\*\*\* Check failure).*$\n?"
    r"|^\s*what\(\): *"
)
"""Lines and words of a crash's message that are not the abort's own."""


_HEAP = re.compile(
    r"(?m)^(?:(?:free|malloc|calloc|realloc|munmap_chunk|malloc_consolidate)\(\): .*"
    r"|double free or corruption.*|corrupted (?:size vs\. prev_size|double-linked list).*)$"
)
"""The messages of glibc's malloc (malloc/malloc.c, `malloc_printerr`). Luck decides which check notices a damaged heap first."""


_FRAME = re.compile(r'(?m)^(?!.*[/"]oracles/\w+\.py").*in (\w+)$')
"""A stack frame that is not in a file of `xverify.oracles`, which makes the calls."""


def abort_of(message: str) -> str:
    """The token of a death: the signal with the abort's own message, or with the place where it happened."""
    signal = re.search(r"killed by (\w+)", message)
    own = normalised(_HEAP.sub("heap corruption", _NOT_ABORT.sub("", message)))
    where = "" if own else ", ".join(_FRAME.findall(message)[:3])
    return ": ".join(filter(None, (signal[1] if signal else "", own or where)))


def slug(message: str) -> str:
    """The first words of a refusal's message in kebab case; empty without a message."""
    return re.sub("[^a-z0-9]+", "-", refusal_of(message).lower())[:MOST_SLUG].strip("-")
