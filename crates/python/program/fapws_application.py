# The WSGI application that calls what was registered with the functions of fapws.

import io
import traceback
from html import escape
from urllib.parse import quote

# Most bytes and fields of a form that become `fapws.params`.
FORM_MAX_BYTES = 1024 * 1024
FORM_MAX_FIELDS = 10000
FORM_TYPE = 'application/x-www-form-urlencoded'
PAGE = ('<!DOCTYPE html><html><head><title>%s</title></head><body><p>%s</p></body></html>')


class FapwsApplication:
    """Calls the application whose prefix the path has, with the classes of the base module."""

    def __init__(self, evwsgi):
        self.evwsgi = evwsgi
        # The FapwsServer.
        self.server = None

    def __call__(self, server_environ, start_response):
        evwsgi, base = self.evwsgi, self.evwsgi.base_module
        method = server_environ['REQUEST_METHOD']
        methods = base.supported_HTTP_command
        if method not in methods:
            return send_page(start_response, '501 Not Implemented', 'Not Implemented')
        if method == 'OPTIONS':
            start_response('200 OK', [('Allow', ', '.join(methods)), ('Content-Length', '0')])
            return []
        path = server_environ.get('PATH_INFO', '')
        prefix, application = self.find(path)
        if application is None:
            return send_page(start_response, '404 Not Found', 'Page not found')
        try:
            environ = base.Environ()
            own_input = environ.get('wsgi.input')
            environ.update(server_environ)
            environ.update_headers(describe_headers(server_environ))
            environ.update_uri(self.describe_uri(server_environ, prefix, path))
            if not self.add_content(environ, own_input):
                return send_page(start_response, '413 Content Too Large', 'Content Too Large')
            environ.update_from_request(describe_client(server_environ))
            response = base.Start_response()
            items = open_result(application(environ, response))
        except Exception as error:
            if self.server.is_forked or isinstance(error, ClientDisconnected):
                raise
            return self.send_failure(error, start_response, method, path)
        status, headers = encode_response(response)
        start_response(status, headers)
        return items

    def find(self, path):
        for prefix, application in self.evwsgi.registered:
            if path.startswith(prefix):
                return prefix, application
        return '', self.evwsgi.generic

    def describe_uri(self, environ, prefix, path):
        query = environ.get('QUERY_STRING', '')
        return {
            'SERVER_NAME': environ['SERVER_NAME'],
            'SERVER_PORT': environ['SERVER_PORT'],
            'SCRIPT_NAME': environ.get('SCRIPT_NAME', '') + prefix,
            'PATH_INFO': path[len(prefix):],
            'QUERY_STRING': query,
            'fapws.params': self.evwsgi.parse_query(query) if query else {},
        }

    def add_content(self, environ, own_input):
        """Sets what there is about the content. Returns whether it is not too large.

        `own_input` is the `wsgi.input` that the base module has made.
        """
        length, kind = environ.get('CONTENT_LENGTH'), environ.get('CONTENT_TYPE')
        if kind:
            environ['HTTP_CONTENT_TYPE'] = kind
        if not length:
            return True
        environ['HTTP_CONTENT_LENGTH'] = length
        # A number, so that `read(environ['CONTENT_LENGTH'])` works.
        length = environ['CONTENT_LENGTH'] = int(length)
        content = environ['wsgi.input']
        if kind and kind.lower().startswith(FORM_TYPE):
            if length > FORM_MAX_BYTES:
                return False
            data = content.read()
            if data.count(b'&') >= FORM_MAX_FIELDS:
                return False
            environ['fapws.params'] = self.evwsgi.parse_query(data.decode('utf-8', 'replace'))
            content = io.BytesIO(data)
        if own_input is not None and not isinstance(own_input, io.IOBase):
            # It keeps the content in its own way, such as files that were uploaded.
            for piece in iter(lambda: content.read(PIECE_MAX_BYTES), b''):
                own_input.write(piece)
            own_input.seek(0)
            content = own_input
        environ['wsgi.input'] = content
        return True

    def send_failure(self, error, start_response, method, path):
        log('%s %s: the application has failed' % (method, path))
        print_traceback(error)
        config = self.evwsgi.base_module.config
        text = config.send_traceback_short
        if config.send_traceback_to_browser:
            lines = traceback.format_exception(type(error), error, error.__traceback__)
            text = '<h1>Error</h1><pre>%s</pre>' % escape(''.join(lines))
        error.__traceback__ = None
        start_response('500 Internal Server Error', [
            ('Content-Type', 'text/html; charset=utf-8'), ('Cache-Control', 'no-store')])
        return [text.encode('utf-8', 'replace')]


def send_page(start_response, status, text):
    start_response(status, [('Content-Type', 'text/html'), ('Cache-Control', 'no-store')])
    return [(PAGE % (text, text)).encode()]


def describe_headers(environ):
    """Returns what fapws makes of the head of a request."""
    path = environ.get('SCRIPT_NAME', '') + environ.get('PATH_INFO', '')
    query = environ.get('QUERY_STRING', '')
    uri = quote(path.encode('latin-1'), "/!$&'()*+,:;=@~") + ('?' + query if query else '')
    protocol = environ.get('SERVER_PROTOCOL', 'HTTP/1.1')
    fields = {name: value for name, value in environ.items() if name.startswith('HTTP_')}
    lines = ['%s %s %s' % (environ['REQUEST_METHOD'], uri, protocol)]
    lines += ['%s: %s' % (name[5:].replace('_', '-').title(), fields[name]) for name in fields]
    return dict(fields, **{
        'REQUEST_METHOD': environ['REQUEST_METHOD'],
        'QUERY_STRING': query,
        'SERVER_PROTOCOL': protocol,
        'REQUEST_PROTOCOL': protocol,
        'fapws.uri': uri,
        'fapws.major_minor': protocol.partition('/')[2],
        'fapws.raw_header': '\r\n'.join(lines) + '\r\n\r\n',
    })


def describe_client(environ):
    address = environ.get('REMOTE_ADDR', '')
    port = environ.get('REMOTE_PORT', '')
    return {
        'REMOTE_ADDR': address,
        'fapws.remote_addr': address,
        'fapws.remote_port': int(port) if port.isdigit() else 0,
        'fapws.socket_fd': -1,
    }


def encode_response(response):
    """Returns status and fields for the server. Its own fields are those of the server alone."""
    status = ('%s %s' % (response.status_code, response.status_reasons)).rstrip()
    fields = [(str(name), str(value)) for name, value in response.response_headers.items()]
    fields += [('Set-Cookie', value) for value in getattr(response, 'more_cookies', ())]
    if response.cookies:
        fields += [('Set-Cookie', cookie.OutputString()) for cookie in response.cookies.values()]
    return status, fields


def encode_item(item):
    """Returns an item of content as bytes: text is UTF-8, as it was in a source of Python 2."""
    if isinstance(item, str):
        return item.encode('utf-8', 'surrogateescape')
    if isinstance(item, (bytearray, memoryview)):
        return bytes(item)
    if not isinstance(item, bytes):
        log('the application has returned %s where text or bytes are needed: it is left out'
            % type(item).__name__)
        return b''
    return item


def open_result(result):
    """Returns what an application has returned as content for the server.

    The first item of an iterator is fetched, so that a generator has called `start_response`.
    """
    if isinstance(result, (list, tuple)):
        return [item if type(item) is bytes else encode_item(item) for item in result]
    if result is None:
        log('the application has returned None: the response has no content')
        return []
    if isinstance(result, (str, bytes)):
        return [encode_item(result)]
    if isinstance(result, io.TextIOWrapper):
        # The bytes are sent as they are in the file.
        result = result.detach()
    if hasattr(result, 'read') and not isinstance(result, io.TextIOBase):
        return FileWrapper(result)
    return FapwsIterator(result)


class FapwsIterator:
    """Content that is made while it is sent."""

    def __init__(self, result):
        self.result = result
        self.items = iter(result)
        try:
            self.first = [next(self.items)]
        except StopIteration:
            self.first = []
        except BaseException:
            self.close()
            raise

    def __iter__(self):
        return self

    def __next__(self):
        return encode_item(self.first.pop() if self.first else next(self.items))

    def close(self):
        if hasattr(self.result, 'close'):
            self.result.close()
