"""Benchmarks of the lab itself: `python -m tests.bench [name…]`. Each prints what it measured and judges it."""


class Unable(Exception):
    """This machine cannot measure it."""
