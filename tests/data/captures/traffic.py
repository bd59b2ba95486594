"""Traffic on the loopback of a network namespace of its own, for make.sh: UDP, TCP, options, extensions, fragments."""

import socket

HOPS, ROUTER_ALERT = 54, b"\x94\x04\x00\x00"
EXTENSION = b"\x00\x00\x01\x04\x00\x00\x00\x00"  # padding only


def udp(family: int, address: str) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as server, socket.socket(family, socket.SOCK_DGRAM) as client:
        server.bind((address, 50001))
        client.bind((address, 50000))
        for size in (0, 1, 17, 60, 2500):  # the last in two fragments
            client.sendto(bytes(i % 251 for i in range(size)), (address, 50001))
        if family == socket.AF_INET:
            client.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, ROUTER_ALERT)
        else:
            client.setsockopt(socket.IPPROTO_IPV6, HOPS, EXTENSION)
            client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, EXTENSION)
        client.sendto(b"with options", (address, 50001))
        client.sendto(b"to nobody", (address, 50009))  # answered by ICMP


def tcp(family: int, address: str) -> None:
    with socket.socket(family) as server:
        server.bind((address, 50002))
        server.listen()
        with socket.create_connection((address, 50002)) as client:
            there, _ = server.accept()
            with there:
                client.sendall(b"m-producer1-7-9f3ab2c4 " * 8)
                there.recv(4096)
                there.sendall(b"and back")
                client.recv(4096)


for one in (udp, tcp):
    one(socket.AF_INET, "127.0.0.1")
    one(socket.AF_INET6, "::1")
