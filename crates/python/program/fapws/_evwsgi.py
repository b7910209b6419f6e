# The functions of fapws, with which an application registers callbacks, timers and deferred calls.
#
# The process provides the socket, the loop and the requests. The function `serve`, which is set
# before this module is executed, serves the registered callbacks.

import time

# The same limit as in fapws.
TIMERS_MAX = 10

DAYS = ('Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun')
MONTHS = ('Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec')

# The address that the application has passed to start(). It has no effect: the server listens on
# the addresses of its own configuration.
address = ('127.0.0.1', '8000')
base_module = None
# Tuples of a path prefix and a callback. The first prefix that matches is used.
registered = []
generic = None
debug = 0
timers = []
# Lists of a function and its argument, which is called when the process is idle. An item is removed
# after its call.
deferred = []
# Wakes the loop when a timer or deferred call is added. The loop sets it to a function.
wake = None


class error(Exception):
    """A function of this module was called with wrong arguments or in the wrong order."""


class Timer:
    """A function that is called every `delay` seconds."""

    def __init__(self, delay, function):
        self.delay = delay
        self.function = function
        self.is_stopped = False
        # The time of the next call, in seconds of the monotonic clock. None until the process that
        # calls timers has started the timer.
        self.due = None


def start(host, port):
    global address
    if not isinstance(host, str) or not isinstance(port, str):
        raise error('start() needs the host and the port, two strings')
    address = (host, port)


def set_base_module(module):
    global base_module
    for name in ('Environ', 'Start_response', 'config', 'supported_HTTP_command'):
        if not hasattr(module, name):
            raise error('the base module has no "%s"' % name)
    base_module = module
    del registered[:]


def wsgi_cb(callback):
    if base_module is None:
        raise error('Base module not set')
    prefix, application = callback
    if not isinstance(prefix, str) or not callable(application):
        raise error('wsgi_cb() needs a tuple of a path and an application')
    registered.append((prefix, application))


def wsgi_gen_cb(application):
    global generic
    generic = application


def run():
    if base_module is None:
        raise error('Base module not set')
    serve()


def add_timer(delay, function):
    delay = float(delay)
    if not delay >= 0:
        raise error('the delay must not be negative')
    if len(timers) < TIMERS_MAX:
        timers.append(Timer(delay, function))
        if wake is not None:
            wake()
    else:
        print('Limit of maximum %d timers has been reached' % TIMERS_MAX)
    return len(timers)


def find_timer(index):
    if not 0 <= index < len(timers):
        raise error('there is no timer %r: the first one is 0' % (index,))
    return timers[index]


def stop_timer(index):
    find_timer(index).is_stopped = True


def restart_timer(index):
    timer = find_timer(index)
    timer.is_stopped = False
    timer.due = None
    if wake is not None:
        wake()


def defer(function, argument, combined):
    call = [function, argument]
    if combined is True and call in deferred:
        return
    deferred.append(call)
    if wake is not None:
        wake()


def defer_queue_size():
    return len(deferred) or None


def parse_query(text):
    """Returns a dict from names to lists of values."""
    from urllib.parse import unquote_plus
    values = {}
    for pair in text.split('&'):
        if pair:
            name, _, value = pair.partition('=')
            values.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return values


def rfc1123_date(seconds):
    """Returns a time in the format of HTTP dates. `time.strftime` would use the user's locale."""
    date = time.gmtime(seconds)
    return '%s, %02d %s %04d %02d:%02d:%02d GMT' % (
        DAYS[date.tm_wday], date.tm_mday, MONTHS[date.tm_mon - 1], date.tm_year, date.tm_hour,
        date.tm_min, date.tm_sec)


def set_debug(level):
    global debug
    debug = int(level)


def get_debug():
    return debug


def libev_version():
    """Returns 0, 0, because there is no libev."""
    return 0, 0


def socket_fd():
    """Returns -1, because only the server has the socket on which clients connect."""
    return -1
