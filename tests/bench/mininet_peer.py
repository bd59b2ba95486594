"""The topology of a run in Mininet: two Linux bridges, a broker on both, N hosts on each side, a process a host.

Run by the interpreter that has Mininet; prints one JSON line. Stops what it started through Mininet's own API.
"""

import json
import sys
import time

from mininet.net import Mininet
from mininet.nodelib import LinuxBridge


def main(half):
    began = time.perf_counter()
    net = Mininet(switch=LinuxBridge, controller=None, autoSetMacs=True)
    sides = [net.addSwitch("s1"), net.addSwitch("s2")]
    broker = net.addHost("broker")
    for side in sides:
        net.addLink(broker, side)
    for number in range(half):
        for kind, side in (("p", sides[0]), ("c", sides[1])):
            net.addLink(net.addHost(f"{kind}{number + 1}"), side)
    net.start()
    running = [host.popen(["sleep", "300"]) for host in net.hosts]
    up = time.perf_counter() - began
    began = time.perf_counter()
    for process in running:
        process.kill()
        process.wait()
    net.stop()
    print(json.dumps({"up_s": up, "down_s": time.perf_counter() - began}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
