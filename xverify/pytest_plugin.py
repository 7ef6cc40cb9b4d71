"""The pytest plugin: option ``--xverify-kernel``, and a fixture for the kernel that it names.

pytest loads this module in every project where xverify is installed. So it imports nothing of xverify before a test
needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class NamedKernel:
    """The kernel under test."""

    target: str
    """The kernel as the user named it: module:function, file.py:function or library.so:symbol."""
    budget: str
    """Time for each `verify`, such as 60s."""

    def verify(self, contract: str | None = None, **options: Any) -> None:
        """Test the kernel against an edition, and raise if it fails.

        Args:
            contract: The edition. The default is the newest ONNX edition.
            options: Options of `xverify.testing.verify_kernel`.
        """
        __tracebackhide__ = True
        from xverify.testing import verify_kernel

        verify_kernel(self.target, contract, **{"budget": self.budget, **options})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and ini values of the plugin."""
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
    """The kernel that --xverify-kernel or the ini value xverify_kernel names.

    Without either, the test is skipped.
    """
    target = pytestconfig.getoption("--xverify-kernel") or pytestconfig.getini("xverify_kernel")
    if not target:
        pytest.skip("no kernel is named: add --xverify-kernel TARGET, or set xverify_kernel in pytest's ini file")
    return NamedKernel(target, pytestconfig.getoption("--xverify-budget") or pytestconfig.getini("xverify_budget"))
