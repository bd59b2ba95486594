"""Protocol cores and what is known about each protocol. No sockets, no clocks, standard library only."""
