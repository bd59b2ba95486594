"""The `rooms` protocol: fixed 500-byte UDP datagrams, `arq: none` or `arq: sliding-window`.

wire (bytes) → arq (numbers, windows, repeats) → broker, client, publisher, subscriber (questions, answers).
Everything here is sans-I/O: bytes and times go in, bytes, events and timers come out.
"""
