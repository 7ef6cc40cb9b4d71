"""The releases of implementations, as upstream names them, and their age."""

from __future__ import annotations

import re
from datetime import date
from fnmatch import fnmatchcase
from typing import Optional

from xverify.oracles.protocol import Oracle

OLD_YEARS = 2
"""The age in years from which a sweep says that an implementation is old."""

_CALENDAR = re.compile(r"(20\d\d)\.\d")
"""The beginning of a calendar version such as 2025.2.0."""

_DATED = re.compile(r"(.*), (\d{4})(?:-(\d\d))?")
"""A release: its name, then its year and, if it is known, its month."""


def release_of(oracle: Oracle, version: str) -> str:
    """The release of a version, as upstream names it, with its month or year; "" if it is not known.

    Examples are "oneDNN v3.2, 2023-07" and, for a calendar version, "OpenVINO 2025.2.0, 2025".
    """
    for pattern, release in oracle.releases:
        if fnmatchcase(version, pattern):
            return release
    calendar = _CALENDAR.match(version)
    return "%s %s, %s" % (oracle.title or oracle.name, version, calendar.group(1)) if calendar else ""


def age_in_years(release: str, today: date) -> Optional[int]:
    """The number of whole years since a release; None if it has no date.

    A release that names only its year counts from the end of that year.
    """
    dated = _DATED.fullmatch(release)
    if dated is None:
        return None
    year, month = int(dated.group(2)), int(dated.group(3) or 12)
    return max(0, today.year - year - (today.month < month))


def remark_on_age(oracle: Oracle, version: str, today: date) -> str:
    """A sentence on a release that is at least `OLD_YEARS` years old; "" for any other."""
    release = release_of(oracle, version)
    years = age_in_years(release, today)
    if years is None or years < OLD_YEARS:
        return ""
    dated = _DATED.fullmatch(release)
    assert dated is not None
    newest = (oracle.distribution, *oracle.distributions)[-1]
    since = "-".join(part for part in dated.groups()[1:] if part)
    sentence = "%s is %s of %s, %d years old; newer releases may differ: pip install --upgrade %s"
    return sentence % (oracle.name, dated.group(1), since, years, newest)
