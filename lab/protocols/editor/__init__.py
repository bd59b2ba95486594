"""The `editor` protocol: NUL-terminated strings over TCP, a connection a request, a storage server and a web service.

wire (bytes) → broker, publisher, subscriber; rpc → archive (the broker's end) and storage (over a disk);
http, soap → speaker (the subscriber's end) and words (over spelling, the only module that needs num2words).
Everything but disk and spelling is sans-I/O: bytes and times go in, bytes, actions, events and timers come out.
"""
