# Files as responses.

import os
from email.utils import parsedate_to_datetime

from fapws._evwsgi import rfc1123_date


class Staticfile:
    """An application that serves the files of a folder, or one file.

    The path of a file is `rootpath` and, without anything between them, PATH_INFO.
    """

    def __init__(self, rootpath='', maxage=None):
        self.rootpath = rootpath
        # In seconds.
        self.maxage = maxage

    def __call__(self, environ, start_response):
        file = self.open(environ.get('PATH_INFO', ''))
        if file is None:
            start_response('404 Not Found', [
                ('Content-Type', 'text/plain'), ('Cache-Control', 'no-store')])
            return ['Not Found']
        status = os.fstat(file.fileno())
        tag = '"%x-%x"' % (status.st_mtime_ns, status.st_size)
        headers = [('ETag', tag), ('Last-Modified', rfc1123_date(status.st_mtime))]
        if self.maxage:
            headers.append(('Cache-Control', 'max-age=%d' % self.maxage))
        if is_fresh(environ, tag, int(status.st_mtime)):
            file.close()
            start_response('304 Not Modified', headers)
            return []
        headers.append(('Content-Type', media_type(file.name)))
        headers.append(('Content-Length', status.st_size))
        start_response('200 OK', headers)
        return file

    def open(self, path):
        """Returns the open file for PATH_INFO, or None."""
        if '..' in path.split('/') or '\0' in path:
            return None
        try:
            # PATH_INFO has a character for each byte (PEP 3333).
            path = os.fsdecode(path.encode('latin-1'))
            # Without a root, a path must not begin at that of the machine.
            path = self.rootpath + path if self.rootpath else path.lstrip('/')
            return open(path, 'rb') if os.path.isfile(path) else None
        except (OSError, ValueError):
            return None


def is_fresh(environ, tag, modified):
    """Whether the client has this content already (RFC 9110, section 13.2.2)."""
    known = environ.get('HTTP_IF_NONE_MATCH')
    if known is not None:
        tags = [one.strip() for one in known.split(',')]
        return '*' in tags or tag in [one[2:] if one[:2] == 'W/' else one for one in tags]
    since = environ.get('HTTP_IF_MODIFIED_SINCE')
    if since is None:
        return False
    try:
        return modified <= parsedate_to_datetime(since).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return False  # It is no date.


def media_type(path):
    import mimetypes
    kind, coding = mimetypes.guess_type(path)
    # A file that is compressed is what it is: it is not decompressed by the client.
    return kind if kind and not coding else 'application/octet-stream'
