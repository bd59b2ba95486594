#!/bin/sh
# Makes the captures of this folder anew, as root: sh make.sh. Needs tcpdump, tshark, iproute2, python3.
# Addresses, ports and times differ from one making to the next; then freeze tshark's answers again (see README.md).
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
if [ "${1:-}" != inside ]; then
  work=$(mktemp -d)
  unshare -n sh "$here/make.sh" inside "$work"
  rm -f "$here"/*.pcap "$here"/*.pcapng "$here"/*.gz
  mv "$work"/*.pcap "$work"/*.pcapng "$work"/*.gz "$here"
  rm -r "$work"
  exit
fi
cd "$2"
ip link set lo up mtu 1500

# Taps of all kinds on the same traffic. Each says "listening" once it hears.
mkdir logs
tcpdump -Z root -U -n -i lo --time-stamp-precision=nano -w ethernet-ns.pcap 2>logs/1 & p1=$!
tcpdump -Z root -U -n -i any -y LINUX_SLL -w cooked-1.pcap 2>logs/2 & p2=$!
tcpdump -Z root -U -n -i any -y LINUX_SLL2 -w cooked-2.pcap 2>logs/3 & p3=$!
tcpdump -Z root -U -n -i lo -s 60 -w short.pcap 2>logs/4 & p4=$!
until [ "$(cat logs/* | grep -c 'listening on')" = 4 ]; do sleep 0.1; done
python3 "$here/traffic.py"
sleep 1
kill -INT $p1 $p2 $p3 $p4
wait $p1 $p2 $p3 $p4 || true

# Other forms of the same packets.
editcap -F pcap ethernet-ns.pcap ethernet-us.pcap
editcap -F pcapng ethernet-ns.pcap plain.pcapng
echo 'CLIENT_RANDOM 00 00' >keys.txt
editcap --inject-secrets tls,keys.txt -a 3:'a comment on frame 3' plain.pcapng comments.pcapng
mergecap -F pcapng -w merged.pcapng ethernet-us.pcap cooked-2.pcap
cat plain.pcapng merged.pcapng >sections.pcapng
editcap -F pcap -L -C 14 -T rawip ethernet-us.pcap raw-101.pcap
tshark -r ethernet-us.pcap -Y ip -w four.cap -F pcap
tshark -r ethernet-us.pcap -Y ipv6 -w six.cap -F pcap
editcap -F pcap -L -C 14 -T rawip4 four.cap raw-228.pcap
editcap -F pcap -L -C 14 -T rawip6 six.cap raw-229.pcap
python3 "$here/odd.py" .
text2pcap -q -F pcap -l 0 null.txt null.pcap
text2pcap -q -F pcap -l 108 loop.txt loop.pcap
text2pcap -q -F pcap -l 1 vlan.txt vlan.pcap
gzip -9kn ethernet-us.pcap plain.pcapng
head -c 3000 ethernet-us.pcap | gzip -9n >members.pcap.gz
tail -c +3001 ethernet-us.pcap | gzip -9n >>members.pcap.gz
