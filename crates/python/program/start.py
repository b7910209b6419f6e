# Starts the process: the command line, the listening socket, and which interface it has.

import os
import sys


# The flag of the code of `async def` (`inspect.CO_COROUTINE`).
CO_COROUTINE = 0x80


class Options:
    """The command line: --interface wsgi|asgi|auto [--folder F] [--threads N]
    [--processes N] [--factory] APPLICATION"""

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
        if self.interface not in ('wsgi', 'asgi', 'auto'):
            raise LoadError('there is no interface %s' % self.interface)
        self.application = arguments[0]
        # The application itself, if it had to be loaded to find its interface.
        self.loaded = None
        # Whether it has served requests while it was loaded, by the `run()` of fapws.
        self.has_served = False


def describe_process(interface, threads):
    """Returns the content of READY."""
    version = '.'.join([str(number) for number in sys.version_info[:3]])
    name = {'cpython': 'CPython', 'pypy': 'PyPy'}.get(sys.implementation.name, 'other')
    text = '{"interface": "%s", "threads": %d, "python": "%s", "implementation": "%s"}'
    return (text % (interface, threads, version, name)).encode()


def take_listener():
    """Returns a descriptor of the listening socket, which is 0, and puts /dev/null in its place."""
    listener = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    # A worker that gives its connection up must not block the accept.
    os.set_blocking(listener, False)
    return listener


def is_coroutine_function(function):
    """Whether calling `function` returns a coroutine; as `inspect`, which needs 1 MiB to import."""
    function = getattr(function, '__func__', function)
    # What marks a function that returns a coroutine and is no `async def`. An object may seem to
    # have any attribute, so they are looked for in its own ones.
    attributes = getattr(function, '__dict__', {})
    if '_is_coroutine_marker' in attributes or '_is_coroutine' in attributes:
        return True
    flags = getattr(getattr(function, '__code__', None), 'co_flags', 0)
    return isinstance(flags, int) and bool(flags & CO_COROUTINE)


def find_interface(application):
    """Returns the interface of an application, by what calling it returns."""
    # There is none if its module was not loaded.
    partial = getattr(sys.modules.get('functools'), 'partial', ())
    while isinstance(application, partial):
        application = application.func
    if is_coroutine_function(application):
        return 'asgi'
    return 'asgi' if is_coroutine_function(getattr(application, '__call__', None)) else 'wsgi'


def start_process():
    """Returns the options and the descriptor of the listening socket."""
    sys.stdout = sys.__stdout__ = make_request_log(sys.stdout)
    sys.stderr = sys.__stderr__ = make_request_log(sys.stderr)
    try:
        listener = take_listener()
        options = Options(sys.argv[1:])
    except LoadError as error:
        log('cannot start: %s' % error)
        sys.exit(1)
    except BaseException as error:
        print_traceback(error)
        sys.exit(1)
    return options, listener


def choose_interface():
    """Returns the interface, for which the application is loaded if it must be."""
    if options.interface != 'auto':
        return options.interface
    options.loaded = load_or_report(options)
    if options.loaded is None:
        sys.exit(1)
    return find_interface(options.loaded)


options, listener = start_process()
interface = choose_interface()
