# Responses that are files.

import os
from email.utils import parsedate_to_datetime

from fapws._evwsgi import rfc1123_date


class Staticfile:
    """An application that serves the files of a folder, or one file.

    The path of the file is `rootpath` immediately followed by PATH_INFO, without a separator.
    """

    def __init__(self, rootpath='', maxage=None):
        self.rootpath = rootpath
        # The value of max-age, in seconds.
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
        if is_not_modified(environ, tag, int(status.st_mtime)):
            file.close()
            start_response('304 Not Modified', headers)
            return []
        headers.append(('Content-Type', media_type(file.name)))
        headers.append(('Content-Length', status.st_size))
        start_response('200 OK', headers)
        return file

    def open(self, path):
        """Opens the file that PATH_INFO names. Returns None if it does not exist."""
        if '..' in path.split('/') or '\0' in path:
            return None
        if path and '/' not in (path[0], self.rootpath[-1:] or '/'):
            return None  # The callback for /static was called for /static-other.
        try:
            # Each character of PATH_INFO represents one byte (PEP 3333).
            path = os.fsdecode(path.encode('latin-1'))
            # Without `rootpath` the path is relative, so it never starts at the root folder.
            path = self.rootpath + path if self.rootpath else path.lstrip('/')
            return open(path, 'rb') if os.path.isfile(path) else None
        except (OSError, ValueError):
            return None


def is_not_modified(environ, tag, modified):
    """Returns whether the client has the current version of the file (RFC 9110, section 13.2.2)."""
    if_none_match = environ.get('HTTP_IF_NONE_MATCH')
    if if_none_match is not None:
        tags = [entity_tag.strip() for entity_tag in if_none_match.split(',')]
        strong_tags = [entity_tag[2:] if entity_tag[:2] == 'W/' else entity_tag
                       for entity_tag in tags]
        return '*' in tags or tag in strong_tags
    if_modified_since = environ.get('HTTP_IF_MODIFIED_SINCE')
    if if_modified_since is None:
        return False
    try:
        return modified <= parsedate_to_datetime(if_modified_since).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return False  # The value is not a valid date.


def media_type(path):
    import mimetypes
    guessed_type, coding = mimetypes.guess_type(path)
    # The file is sent without Content-Encoding, so the type of its decompressed content is wrong.
    return guessed_type if guessed_type and not coding else 'application/octet-stream'
