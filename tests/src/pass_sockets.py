"""Replaces this process by a program that gets sockets like those of a service manager.

Arguments: `NAME=KIND` for each socket, then `--` and the program with its arguments. The sockets
are blocking, like those of `systemd-socket-activate`; systemd itself makes them non-blocking.
"""

import fcntl
import os
import socket
import sys

FIRST_DESCRIPTOR = 3

# The address of all sockets of the kind `reuseport`. The first one sets the port.
SHARED_ADDRESS = ["127.0.0.1", 0]


def bind_socket(kind, address):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    new_socket = socket.socket(family, kind)
    new_socket.bind(address)
    return new_socket


def create_descriptor(kind):
    """Creates a descriptor of one of these kinds, and returns its number:

    tcp, udp: a socket on a port of 127.0.0.1 that the kernel chooses
    silent: like tcp, but without a call of listen(2)
    reuseport: a UDP socket that shares its port with the others of this kind
    unix:PATH, seqpacket:PATH: a Unix socket
    stdin: a duplicate of standard input
    file: a file, which is not a socket
    """
    address = ("127.0.0.1", 0)
    name, _, path = kind.partition(":")
    if name == "stdin":
        return os.dup(0)
    if name == "file":
        return os.open("/dev/null", os.O_RDWR)
    if name == "udp":
        return bind_socket(socket.SOCK_DGRAM, address).detach()
    if name == "reuseport":
        new_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        new_socket.bind(tuple(SHARED_ADDRESS))
        SHARED_ADDRESS[:] = new_socket.getsockname()
        return new_socket.detach()
    if name == "seqpacket":
        new_socket = bind_socket(socket.SOCK_SEQPACKET, path)
    elif name == "unix":
        new_socket = bind_socket(socket.SOCK_STREAM, path)
    else:
        assert name in ("tcp", "silent"), kind
        new_socket = bind_socket(socket.SOCK_STREAM, address)
    if name != "silent":
        new_socket.listen(128)
    return new_socket.detach()


def main():
    end = sys.argv.index("--")
    names, descriptors = [], []
    for argument in sys.argv[1:end]:
        name, _, kind = argument.partition("=")
        names.append(name)
        # Far above the numbers that the descriptors get below.
        descriptors.append(fcntl.fcntl(create_descriptor(kind), fcntl.F_DUPFD_CLOEXEC, 100))
    for number, descriptor in enumerate(descriptors, FIRST_DESCRIPTOR):
        os.dup2(descriptor, number, inheritable=True)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(descriptors))
    os.environ["LISTEN_FDNAMES"] = ":".join(names)
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])


main()
