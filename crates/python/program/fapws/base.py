# The default module for `set_base_module()`: the classes of requests and responses. An application
# may replace them with its own.

import sys
from http.cookies import CookieError, SimpleCookie

from fapws import config

# The allowed methods; others get status 501. An application may append to this list.
supported_HTTP_command = ['GET', 'POST', 'HEAD', 'OPTIONS']


def get_status(code):
    """Returns a status for `start_response`: the code and the reason phrase."""
    from http import HTTPStatus
    return '%d %s' % (code, HTTPStatus(code).phrase)


class Environ(dict):
    """The environ of a request. Subclasses may override the methods."""

    def __init__(self, *arguments, **values):
        dict.__init__(self)
        self['fapws.params'] = {}

    def update_headers(self, data):
        dict.update(self, data)

    def update_uri(self, data):
        dict.update(self, data)

    def update_from_request(self, data):
        dict.update(self, data)


class Start_response:
    """The `start_response` argument of a callback.

    The head is sent after the callback has returned, so the callback can still change it after
    calling this object.
    """

    def __init__(self):
        self.status_code = '200'
        self.status_reasons = 'OK'
        self.response_headers = {}
        # The values of all Set-Cookie fields except the first one.
        self.more_cookies = []
        self.exc_info = None
        self.cookies = None
        self.sent = False

    def __call__(self, status, response_headers, exc_info=None):
        code, _, reason = str(status).partition(' ')
        self.status_code, self.status_reasons = code, reason
        self.exc_info = exc_info
        self.more_cookies = []
        has_cookie = False
        for name, value in response_headers:
            name, value = str(name), str(value)
            if name.lower() == 'set-cookie':
                if has_cookie:
                    self.more_cookies.append(value)
                    continue
                has_cookie = True
            self.response_headers[name] = value

    def add_header(self, name, value):
        """Sets a header field, replacing one of the same name."""
        self.remove_header(name)
        self.response_headers[str(name)] = str(value)

    def remove_header(self, name):
        """Removes a header field, ignoring the case of its name. Returns its value or None."""
        name = str(name).lower()
        for key in list(self.response_headers):
            if key.lower() == name:
                return self.response_headers.pop(key)
        return None

    def set_cookie(self, key, value='', max_age=None, expires=None, path='/', domain=None,
                   secure=None):
        if self.cookies is None:
            self.cookies = SimpleCookie()
        self.cookies[key] = value
        cookie = self.cookies[key]
        if max_age is not None:
            cookie['max-age'] = max_age
        if expires is not None:
            cookie['expires'] = cookie_date(expires)
        for name, attribute in (('path', path), ('domain', domain), ('secure', secure)):
            if attribute:
                cookie[name] = attribute

    def delete_cookie(self, key):
        """Makes the client delete a cookie."""
        self.set_cookie(key, max_age=0)


def cookie_date(expires):
    """Returns the expiry time of a cookie. A str is not changed; a datetime is local time."""
    if isinstance(expires, str):
        return expires
    if not hasattr(expires, 'timestamp'):
        raise CookieError('expires must be a datetime object or a string')
    from fapws._evwsgi import rfc1123_date
    return rfc1123_date(expires.timestamp())


def redirectStdErr():
    """Redirects standard error to a buffer, which `sys.stderr.getvalue()` returns."""
    import io
    sys.stderr = io.StringIO()


def split_len(seq, length):
    """Returns slices of a sequence, all of the given length except perhaps the last one."""
    return [seq[start:start + length] for start in range(0, len(seq), length)]


def parse_cookies(environ):
    """Returns the cookies of a request as a `SimpleCookie`, or None if there are none."""
    line = environ.get('HTTP_COOKIE')
    if not line:
        return None
    cookies = SimpleCookie()
    cookies.load(line)
    return cookies
