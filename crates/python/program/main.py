# Starts the process: options, the application, the listening socket, the loop.

import os
import socket
import sys


# The file of this program, if it is no argument of `python3 -c`.
PROGRAM_PATH = '/dev/fd/3'


class Options:
    """The command line: --interface wsgi|asgi [--folder F] [--threads N] [--processes N]
    [--factory] APPLICATION"""

    def __init__(self, arguments):
        self.interface = 'wsgi'
        self.folder = '.'
        self.threads = 1
        self.processes = 1
        self.factory = False
        arguments = list(arguments)
        while arguments and arguments[0].startswith('--'):
            option = arguments.pop(0)
            if option == '--':
                break
            if option == '--factory':
                self.factory = True
            elif option in ('--interface', '--folder'):
                setattr(self, option[2:], arguments.pop(0))
            elif option in ('--threads', '--processes'):
                setattr(self, option[2:], int(arguments.pop(0)))
            else:
                raise LoadError('there is no option %s' % option)
        if len(arguments) != 1:
            raise LoadError('one application is needed, such as "module:callable"')
        self.application = arguments[0]


def describe_process(interface, threads):
    """Returns the content of READY."""
    version = '.'.join([str(number) for number in sys.version_info[:3]])
    name = {'cpython': 'CPython', 'pypy': 'PyPy'}.get(sys.implementation.name, 'other')
    text = '{"interface": "%s", "threads": %d, "python": "%s", "implementation": "%s"}'
    return (text % (interface, threads, version, name)).encode()


def take_listener():
    """Returns the listening socket, which is descriptor 0, and puts /dev/null in its place."""
    listener = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # A worker that gives its connection up must not block the accept.
    listener.setblocking(False)
    return listener


def main():
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(line_buffering=True)
    if sys.argv[0] == PROGRAM_PATH:
        os.close(3)
    try:
        listener = take_listener()
        options = Options(sys.argv[1:])
    except LoadError as error:
        log('cannot start: %s' % error)
        sys.exit(1)
    except BaseException as error:
        print_traceback(error)
        sys.exit(1)
    if options.interface == 'asgi':
        serve_asgi(options, listener)
    else:
        serve_wsgi(options, listener)


if __name__ == '__main__':
    main()
