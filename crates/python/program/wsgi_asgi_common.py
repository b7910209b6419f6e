# Code that WSGI and ASGI share: checks of header fields, the log, and processes that the
# application forks.

import _signal
import io
import os
import sys
from _thread import allocate_lock, get_ident, start_new_thread
from contextvars import ContextVar

HOP_BY_HOP_NAMES = frozenset((
    'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection',
    'te', 'trailer', 'trailers', 'transfer-encoding', 'upgrade'))
# The kinds of response header fields: ordinary ones, Content-Length, and hop-by-hop fields, which
# are not sent.
ORDINARY_FIELD, LENGTH_FIELD, DROPPED_FIELD = 0, 1, 2
TOKEN_CHARACTERS = ("!#$%&'*+-.^_`|~0123456789"
                    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz')
LENGTH_MAX_DIGITS = 18


def is_token(text):
    """Returns whether `text` is a token (RFC 9110, section 5.6.2)."""
    return text != '' and not text.strip(TOKEN_CHARACTERS)


def is_length(text):
    """Returns whether `text` is a valid Content-Length."""
    return text.isascii() and text.isdigit() and len(text) <= LENGTH_MAX_DIGITS


class ClientDisconnected(ConnectionResetError):
    """The client has disconnected: no request body can be read and no response can be sent."""


def is_caused_by_disconnect(error):
    """Returns whether an exception is ClientDisconnected, or was raised because of it."""
    depth = 0
    while error is not None and depth < EXCEPTION_CHAIN_MAX:
        if isinstance(error, ClientDisconnected):
            return True
        error = error.__cause__ or error.__context__
        depth += 1
    return False


def log(text):
    """Writes one line to standard error, which the server copies to its log."""
    try:
        sys.stderr.write(text + '\n')
        sys.stderr.flush()
    except Exception:
        pass  # Standard error is closed, so the line cannot be written anywhere.


def log_failed_accept(error):
    log('cannot accept a connection from the server (%s); trying again in %g s'
        % (describe_error(error), ACCEPT_RETRY_SECONDS))


def start_thread(function):
    """Starts a daemon thread, and waits until it runs.

    CPython 3.11 crashes if the interpreter exits while a thread has not begun to run.
    """
    is_running = allocate_lock()
    is_running.acquire()

    def run():
        is_running.release()
        function()

    start_new_thread(run, ())
    is_running.acquire()


# Identifies the request that the current thread or task processes: its X-Request-Id as a str, or
# the `headers` of its ASGI scope, in which the field is looked up only when it is needed.
request_id_context = ContextVar('request_id', default=None)
REQUEST_ID_MAX_CHARACTERS = 64


def current_request_id():
    """Returns the X-Request-Id of the current request, or None.

    The value comes from this server, from a proxy in front of it, or from the client. It is used
    only if it is safe to print in a log line.
    """
    request_id = request_id_context.get()
    if request_id is not None and not isinstance(request_id, str):
        values = [value for name, value in request_id if name == b'x-request-id']
        request_id = values[0].decode('latin-1') if values else None
    if (request_id and request_id.isascii() and request_id.isprintable()
            and not set(request_id) & set(' []')):
        return request_id[:REQUEST_ID_MAX_CHARACTERS]
    return None


class RequestLog(io.TextIOWrapper):
    """A standard stream that puts the current request's id in front of each line, in brackets."""

    is_at_line_start = True

    def write(self, text):
        request_id = current_request_id() if request_id_context.get() is not None else None
        prefixed = text
        if request_id is not None and text:
            prefix = '[%s] ' % request_id
            prefixed = text[:-1].replace('\n', '\n' + prefix) + text[-1]
            if self.is_at_line_start:
                prefixed = prefix + prefixed
        if text:
            self.is_at_line_start = text[-1] == '\n'
        super().write(prefixed)
        return len(text)


def wrap_in_request_log(stream):
    """Replaces a standard stream by a RequestLog. The original stream is no longer usable."""
    if type(stream) is not io.TextIOWrapper:
        return stream  # The stream is closed, or the interpreter uses another class.
    encoding, errors, write_through = stream.encoding, stream.errors, stream.write_through
    request_log = RequestLog(
        stream.detach(), encoding, errors, line_buffering=True, write_through=write_through)
    request_log.mode = 'w'
    return request_log


logged_names = set()


def log_dropped_field(name):
    """Logs, once for each name, that a field is dropped because only the server may send it."""
    if name not in logged_names:
        logged_names.add(name)
        log('dropping the response header %s: only the server may send it' % name)


def classify_field(name):
    """Returns the kind of a header field, and logs it if the field is dropped."""
    name = name.lower()
    if name == 'content-length':
        return LENGTH_FIELD
    if name not in HOP_BY_HOP_NAMES:
        return ORDINARY_FIELD
    log_dropped_field(name)
    return DROPPED_FIELD


def is_program_frame(frame):
    """Returns whether a stack frame belongs to this program, not to the application."""
    return frame.f_code.co_filename.startswith('<pinion/')


def log_stack(label, frames, request_id, detail=''):
    """Writes a stack trace to standard error.

    `frames` are pairs of a stack frame and a line number, with the outermost call first.
    `request_id` is a value for `request_id_context`, and `detail` is added to the message.
    """
    from traceback import StackSummary
    frames = [entry for entry in frames if not is_program_frame(entry[0])]
    text = ''.join(StackSummary.extract(frames).format())
    location = '. Current stack:\n' + text.rstrip() if text else ''
    reset_token = request_id_context.set(request_id)
    log('%s exceeded the time limit%s%s' % (label, detail, location))
    request_id_context.reset(reset_token)


# The signals that this process handles. A process that the application forks gets the default
# handlers back, and must not lose one of these signals before that.
HANDLED_SIGNALS = _signal.SIGTERM, _signal.SIGINT


def register_fork_hooks(close_in_fork):
    """Registers `close_in_fork` to be called in each process that the application forks.

    The signals above are blocked from the fork until then. Otherwise Python would lose a signal
    that the new process receives before its hooks run, and a `multiprocessing` pool would wait
    forever for its processes to end.
    """
    masks = {}

    def block_signals():
        masks[get_ident()] = _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED_SIGNALS)

    def restore_signals():
        mask = masks.pop(get_ident(), None)
        if mask is not None:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)

    def after_fork_in_child():
        try:
            close_in_fork()
        finally:
            restore_signals()

    os.register_at_fork(before=block_signals, after_in_parent=restore_signals,
                        after_in_child=after_fork_in_child)


def reset_signal_handlers():
    """Gives a forked process the handlers of a new one. Its fork hook must call this."""
    if sys.implementation.name == 'pypy':
        # PyPy knows only after the hooks that this thread is now the main thread.
        from __pypy__.thread import signals_enabled
    else:
        signals_enabled = memoryview(b'')  # A context manager that does nothing.
    with signals_enabled:
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def exit_forked_process(result):
    """Exits a forked process in which the application has returned. Atexit handlers do not run.

    `result` is the exception that the application has raised, if it is an exception.
    """
    status = 0
    if isinstance(result, SystemExit):
        if isinstance(result.code, int):
            status = result.code
        elif result.code is not None:
            log(str(result.code))
            status = 1
    elif isinstance(result, BaseException):
        print_traceback(result)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass  # The stream is closed.
    os._exit(status)
