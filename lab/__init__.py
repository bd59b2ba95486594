"""Brokerlab: a network lab for publish/subscribe protocols.

Nothing is imported here: programs inside containers load this package with the standard library alone.
"""

__version__ = "0.1.0"
