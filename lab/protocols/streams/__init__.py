"""The `streams` protocol: video, audio and text behind a 5-byte UDP header.

wire (bytes) → critical (what is repeated until it is confirmed), parts (what is longer than a datagram) → broker,
producer, consumer. media makes what is streamed, recorder the files of it. Everything here is sans-I/O: bytes and
times go in, bytes, events and timers come out.
"""
