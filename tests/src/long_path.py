"""Two network namespaces with a long path between them, which carries nothing but packets of IP.

python3 long_path.py [--delay-ms N] [--jitter-ms N] [--loss PER_MILLE] [--rate-mbit N]
                     [--queue-ms N] [--seed N]

The server side has the address 10.9.0.1, the client side 10.9.0.2. It prints a line with the files
of both namespaces, `SERVER CLIENT`, for `nsenter --net=FILE`, and ends when stdin does. For each
line on stdin it prints `TRIPS BYTES`: round trips in which the client sent data since the previous
line, and bytes of its packets.

With a rate, each direction is a link of that many Mbit/s with a queue in front of it: packets that
would wait longer than --queue-ms for the link are lost. The default is that of usual routers.

Without a delay the path has no clock. Packets travel in turns: all of the client's, until it has no
more to send, then all of the server's. A turn of each is a round trip, however busy the machine is.
TCP sends by the windows of Reno (RFC 5681), which has no clock either.
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
# A packet with less than that has no data worth a round trip, but acknowledges some.
DATA_MIN_BYTES = 400
# A side that has sent nothing for so long waits for the other one: longer than a busy machine lets
# a client wait that has more to send.
QUIET_SECONDS = 0.1
# Packets that wait on one side; more are lost, as in the queue of a router.
QUEUE_MAX_PACKETS = 20_000
QUEUE_MS = 100


def request(name, value):
    """A struct ifreq."""
    return name.encode().ljust(16, b"\0") + value.ljust(24, b"\0")


def up(control, name, address=None):
    """Sets the address of an interface, and starts it."""
    if address:
        for call, text in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, MASK)):
            value = struct.pack("=HH4s", socket.AF_INET, 0, socket.inet_aton(text))
            fcntl.ioctl(control, call, request(name, value))
    # The queue between the kernel and this program has space for 500 packets by default; a window
    # that opens in one step is longer, and its end would be lost.
    fcntl.ioctl(control, SIOCSIFTXQLEN, request(name, struct.pack("=i", QUEUE_MAX_PACKETS)))
    fcntl.ioctl(control, SIOCSIFFLAGS, request(name, struct.pack("=h", IFF_UP | IFF_RUNNING)))


def side(address):
    """Starts a process in a namespace of its own; returns its ID and the device of its packets."""
    ours, theirs = socket.socketpair()
    process = os.fork()
    if process == 0:
        ours.close()
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            sys.exit("cannot make a network namespace: " + os.strerror(ctypes.get_errno()))
        # Others send by the clock (BBR), or leave slow start because of it (CUBIC).
        with open("/proc/sys/net/ipv4/tcp_congestion_control", "w") as control:
            control.write("reno")
        tunnel = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(tunnel, TUNSETIFF, request("path", struct.pack("=H", IFF_TUN | IFF_NO_PI)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            up(control, "lo")
            up(control, "path", address)
        socket.send_fds(theirs, [b"."], [tunnel])
        os.close(tunnel)
        # The process keeps the namespace until the path ends.
        theirs.recv(1)
        os._exit(0)
    theirs.close()
    _, files, _, _ = socket.recv_fds(ours, 1, 1)
    if not files:
        sys.exit(1)
    os.set_blocking(files[0], False)
    return process, files[0], ours


class Path:
    def __init__(self, options, client, server):
        self.options, self.client, self.server = options, client, server
        self.random = random.Random(options.seed)
        self.trips = self.bytes = 0

    def read(self, source):
        """Returns the next packet, unless there is none or it is lost."""
        try:
            packet = os.read(source, PACKET_MAX_BYTES)
        except BlockingIOError:
            return None
        if source == self.client:
            self.bytes += len(packet)
        return packet

    def write(self, target, packet):
        if self.random.randrange(1000) < self.options.loss:
            return
        try:
            os.write(target, packet)
        except (BlockingIOError, OSError):
            pass  # The queue is full, or the side has gone: the packet is lost.

    def answers(self, ready):
        """Prints the counts if they are requested. Returns whether stdin is open."""
        if sys.stdin.fileno() in ready:
            if not os.read(sys.stdin.fileno(), 1):
                return False
            print(self.trips, self.bytes, flush=True)
            self.trips = self.bytes = 0
        return True

    def turn(self, source, target):
        """Forwards all packets of one side; returns whether there was data."""
        has_data, packets = False, []
        while select.select([source], [], [], QUIET_SECONDS)[0]:
            while (packet := self.read(source)) is not None:
                has_data |= len(packet) >= DATA_MIN_BYTES
                packets.append(packet)
        for packet in packets[:QUEUE_MAX_PACKETS]:
            self.write(target, packet)
        return has_data

    def in_turns(self):
        watched = [sys.stdin.fileno(), self.client, self.server]
        while self.answers(ready := select.select(watched, [], [])[0]):
            if self.client in ready or self.server in ready:
                self.trips += self.turn(self.client, self.server)
                self.turn(self.server, self.client)

    def with_delay(self):
        """Delivers each packet at its time, in the order in which the packets were sent."""
        delay, jitter = self.options.delay_ms / 1000, self.options.jitter_ms / 1000
        waiting, number, last = [], 0, {self.client: 0.0, self.server: 0.0}
        bytes_per_second = self.options.rate_mbit * 125_000
        queue_seconds = self.options.queue_ms / 1000
        free = dict(last)
        watched = [sys.stdin.fileno(), self.client, self.server]
        while True:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, target, packet = heapq.heappop(waiting)
                self.write(target, packet)
            timeout = max(0, waiting[0][0] - now) if waiting else None
            ready = select.select(watched, [], [], timeout)[0]
            if not self.answers(ready):
                return
            now = time.monotonic()
            for source, target in ((self.client, self.server), (self.server, self.client)):
                if source not in ready:
                    continue
                while (packet := self.read(source)) is not None:
                    sent = now
                    if bytes_per_second:
                        if free[source] > now + queue_seconds:
                            continue  # The queue is full.
                        free[source] = max(free[source], now) + len(packet) / bytes_per_second
                        sent = free[source]
                    due = sent + delay / 2 + self.random.uniform(0, jitter)
                    due = last[source] = max(due, last[source])
                    number += 1
                    if len(waiting) < QUEUE_MAX_PACKETS:
                        heapq.heappush(waiting, (due, number, target, packet))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--jitter-ms", type=float, default=0)
    parser.add_argument("--loss", type=int, default=0)
    parser.add_argument("--rate-mbit", type=float, default=0)
    parser.add_argument("--queue-ms", type=float, default=QUEUE_MS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sides = [side(SERVER), side(CLIENT)]
    try:
        print(*(f"/proc/{process}/ns/net" for process, _, _ in sides), flush=True)
        path = Path(options, client=sides[1][1], server=sides[0][1])
        path.with_delay() if options.delay_ms else path.in_turns()
    finally:
        for process, _, _ in sides:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


if __name__ == "__main__":
    main()
