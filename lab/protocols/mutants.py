"""The registry of mutants: programs with one known defect, and the check each must fail.

Data only, by protocol and name, from each protocol's own `entry`; the defective cores are in its `mutants` module.
"""

from __future__ import annotations

from lab.protocols.catalog import PROTOCOLS
from lab.protocols.entry import CHECKS, Mutant

__all__ = ["CHECKS", "MUTANTS", "Mutant"]

MUTANTS: dict[str, dict[str, Mutant]] = {
    protocol.name: {mutant.name: mutant for mutant in protocol.mutants} for protocol in PROTOCOLS.values()
}
