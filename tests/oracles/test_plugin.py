"""Targets of kernels that a user names."""

from __future__ import annotations

import hashlib

import pytest

from xverify.oracles import answers, installed_version
from xverify.oracles.plugin import TargetError, plugin


def test_a_file_is_named_by_its_base_name_and_known_by_its_contents(tmp_path):
    (tmp_path / "kernels.py").write_text("def f(): ...\n")
    oracle = plugin(f"{tmp_path / 'kernels.py'}:f")
    assert oracle.name == "kernels.py:f"
    assert oracle.arguments == (f"{tmp_path / 'kernels.py'}:f",)
    assert installed_version(oracle) == "sha256:" + hashlib.sha256(b"def f(): ...\n").hexdigest()[:12]
    assert answers(oracle, "tensorflow/Dequantize@installed")
    assert [path.options for path in oracle.paths] == ["", "threads"]


@pytest.mark.parametrize("name", ["k.so", "k.so.3", "k.dylib", "k.dll"])
def test_a_library_takes_the_editions_that_its_interface_has_arguments_for(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    oracle = plugin(f"{tmp_path / name}:run")
    assert oracle.arguments == (str(tmp_path / name), "run")
    assert answers(oracle, "ai.onnx/DequantizeLinear-25")
    assert not answers(oracle, "onednn/DynamicDequantize-1@multiply")


def test_a_module_has_the_version_of_its_distribution():
    import numpy

    assert plugin("numpy.linalg:norm").version == numpy.__version__
    assert plugin("no_such_module:f").version == "unversioned"


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("kernel", "is no kernel: name package.module:function"),
        (":f", "is no kernel"),
        ("a.b:", "is no kernel"),
        ("nowhere.py:f", "there is no file nowhere.py"),
        ("nowhere.so:f", "there is no file nowhere.so"),
        ("some/folder:f", "is neither a module"),
        ("1abc:f", "is neither a module"),
    ],
)
def test_what_is_no_target_is_refused_with_a_sentence(target, complaint):
    with pytest.raises(TargetError, match=complaint):
        plugin(target)
