"""The `topics` protocol: fixed 1400-byte UDP datagrams, `arq: none` or `arq: go-back-n`, long messages in pieces.

What it has in common with `rooms` is in lab/protocols/fixed; here are its types, its words and what a request means.
"""
