# An access log.

import os
import sys
import time


class Log:
    """A decorator that logs one line for each request of an application."""

    def __init__(self, output=None):
        # Standard output is not the default value, because it may be replaced later.
        self.output = output or sys.stdout

    def __call__(self, application):
        def logged(environ, start_response):
            result = application(environ, start_response)
            fields = (
                environ.get('REMOTE_ADDR', '-'), environ.get('HTTP_HOST', '-'),
                time.strftime('%d/%b/%Y:%H:%M:%S', time.gmtime()),
                environ.get('REQUEST_METHOD', '-'), environ.get('fapws.uri', '-'),
                environ.get('SERVER_PROTOCOL', '-'), start_response.status_code,
                content_size(result), environ.get('HTTP_REFERER', '-'),
                environ.get('HTTP_USER_AGENT', '-'))
            # A client must not be able to end a quoted field of the line with a quote.
            fields = tuple(str(field).replace('"', '%22') for field in fields)
            self.output.write('%s %s - [%s GMT] "%s %s %s" %s %s "%s" "%s"\n' % fields)
            self.output.flush()
            return result
        return logged


def content_size(result):
    """Returns the size of a list or file in bytes, or '-' if the size is not known yet."""
    if isinstance(result, (list, tuple)):
        return sum(len(item.encode('utf-8', 'surrogateescape') if isinstance(item, str)
                       else bytes(item)) for item in result
                   if isinstance(item, (str, bytes, bytearray, memoryview)))
    try:
        return os.fstat(result.fileno()).st_size
    except (AttributeError, OSError):
        return '-'
