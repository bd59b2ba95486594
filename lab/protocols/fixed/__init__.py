"""What `rooms` and `topics` have in common: datagrams of one fixed size that hold a type, a sequence number, a number
and a text; each is acknowledged by itself with only its type changed, and every request is answered by an outcome.

wire (bytes) → link, selective, gobackn (numbers, windows, repeats, long messages) → client, publisher, broker.
Everything here is sans-I/O; a protocol adds its types, its words and what a request means.
"""
