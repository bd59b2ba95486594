"""The fabric: links, guard, taps, captures. Runs in a container of its own: standard library and scapy only."""
