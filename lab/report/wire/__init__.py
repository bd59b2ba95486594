"""A wire table for other eyes: Wireshark, scapy, a reader. Every text is made from the table and nothing else."""
