"""Creates two network namespaces and forwards IP packets between them, with a long delay if needed.

python3 long_path.py [--delay-ms N] [--jitter-ms N] [--loss PER_MILLE] [--rate-mbit N]
                     [--queue-ms N] [--seed N]

The server side has the address 10.9.0.1, and the client side 10.9.0.2. The script prints a line
`SERVER CLIENT` with the files of both namespaces, for `nsenter --net=FILE`, and ends when stdin is
closed. For each line on stdin it prints `TRIPS BYTES`: the number of round trips in which the
client has sent data since the previous line, and the number of bytes in its packets.

With --rate-mbit, each direction is a link of that rate with a queue in front of it. Packets that
would wait in the queue for longer than --queue-ms are lost. The default is typical for routers.

Without --delay-ms, the path does not depend on a clock. Packets travel in turns: all packets of the
client until it has no more to send, then all packets of the server. One turn of each side is a
round trip, however busy the machine is. TCP uses Reno (RFC 5681), which has no clock either.
"""

import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import sys
import time

# linux/sched.h, linux/if_tun.h, linux/sockios.h, linux/if.h
CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
SIOCSIFADDR, SIOCSIFNETMASK, SIOCSIFFLAGS, SIOCSIFTXQLEN = 0x8916, 0x891C, 0x8914, 0x8943
IFF_UP, IFF_RUNNING = 0x1, 0x40

SERVER, CLIENT, MASK = "10.9.0.1", "10.9.0.2", "255.255.255.0"
PACKET_MAX_BYTES = 65536
# A smaller packet carries no data that counts as a round trip, only acknowledgements.
DATA_MIN_BYTES = 400
# A side that has sent nothing for this time is waiting for the other side. On a busy machine, a
# client that still has data to send pauses for less than this.
QUIET_SECONDS = 0.1
# The maximum number of packets that wait on one side. Further ones are lost, as in a router.
QUEUE_MAX_PACKETS = 20_000
QUEUE_MS = 100


def encode_ifreq(name, value):
    """Returns a struct ifreq."""
    return name.encode().ljust(16, b"\0") + value.ljust(24, b"\0")


def start_interface(control, name, address=None):
    """Sets the address of a network interface, and brings it up."""
    if address:
        for call, text in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, MASK)):
            value = struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(text))
            fcntl.ioctl(control, call, encode_ifreq(name, value))
    # By default the queue between the kernel and this program holds 500 packets. If a congestion
    # window opens in one step, more packets are sent at once, and the last ones would be lost.
    fcntl.ioctl(control, SIOCSIFTXQLEN, encode_ifreq(name, struct.pack("=i", QUEUE_MAX_PACKETS)))
    fcntl.ioctl(control, SIOCSIFFLAGS, encode_ifreq(name, struct.pack("=h", IFF_UP | IFF_RUNNING)))


def start_side(address):
    """Starts a process in a new network namespace.

    Returns the process ID, the descriptor of the TUN device that carries the packets, and a socket
    that keeps the process alive.
    """
    parent_socket, child_socket = socket.socketpair()
    process = os.fork()
    if process == 0:
        parent_socket.close()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            sys.exit("cannot make a network namespace: " + os.strerror(ctypes.get_errno()))
        # Other algorithms use a clock for sending (BBR) or for leaving slow start (CUBIC).
        with open("/proc/sys/net/ipv4/tcp_congestion_control", "w") as control:
            control.write("reno")
        tunnel = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tunnel, TUNSETIFF, encode_ifreq("path", struct.pack("=H", IFF_TUN | IFF_NO_PI)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            start_interface(control, "lo")
            start_interface(control, "path", address)
        socket.send_fds(child_socket, [b"."], [tunnel])
        os.close(tunnel)
        # The process keeps the namespace alive until the parent closes its socket.
        child_socket.recv(1)
        os._exit(0)
    child_socket.close()
    _, descriptors, _, _ = socket.recv_fds(parent_socket, 1, 1)
    if not descriptors:
        sys.exit(1)
    os.set_blocking(descriptors[0], False)
    return process, descriptors[0], parent_socket


class NetworkPath:
    def __init__(self, options, client, server):
        self.options, self.client, self.server = options, client, server
        self.random = random.Random(options.seed)
        self.trips = self.bytes = 0

    def read(self, source):
        """Returns the next packet, or None if there is none."""
        try:
            packet = os.read(source, PACKET_MAX_BYTES)
        except BlockingIOError:
            return None
        if source == self.client:
            self.bytes += len(packet)
        return packet

    def write(self, target, packet):
        """Sends a packet, unless it is chosen to be lost."""
        if self.random.randrange(1000) < self.options.loss:
            return
        try:
            os.write(target, packet)
        except (BlockingIOError, OSError):
            pass  # The queue is full, or the side has ended: the packet is lost.

    def process_command(self, ready):
        """Prints the counts if stdin has a line. Returns False if stdin is closed."""
        if sys.stdin.fileno() in ready:
            if not os.read(sys.stdin.fileno(), 1):
                return False
            print(self.trips, self.bytes, flush=True)
            self.trips = self.bytes = 0
        return True

    def forward_packets(self, source, target):
        """Forwards all packets of one side. Returns whether any of them carried data."""
        has_data, packets = False, []
        while select.select([source], [], [], QUIET_SECONDS)[0]:
            while (packet := self.read(source)) is not None:
                has_data |= len(packet) >= DATA_MIN_BYTES
                packets.append(packet)
        for packet in packets[:QUEUE_MAX_PACKETS]:
            self.write(target, packet)
        return has_data

    def run_in_turns(self):
        """Forwards packets without a clock until stdin is closed."""
        watched = [sys.stdin.fileno(), self.client, self.server]
        while self.process_command(ready := select.select(watched, [], [])[0]):
            if self.client in ready or self.server in ready:
                self.trips += self.forward_packets(self.client, self.server)
                self.forward_packets(self.server, self.client)

    def run_with_delay(self):
        """Delivers each packet at its due time. Packets never overtake each other."""
        delay, jitter = self.options.delay_ms / 1000, self.options.jitter_ms / 1000
        queued_packets, number, last_due_at = [], 0, {self.client: 0.0, self.server: 0.0}
        bytes_per_second = self.options.rate_mbit * 125_000
        queue_seconds = self.options.queue_ms / 1000
        link_free_at = dict(last_due_at)
        watched = [sys.stdin.fileno(), self.client, self.server]
        while True:
            now = time.monotonic()
            while queued_packets and queued_packets[0][0] <= now:
                _, _, target, packet = heapq.heappop(queued_packets)
                self.write(target, packet)
            timeout = max(0, queued_packets[0][0] - now) if queued_packets else None
            ready = select.select(watched, [], [], timeout)[0]
            if not self.process_command(ready):
                return
            now = time.monotonic()
            for source, target in ((self.client, self.server), (self.server, self.client)):
                if source not in ready:
                    continue
                while (packet := self.read(source)) is not None:
                    sent_at = now
                    if bytes_per_second:
                        if link_free_at[source] > now + queue_seconds:
                            continue  # The queue is full.
                        start = max(link_free_at[source], now)
                        link_free_at[source] = start + len(packet) / bytes_per_second
                        sent_at = link_free_at[source]
                    due_at = sent_at + delay / 2 + self.random.uniform(0, jitter)
                    due_at = last_due_at[source] = max(due_at, last_due_at[source])
                    number += 1
                    if len(queued_packets) < QUEUE_MAX_PACKETS:
                        heapq.heappush(queued_packets, (due_at, number, target, packet))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--jitter-ms", type=float, default=0)
    parser.add_argument("--loss", type=int, default=0)
    parser.add_argument("--rate-mbit", type=float, default=0)
    parser.add_argument("--queue-ms", type=float, default=QUEUE_MS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sides = [start_side(SERVER), start_side(CLIENT)]
    try:
        print(*(f"/proc/{process}/ns/net" for process, _, _ in sides), flush=True)
        network_path = NetworkPath(options, client=sides[1][1], server=sides[0][1])
        network_path.run_with_delay() if options.delay_ms else network_path.run_in_turns()
    finally:
        for process, _, _ in sides:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


if __name__ == "__main__":
    main()
