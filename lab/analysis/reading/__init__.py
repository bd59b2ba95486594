"""Captures → rows of packets, for any capture file. Must not know of runs, nodes or protocols of the lab."""
