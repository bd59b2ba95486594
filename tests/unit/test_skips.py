"""No test may be skipped in silence: a pytest run inside the test run, with machines that lack this or that."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
TEST = """
    import pytest

    @pytest.mark.{marker}
    def test_thing():
        {body}
"""
MACHINE = """
    import skips

    pytest_plugins = ["skips"]
    skips.NEEDS["docker"] = lambda: {lack!r}
    skips.NEEDS["netns"] = lambda: None
    skips.NEEDS["tshark"] = lambda: {lack!r}

    def pytest_configure(config):
        for name in skips.NEEDS:
            config.addinivalue_line("markers", name)
"""


@pytest.mark.parametrize(
    ("lack", "marker", "body", "code", "told"),
    [
        ("no engine", "docker", "assert False", 0, "1 skipped, allowed: docker: no engine"),
        (None, "docker", "pytest.skip('not today')", 1, "1 skipped, NOT ALLOWED: not today"),
        ("no engine", "docker", "pass", 0, "1 skipped, allowed: docker: no engine"),
        (None, "netns", "pytest.skip('docker: no engine')", 1, "1 skipped, NOT ALLOWED: docker: no engine"),
        (None, "docker", "pass", 0, "none"),
        ("it is not there", "tshark", "assert False", 0, "1 skipped, allowed: tshark: it is not there"),
        (
            None,
            "tshark",
            "pytest.skip('tshark: it is not there')",
            1,
            "1 skipped, NOT ALLOWED: tshark: it is not there",
        ),
        (None, "docker", "pytest.importorskip('no_such_module')", 1, "*NOT ALLOWED*no_such_module*"),
        (None, "docker", "assert False", 1, "none"),
    ],
)
def test_skips(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    lack: str | None,
    marker: str,
    body: str,
    code: int,
    told: str,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    pytester.makeconftest(MACHINE.format(lack=lack))
    pytester.makepyfile(TEST.format(marker=marker, body=body))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == code
    result.stdout.fnmatch_lines([told])
