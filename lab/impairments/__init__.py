"""What the network does to packets: backends behind one small interface (apply, observe, clear).

Runs inside the fabric: standard library only, and the kernel's own tools.
"""
