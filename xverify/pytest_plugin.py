"""pytest's side: ``--xverify-kernel TARGET``, and a fixture for suites that test whatever kernel is named there.

pytest loads this in every run of every project that has xverify installed: it imports nothing of xverify until a test asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class NamedKernel:
    """The kernel under test. target: as it was named, see README.md; budget: the time for each `verify`."""

    target: str
    budget: str

    def verify(self, contract: str | None = None, **options: Any) -> None:
        """Hold the kernel to an edition, as `xverify.testing.verify_kernel` does, which says what the options are."""
        __tracebackhide__ = True
        from xverify.testing import verify_kernel

        verify_kernel(self.target, contract, **{"budget": self.budget, **options})


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xverify", "bit-for-bit verification of dequantization kernels")
    group.addoption(
        "--xverify-kernel",
        metavar="TARGET",
        help="The kernel that the fixture xverify_kernel stands for: package.module:function, path/file.py:function "
        "or path/library.so:symbol.",
    )
    group.addoption("--xverify-budget", metavar="TIME", help="Time for each verification, such as 60s or 5m.")
    parser.addini("xverify_kernel", "What --xverify-kernel says if it is not given.", default="")
    parser.addini("xverify_budget", "What --xverify-budget says if it is not given.", default="60s")


@pytest.fixture(scope="session")
def xverify_kernel(pytestconfig: pytest.Config) -> NamedKernel:
    """The kernel that --xverify-kernel names, or the ini value xverify_kernel; without either the test is skipped."""
    target = pytestconfig.getoption("--xverify-kernel") or pytestconfig.getini("xverify_kernel")
    if not target:
        pytest.skip("no kernel is named: give --xverify-kernel TARGET, or set xverify_kernel in pytest's ini file")
    return NamedKernel(target, pytestconfig.getoption("--xverify-budget") or pytestconfig.getini("xverify_budget"))
