"""What runs inside a node: one event loop around a protocol core. Standard library and lab.protocols only."""
