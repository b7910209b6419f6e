# The WSGI application that calls the callbacks that were registered with the functions of fapws.

import io
import traceback
from html import escape
from urllib.parse import quote

# The maximum size of a form, in bytes and fields, that is parsed into `fapws.params`.
FORM_MAX_BYTES = 1024 * 1024
FORM_MAX_FIELDS = 10000
FORM_MEDIA_TYPE = 'application/x-www-form-urlencoded'
ERROR_PAGE = ('<!DOCTYPE html><html><head><title>%s</title></head><body><p>%s</p></body></html>')


class FapwsApplication:
    """Calls the callback whose prefix matches the path, with the classes of the base module."""

    def __init__(self, evwsgi):
        self.evwsgi = evwsgi
        # The FapwsServer that runs this application.
        self.server = None

    def __call__(self, server_environ, start_response):
        evwsgi, base = self.evwsgi, self.evwsgi.base_module
        method = server_environ['REQUEST_METHOD']
        methods = base.supported_HTTP_command
        if method not in methods:
            return send_error_page(start_response, '501 Not Implemented', 'Not Implemented')
        if method == 'OPTIONS':
            start_response('200 OK', [('Allow', ', '.join(methods)), ('Content-Length', '0')])
            return []
        path = server_environ.get('PATH_INFO', '')
        prefix, application = self.find_application(path)
        if application is None:
            return send_error_page(start_response, '404 Not Found', 'Page not found')
        try:
            environ = base.Environ()
            base_module_input = environ.get('wsgi.input')
            environ.update(server_environ)
            environ.update_headers(request_head_variables(server_environ))
            environ.update_uri(self.uri_variables(server_environ, prefix, path))
            if not self.set_body(environ, base_module_input):
                return send_error_page(start_response, '413 Content Too Large', 'Content Too Large')
            environ.update_from_request(client_variables(server_environ))
            response = base.Start_response()
            body_items = convert_result(application(environ, response))
        except Exception as error:
            if self.server.is_forked or is_caused_by_disconnect(error):
                raise
            return self.send_failure(error, start_response, method, path)
        status, headers = encode_response(response)
        start_response(status, headers)
        return body_items

    def find_application(self, path):
        for prefix, application in self.evwsgi.registered:
            if path.startswith(prefix):
                return prefix, application
        return '', self.evwsgi.generic

    def uri_variables(self, environ, prefix, path):
        query = environ.get('QUERY_STRING', '')
        return {
            'SERVER_NAME': environ['SERVER_NAME'],
            'SERVER_PORT': environ['SERVER_PORT'],
            'SCRIPT_NAME': environ.get('SCRIPT_NAME', '') + prefix,
            'PATH_INFO': path[len(prefix):],
            'QUERY_STRING': query,
            'fapws.params': self.evwsgi.parse_query(query) if query else {},
        }

    def set_body(self, environ, base_module_input):
        """Sets the variables for the request body. Returns False if a form is too large.

        `base_module_input` is the `wsgi.input` that the class `Environ` of the base module has
        created, or None.
        """
        length, media_type = environ.get('CONTENT_LENGTH'), environ.get('CONTENT_TYPE')
        if media_type:
            environ['HTTP_CONTENT_TYPE'] = media_type
        if not length:
            return True
        environ['HTTP_CONTENT_LENGTH'] = length
        # An int, so that applications can call `read(environ['CONTENT_LENGTH'])`.
        length = environ['CONTENT_LENGTH'] = int(length)
        body = environ['wsgi.input']
        if media_type and media_type.lower().startswith(FORM_MEDIA_TYPE):
            if length > FORM_MAX_BYTES:
                return False
            data = body.read()
            if data.count(b'&') >= FORM_MAX_FIELDS:
                return False
            environ['fapws.params'] = self.evwsgi.parse_query(data.decode('utf-8', 'replace'))
            body = io.BytesIO(data)
        if base_module_input is not None and not isinstance(base_module_input, io.IOBase):
            # The object stores the body in its own way, for example uploads in files.
            for piece in iter(lambda: body.read(PIECE_MAX_BYTES), b''):
                base_module_input.write(piece)
            base_module_input.seek(0)
            body = base_module_input
        environ['wsgi.input'] = body
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


def send_error_page(start_response, status, text):
    start_response(status, [('Content-Type', 'text/html'), ('Cache-Control', 'no-store')])
    return [(ERROR_PAGE % (text, text)).encode()]


def request_head_variables(environ):
    """Returns the environ variables that fapws derives from the head of a request."""
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


def client_variables(environ):
    address = environ.get('REMOTE_ADDR', '')
    port = environ.get('REMOTE_PORT', '')
    return {
        'REMOTE_ADDR': address,
        'fapws.remote_addr': address,
        'fapws.remote_port': int(port) if port.isdigit() else 0,
        'fapws.socket_fd': -1,
    }


def encode_response(response):
    """Returns the status and the headers for the server, with one Set-Cookie field per cookie.

    The server adds the fields that describe itself, such as Server and Date.
    """
    status = ('%s %s' % (response.status_code, response.status_reasons)).rstrip()
    fields = [(str(name), str(value)) for name, value in response.response_headers.items()]
    fields += [('Set-Cookie', value) for value in getattr(response, 'more_cookies', ())]
    if response.cookies:
        fields += [('Set-Cookie', cookie.OutputString()) for cookie in response.cookies.values()]
    return status, fields


def encode_item(item):
    """Returns an item of the body as bytes. A str is encoded as UTF-8, as in Python 2 scripts."""
    if isinstance(item, str):
        return item.encode('utf-8', 'surrogateescape')
    if isinstance(item, (bytearray, memoryview)):
        return bytes(item)
    if not isinstance(item, bytes):
        log('the application has returned %s instead of str or bytes: it is ignored'
            % type(item).__name__)
        return b''
    return item


def convert_result(result):
    """Converts the result of a callback to an iterable of bytes for the server.

    It fetches the first item of an iterator, so that a generator has called `start_response`.
    """
    if isinstance(result, (list, tuple)):
        return [item if type(item) is bytes else encode_item(item) for item in result]
    if result is None:
        log('the application has returned None: the response has no body')
        return []
    if isinstance(result, (str, bytes)):
        return [encode_item(result)]
    if isinstance(result, io.TextIOWrapper):
        # Send the bytes of the file as they are, without decoding them.
        result = result.detach()
    if hasattr(result, 'read') and not isinstance(result, io.TextIOBase):
        return FileWrapper(result)
    return FapwsIterator(result)


class FapwsIterator:
    """A response body whose items are produced while it is sent."""

    def __init__(self, result):
        self.result = result
        self.body_items = iter(result)
        try:
            self.first_item = [next(self.body_items)]
        except StopIteration:
            self.first_item = []
        except BaseException:
            self.close()
            raise

    def __iter__(self):
        return self

    def __next__(self):
        return encode_item(self.first_item.pop() if self.first_item else next(self.body_items))

    def close(self):
        if hasattr(self.result, 'close'):
            self.result.close()
