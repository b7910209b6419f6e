# What both interfaces need: the grammar of fields, exceptions, and the log.

import _signal
import io
import os
import sys
from _thread import get_ident
from contextvars import ContextVar

HOP_BY_HOP_NAMES = frozenset((
    'connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection',
    'te', 'trailer', 'trailers', 'transfer-encoding', 'upgrade'))
# What a field of a response is for its head: an ordinary one, the Content-Length, or one that is
# left out.
ORDINARY_FIELD, LENGTH_FIELD, DROPPED_FIELD = 0, 1, 2
TOKEN_CHARACTERS = ("!#$%&'*+-.^_`|~0123456789"
                    'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz')
LENGTH_MAX_DIGITS = 18


def is_token(text):
    """Whether `text` is a token of RFC 9110, section 5.6.2."""
    return text != '' and not text.strip(TOKEN_CHARACTERS)


def is_length(text):
    """Whether `text` is a Content-Length."""
    return text.isascii() and text.isdigit() and len(text) <= LENGTH_MAX_DIGITS


class ClientDisconnected(ConnectionResetError):
    """The client has left: its content cannot be read, and no response can be sent."""


def log(text):
    """Writes one line to standard error, which the server logs."""
    try:
        sys.stderr.write(text + '\n')
        sys.stderr.flush()
    except Exception:
        pass  # Standard error is closed: there is no place left to report it to.


# The id of the request that is run: a text, or the fields of ASGI to find it in.
running_id = ContextVar('running_id', default=None)
REQUEST_ID_MAX_CHARACTERS = 64


def find_request_id():
    """Returns the X-Request-Id of the request that is run, or None.

    The server has made it, or a proxy before the server has, or any client: only what can stand in
    a line is an id.
    """
    found = running_id.get()
    if found is not None and not isinstance(found, str):
        values = [value for name, value in found if name == b'x-request-id']
        found = values[0].decode('latin-1') if values else None
    if found and found.isascii() and found.isprintable() and not set(found) & set(' []'):
        return found[:REQUEST_ID_MAX_CHARACTERS]
    return None


class RequestLog(io.TextIOWrapper):
    """Standard output or error: lines that are written for a request with an id begin with it."""

    is_at_line_begin = True

    def write(self, text):
        number = find_request_id() if running_id.get() is not None else None
        written = text
        if number is not None and text:
            prefix = '[%s] ' % number
            written = text[:-1].replace('\n', '\n' + prefix) + text[-1]
            if self.is_at_line_begin:
                written = prefix + written
        if text:
            self.is_at_line_begin = text[-1] == '\n'
        super().write(written)
        return len(text)


def make_request_log(stream):
    """Returns what replaces a standard stream, which cannot be used any more."""
    if type(stream) is not io.TextIOWrapper:
        return stream  # It is closed, or the interpreter has another kind of streams.
    encoding, errors, write_through = stream.encoding, stream.errors, stream.write_through
    replaced = RequestLog(
        stream.detach(), encoding, errors, line_buffering=True, write_through=write_through)
    replaced.mode = 'w'
    return replaced


logged_names = set()


def log_dropped_field(name):
    """Logs, once for each name, that a field is not sent: the server alone sends such fields."""
    if name not in logged_names:
        logged_names.add(name)
        log('the application sends the field %s, which only a server may send: it is left out'
            % name)


def classify_field(name):
    """Returns what a field is by its name, and logs one that is left out."""
    name = name.lower()
    if name == 'content-length':
        return LENGTH_FIELD
    if name not in HOP_BY_HOP_NAMES:
        return ORDINARY_FIELD
    log_dropped_field(name)
    return DROPPED_FIELD


def is_own_frame(frame):
    """Whether a frame is one of this program."""
    return frame.f_code.co_filename.startswith('<pinion/')


def write_stack(label, frames, request_id, why=''):
    """Writes a stack to standard error: frames and their lines, from the outermost on.

    The id is one for `running_id`.
    """
    from traceback import StackSummary
    frames = [one for one in frames if not is_own_frame(one[0])]
    text = ''.join(StackSummary.extract(frames).format())
    here = '; it is here:\n' + text.rstrip() if text else ''
    running = running_id.set(request_id)
    log('%s: the request is over its time%s%s' % (label, why, here))
    running_id.reset(running)


# Signals whose handlers are not for processes that the application forks.
HANDLED_SIGNALS = _signal.SIGTERM, _signal.SIGINT


def register_for_forks(close_in_fork):
    """Has `close_in_fork` called in each process that the application forks.

    Until then these signals are blocked: Python forgets those that a new process gets before its
    hooks are called, and a pool of `multiprocessing` would wait without end for its processes.
    """
    masks = {}

    def block():
        masks[get_ident()] = _signal.pthread_sigmask(_signal.SIG_BLOCK, HANDLED_SIGNALS)

    def unblock():
        mask = masks.pop(get_ident(), None)
        if mask is not None:
            _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)

    def begin_fork():
        try:
            close_in_fork()
        finally:
            unblock()

    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=begin_fork)


def leave_forked_process(result):
    """Ends a forked process that has returned from the application, as a script would end."""
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
            pass  # It is closed.
    os._exit(status)
