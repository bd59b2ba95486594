"""The relay: a process of its own that forwards the frames of opened links, and does to them what it is told.

It runs beside the fabric: standard library only. Everything in it that decides is free of sockets and clocks.
"""
