"""Runs a program, in this process, with sockets as a service manager passes them.

Arguments: one for each socket, `NAME=KIND`, then `--` and the program with its arguments. Sockets
are blocking, as those of `systemd-socket-activate` are; systemd makes them non-blocking.
"""

import fcntl
import os
import socket
import sys

FIRST = 3

# The address of the sockets that share one.
SHARED = ["127.0.0.1", 0]


def bound(kind, address):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    made = socket.socket(family, kind)
    made.bind(address)
    return made


def make(kind):
    """Returns the number of a descriptor of a kind:

    tcp, udp: a port of 127.0.0.1 that the kernel chooses
    silent: as tcp, without listen(2)
    reuseport: UDP, with others of the same port
    unix:PATH, seqpacket:PATH: a Unix socket
    stdin: the descriptor of standard input
    file: no socket
    """
    port = ("127.0.0.1", 0)
    name, _, path = kind.partition(":")
    if name == "stdin":
        return os.dup(0)
    if name == "file":
        return os.open("/dev/null", os.O_RDWR)
    if name == "udp":
        return bound(socket.SOCK_DGRAM, port).detach()
    if name == "reuseport":
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind(tuple(SHARED))
        SHARED[:] = made.getsockname()
        return made.detach()
    if name == "seqpacket":
        made = bound(socket.SOCK_SEQPACKET, path)
    elif name == "unix":
        made = bound(socket.SOCK_STREAM, path)
    else:
        assert name in ("tcp", "silent"), kind
        made = bound(socket.SOCK_STREAM, port)
    if name != "silent":
        made.listen(128)
    return made.detach()


def main():
    end = sys.argv.index("--")
    names, made = [], []
    for argument in sys.argv[1:end]:
        name, _, kind = argument.partition("=")
        names.append(name)
        # Far above those that they get in the end.
        made.append(fcntl.fcntl(make(kind), fcntl.F_DUPFD_CLOEXEC, 100))
    for number, descriptor in enumerate(made, FIRST):
        os.dup2(descriptor, number, inheritable=True)
    os.environ["LISTEN_PID"] = str(os.getpid())
    os.environ["LISTEN_FDS"] = str(len(made))
    os.environ["LISTEN_FDNAMES"] = ":".join(names)
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])


main()
