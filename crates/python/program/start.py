# Starts the process: parses the command line, takes over the listening socket, and determines
# whether the application uses WSGI or ASGI.

import os
import sys


# The flag that marks the code object of an `async def` function (`inspect.CO_COROUTINE`).
CO_COROUTINE = 0x80


class Options:
    """The parsed command line:

    --interface wsgi|asgi|auto [--folder F] [--threads N] [--processes N] [--factory] APPLICATION
    """

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
                raise LoadError('unknown option %s' % option)
        if len(arguments) != 1:
            raise LoadError('one application is needed, such as "module:callable"')
        if self.interface not in ('wsgi', 'asgi', 'auto'):
            raise LoadError('unknown interface %s' % self.interface)
        self.application = arguments[0]
        # The callable of the application, if it was loaded to detect its interface.
        self.loaded_application = None
        # Whether a fapws application has already served requests while it was imported, because it
        # calls `evwsgi.run()` itself.
        self.has_served = False


def describe_process(interface, threads):
    """Returns the payload of READY, a JSON object that describes this process."""
    version = '.'.join([str(number) for number in sys.version_info[:3]])
    name = {'cpython': 'CPython', 'pypy': 'PyPy'}.get(sys.implementation.name, 'other')
    text = '{"interface": "%s", "threads": %d, "python": "%s", "implementation": "%s"}'
    return (text % (interface, threads, version, name)).encode()


def take_listener():
    """Returns a copy of descriptor 0, the listening socket, and replaces 0 with /dev/null."""
    listener = os.dup(0)
    null_device = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_device, 0)
    os.close(null_device)
    # If a worker closes its connection before it is accepted, accept() must not block.
    os.set_blocking(listener, False)
    return listener


def is_coroutine_function(function):
    """Returns whether calling `function` returns a coroutine.

    `inspect.iscoroutinefunction` does the same, but importing `inspect` needs 1 MiB.
    """
    function = getattr(function, '__func__', function)
    # These attributes mark an ordinary function as a coroutine function. They are looked up in
    # `__dict__`, because an object with `__getattr__` may seem to have any attribute.
    attributes = getattr(function, '__dict__', {})
    if '_is_coroutine_marker' in attributes or '_is_coroutine' in attributes:
        return True
    flags = getattr(getattr(function, '__code__', None), 'co_flags', 0)
    return isinstance(flags, int) and bool(flags & CO_COROUTINE)


def detect_interface(application):
    """Returns 'asgi' if calling the application returns a coroutine, and 'wsgi' otherwise."""
    # If `functools` was not imported, the application cannot be a `functools.partial`.
    partial = getattr(sys.modules.get('functools'), 'partial', ())
    while isinstance(application, partial):
        application = application.func
    if is_coroutine_function(application):
        return 'asgi'
    return 'asgi' if is_coroutine_function(getattr(application, '__call__', None)) else 'wsgi'


def start_process():
    """Prepares the standard streams; returns the options and the listening socket's descriptor."""
    sys.stdout = sys.__stdout__ = wrap_in_request_log(sys.stdout)
    sys.stderr = sys.__stderr__ = wrap_in_request_log(sys.stderr)
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
    """Returns the interface to use. `--interface auto` loads the application to detect it."""
    if options.interface != 'auto':
        return options.interface
    options.loaded_application = load_or_report(options)
    if options.loaded_application is None:
        sys.exit(1)
    return detect_interface(options.loaded_application)


options, listener = start_process()
interface = choose_interface()
