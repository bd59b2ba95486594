"""The `lines` protocol: lines of text over TCP connections that stay open, `mode: poll` or `mode: push`.

wire (lines) → log (topics, positions, who got what) → broker; wire → client → publisher, subscriber.
Everything here is sans-I/O: bytes and times go in, actions, events and timers come out.
"""
