"""Scripts that were written for fapws: how they are loaded, and their requests and responses."""

import os
import re
import unittest
import zlib

from peer import END, FAILED, FILES, GONE, WANT, WANT_CHANNEL, Child, Link, environ

SCRIPT = '''
import fapws._evwsgi as evwsgi
from fapws import base, config
from fapws.contrib import headers, log, views, zip
import datetime, os, sys

HERE = os.path.dirname(os.path.abspath(__file__)) + '/'


def env(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    names = sorted(name for name in environ if not name.startswith('wsgi.'))
    return [repr({name: environ[name] for name in names})]


def answer(value):
    def application(environ, start_response):
        start_response('200 OK', [('Content-Type', 'text/html'), ('X-Number', 7)])
        return value() if callable(value) else value
    return application


class Site(object):
    def __call__(self, environ, start_response):
        start_response('200 OK', [])
        return ['Hello from a class']


def late(environ, start_response):
    start_response('404 Not Found', [('Content-Type', 'text/plain')])
    yield 'Hello'
    yield None
    yield b' '
    yield 'w\\u00f6rld'


def never_started(environ, start_response):
    return ['no head']


def cookies(environ, start_response):
    start_response('200 OK', [('Set-Cookie', 'a=1'), ('Set-Cookie', 'b=2')])
    start_response.set_cookie('c', 'x y', max_age=60, expires=datetime.datetime.fromtimestamp(0),
                              domain='example.org', secure=True)
    start_response.delete_cookie('d')
    found = base.parse_cookies(environ)
    return [found['e'].value if found else 'none']


def fails(environ, start_response):
    raise ValueError('<b>')


def fails_late(environ, start_response):
    yield 'begun'
    raise ValueError('late')


def post(environ, start_response):
    start_response(base.get_status(201), [])
    content = environ['wsgi.input'].read(environ['CONTENT_LENGTH'])
    return [repr((environ['fapws.params'], content.decode(), environ['HTTP_CONTENT_TYPE'],
                  environ['HTTP_CONTENT_LENGTH'], environ['CONTENT_TYPE']))]


def wraps_a_disconnect(environ, start_response):
    try:
        environ['wsgi.input'].read()
    except OSError as error:
        raise ValueError('no form') from error


@log.Log(open(HERE + 'requests.log', 'w'))
def logged(environ, start_response):
    start_response('200 OK', [])
    return ['four', b'!', bytearray(b'12'), memoryview(b'345')]


@zip.Gzip()
def zipped(environ, start_response):
    start_response('200 OK', [('Content-Length', '8000'), ('ETag', '"x"'), ('Vary', 'Cookie')])
    return ['content ', b'content ', bytearray(b'content '), memoryview(b'content ')] * 250


@zip.Gzip()
def zipped_stream(environ, start_response):
    start_response('200 OK', [])
    for _ in range(1000):
        yield 'content '


@zip.Gzip()
def zipped_file(environ, start_response):
    start_response('200 OK', [('Content-Length', os.path.getsize(HERE + 'long.txt'))])
    return open(HERE + 'long.txt', 'rb')


def start():
    evwsgi.start("0.0.0.0", "8080")
    evwsgi.set_base_module(base)
    evwsgi.wsgi_cb(("/env", env))
    evwsgi.wsgi_cb(("/hello/second", answer(['second'])))
    evwsgi.wsgi_cb(("/hello", answer(["Hello", " w\\u00f6rld!!"])))
    evwsgi.wsgi_cb(("/hello/third", answer(['third'])))
    evwsgi.wsgi_cb(("/tuple", answer(("Hello", b" world!!"))))
    evwsgi.wsgi_cb(("/class", Site()))
    evwsgi.wsgi_cb(("/late", late))
    evwsgi.wsgi_cb(("/none", answer(None)))
    evwsgi.wsgi_cb(("/numbers", answer([1, 'x', None])))
    evwsgi.wsgi_cb(("/text", answer('text')))
    evwsgi.wsgi_cb(("/never", never_started))
    evwsgi.wsgi_cb(("/file", answer(lambda: open(HERE + 'long.txt', 'rb'))))
    evwsgi.wsgi_cb(("/lines", answer(lambda: open(HERE + 'long.txt'))))
    evwsgi.wsgi_cb(("/cookies", cookies))
    evwsgi.wsgi_cb(("/failslate", fails_late))
    evwsgi.wsgi_cb(("/fails", fails))
    evwsgi.wsgi_cb(("/post", post))
    evwsgi.wsgi_cb(("/disconnect", wraps_a_disconnect))
    evwsgi.wsgi_cb(("/logged", logged))
    evwsgi.wsgi_cb(("/redirect", lambda environ, start: headers.redirect(start, '/hello')))
    evwsgi.wsgi_cb(("/zippedstream", zipped_stream))
    evwsgi.wsgi_cb(("/zippedfile", zipped_file))
    evwsgi.wsgi_cb(("/zipped", zipped))
    evwsgi.wsgi_cb(("/static/", views.Staticfile(HERE + "static/", maxage=60)))
    evwsgi.wsgi_cb(("/icon", views.Staticfile(HERE + "static/icon.png")))
    evwsgi.wsgi_cb(("/fold", views.Staticfile(HERE + "static/sub")))
    evwsgi.wsgi_cb(("/anywhere/", views.Staticfile()))
    evwsgi.set_debug(0)
    evwsgi.run()


if __name__ == "__main__":
    start()
'''

LINE = 'one of many lines\n'
SITE_FILES = {
    'run.py': SCRIPT,
    'long.txt': LINE * 30000,
    'static/icon.png': 'an icon',
    'static/sub/page.html': '<p>',
    'static/sub-secret/page.html': 'secret',
    'static/unknown.pinion': 'x',
    'static/archive.tar.gz': 'x',
}


class LinkWithoutFiles(Link):
    """A connection without a channel for file descriptors, so the process reads files itself."""

    def read_frame(self):
        frame = Link.read_frame(self)
        while frame.kind == WANT_CHANNEL:
            self.send(FILES)
            frame = Link.read_frame(self)
        return frame


class ChildWithoutFiles(Child):
    def make_link(self, address):
        return LinkWithoutFiles(address)


class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = ['--interface', 'auto']
        cls.child = ChildWithoutFiles(application='run.py', files=SITE_FILES, options=options)
        cls.link = cls.child.connect()

    @classmethod
    def tearDownClass(cls):
        cls.child.__exit__()

    def get(self, path='/', **more):
        return self.link.get(path, **more)

    def test_the_first_prefix_that_was_registered_is_used(self):
        for path, expected in (
                ('/hello/second', 'second'), ('/hello', 'Hello wörld!!'),
                ('/helloclass', 'Hello wörld!!'), ('/hello/third', 'Hello wörld!!')):
            with self.subTest(path):
                response = self.get(path)
                self.assertEqual(response.status, '200 OK')
                self.assertEqual(response.content.decode(), expected)
                self.assertEqual(response.field('X-Number'), '7')

    def test_other_paths_are_not_found(self):
        response = self.get('/absent')
        self.assertEqual(response.status, '404 Not Found')
        self.assertIn(b'Page not found', response.content)

    def test_the_environ(self):
        response = self.get('/env/pa ram', QUERY_STRING='key=val&key=%C3%A4+b&empty&=x',
                            HTTP_USER_AGENT='test', SCRIPT_NAME='/mount', REMOTE_PORT='4711')
        values = eval(response.content)
        uri = '/mount/env/pa%20ram?key=val&key=%C3%A4+b&empty&=x'
        expected = {
            'REQUEST_METHOD': 'GET', 'SCRIPT_NAME': '/mount/env', 'PATH_INFO': '/pa ram',
            'QUERY_STRING': 'key=val&key=%C3%A4+b&empty&=x', 'SERVER_NAME': 'localhost',
            'SERVER_PORT': '80', 'SERVER_PROTOCOL': 'HTTP/1.1', 'REQUEST_PROTOCOL': 'HTTP/1.1',
            'REMOTE_ADDR': '127.0.0.1', 'REMOTE_PORT': '4711', 'HTTP_HOST': 'localhost',
            'HTTP_USER_AGENT': 'test',
            'fapws.uri': uri, 'fapws.major_minor': '1.1', 'fapws.remote_addr': '127.0.0.1',
            'fapws.remote_port': 4711, 'fapws.socket_fd': -1,
            'fapws.params': {'key': ['val', 'ä b'], 'empty': [''], '': ['x']},
            'fapws.raw_header': 'GET ' + uri + ' HTTP/1.1\r\nHost: localhost\r\n'
                                'User-Agent: test\r\n\r\n',
        }
        self.assertEqual(values, expected)

    def test_methods(self):
        response = self.get('/hello', method='OPTIONS')
        self.assertEqual(response.field('Allow'), 'GET, POST, HEAD, OPTIONS')
        self.assertEqual((response.status, response.content), ('200 OK', b''))
        self.assertEqual(self.get('/hello', method='TRACE').status, '501 Not Implemented')
        response = self.get('/hello', method='HEAD')
        self.assertEqual((response.status, response.content), ('200 OK', b''))

    def test_results(self):
        for path, status, expected in (
                ('/tuple', '200 OK', 'Hello world!!'), ('/class', '200 OK', 'Hello from a class'),
                ('/late', '404 Not Found', 'Hello wörld'), ('/none', '200 OK', ''),
                ('/numbers', '200 OK', 'x'), ('/text', '200 OK', 'text'),
                ('/never', '200 OK', 'no head'), ('/file', '200 OK', LINE * 30000),
                ('/lines', '200 OK', LINE * 30000)):
            with self.subTest(path):
                response = self.get(path)
                self.assertEqual(response.status, status)
                self.assertEqual(response.content.decode(), expected)
        self.assertIn('returned int instead of str or bytes', self.child.log())

    def test_cookies(self):
        response = self.get('/cookies', HTTP_COOKIE='e=5')
        self.assertEqual(response.content, b'5')
        cookies = [value for name, value in response.fields if name == 'Set-Cookie']
        self.assertEqual(cookies[:2], ['a=1', 'b=2'])
        self.assertEqual(cookies[2], 'c="x y"; Domain=example.org; '
                                     'expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60; Path=/; '
                                     'Secure')
        self.assertEqual(cookies[3], 'd=""; Max-Age=0; Path=/')
        self.assertEqual(self.get('/cookies').content, b'none')

    def test_failures(self):
        response = self.get('/fails')
        self.assertEqual(response.status, '500 Internal Server Error')
        self.assertEqual(response.content,
                         b'<h1>Error</h1>Please contact your administrator')
        self.assertIn('GET /fails: the application has failed\nTraceback', self.child.log())
        self.assertNotIn('<pinion', self.child.log())
        response = self.get('/failslate')
        self.assertEqual((response.status, response.content), ('200 OK', b'begun'))
        self.assertNotEqual(response.last.kind, FAILED)
        self.assertIn(b'ValueError: late', response.last.content)

    def test_request_bodies(self):
        form = 'application/x-www-form-urlencoded'
        content = b'a=1&a=%C3%A4&b=+'
        response = self.get('/post', method='POST', content=content, CONTENT_TYPE=form,
                            CONTENT_LENGTH=str(len(content)))
        self.assertEqual(response.status, '201 Created')
        self.assertEqual(eval(response.content), (
            {'a': ['1', 'ä'], 'b': [' ']}, 'a=1&a=%C3%A4&b=+', form, '16', form))
        response = self.get('/post', method='POST', streamed=b'x' * 200000,
                            CONTENT_TYPE='text/plain', CONTENT_LENGTH='200000')
        self.assertEqual(eval(response.content), (
            {}, 'x' * 200000, 'text/plain', '200000', 'text/plain'))

    def test_forms_that_are_too_large(self):
        form = 'application/x-www-form-urlencoded'
        for content in (b'a' * 2000000, b'a&' * 10000):
            response = self.get('/post', method='POST', streamed=content, CONTENT_TYPE=form,
                                CONTENT_LENGTH=str(len(content)))
            self.assertEqual(response.status, '413 Content Too Large')

    def test_an_exception_whose_cause_is_a_disconnect_is_not_logged(self):
        number = self.link.start('/disconnect', 'POST', None, CONTENT_LENGTH='1')
        self.assertEqual(self.link.read_frame_of(number).kind, WANT)
        self.link.send(GONE, number)
        self.assertEqual(self.link.finish(number).kinds, [END])
        self.assertNotIn('no form', self.child.log())

    def test_a_log_of_requests(self):
        self.get('/logged', QUERY_STRING='a', HTTP_USER_AGENT='a "b"', HTTP_REFERER='there',
                 HTTP_X_FORWARDED_FOR='1.2.3.4')
        request = environ(PATH_INFO='/logged')
        del request['HTTP_HOST']
        self.link.number += 1
        self.link.send_batch([(self.link.number, request, b'')])
        self.link.finish(self.link.number)
        with open(os.path.join(self.child.folder, 'requests.log')) as file:
            lines = re.sub(r'\[[^]]* GMT\]', '[]', file.read()).splitlines()
        self.assertEqual(lines, [
            '127.0.0.1 localhost - [] "GET /logged?a HTTP/1.1" 200 10 "there" "a %22b%22"',
            '127.0.0.1 - - [] "GET /logged HTTP/1.1" 200 10 "-" "-"'])

    def test_a_redirect(self):
        response = self.get('/redirect')
        self.assertEqual((response.status, response.field('Location')), ('302 Found', '/hello'))

    def test_compression(self):
        for path, expected in (('/zipped', b'content ' * 1000),
                               ('/zippedstream', b'content ' * 1000),
                               ('/zippedfile', LINE.encode() * 30000)):
            with self.subTest(path):
                response = self.get(path, HTTP_ACCEPT_ENCODING='br, gzip;q=0.5')
                self.assertEqual(response.field('Content-Encoding'), 'gzip')
                self.assertEqual(zlib.decompress(response.content, 31), expected)
                self.assertLess(len(response.content), len(expected) // 20)
                self.assertIn('Accept-Encoding', response.field('Vary'))
                for codings in ('', 'gzip;q=0', 'gzip; q=0.00', 'br', 'xgzip'):
                    response = self.get(path, HTTP_ACCEPT_ENCODING=codings)
                    self.assertIsNone(response.field('Content-Encoding'))
                    self.assertEqual(response.content, expected)
                    self.assertIn('Accept-Encoding', response.field('Vary'))
        response = self.get('/zipped', HTTP_ACCEPT_ENCODING='gzip')
        self.assertEqual(response.field('ETag'), 'W/"x"')
        self.assertEqual(response.field('Vary'), 'Cookie, Accept-Encoding')
        self.assertEqual(response.field('Content-Length'), str(len(response.content)))

    def test_static_files(self):
        response = self.get('/static/sub/page.html')
        self.assertEqual((response.status, response.content), ('200 OK', b'<p>'))
        self.assertEqual(response.field('Content-Type'), 'text/html')
        self.assertEqual(response.field('Cache-Control'), 'max-age=60')
        self.assertEqual(self.get('/icon').content, b'an icon')
        self.assertEqual(self.get('/fold/page.html').content, b'<p>')
        for name in ('unknown.pinion', 'archive.tar.gz'):
            response = self.get('/static/' + name)
            self.assertEqual(response.field('Content-Type'), 'application/octet-stream')
        tag, date = response.field('ETag'), response.field('Last-Modified')
        self.assertRegex(tag, '^"[0-9a-f-]+"$')
        for fields, expected in (
                ({'HTTP_IF_NONE_MATCH': tag}, 304), ({'HTTP_IF_NONE_MATCH': '"a", W/' + tag}, 304),
                ({'HTTP_IF_NONE_MATCH': '*'}, 304), ({'HTTP_IF_NONE_MATCH': '"a"'}, 200),
                ({'HTTP_IF_MODIFIED_SINCE': date}, 304),
                ({'HTTP_IF_MODIFIED_SINCE': 'Thu, 01 Jan 1970 00:00:00 GMT'}, 200),
                ({'HTTP_IF_MODIFIED_SINCE': 'yesterday'}, 200),
                ({'HTTP_IF_NONE_MATCH': '"a"', 'HTTP_IF_MODIFIED_SINCE': date}, 200)):
            with self.subTest(fields):
                response = self.get('/static/archive.tar.gz', **fields)
                self.assertEqual(response.status[:3], str(expected))
                self.assertEqual(response.content, b'x' if expected == 200 else b'')
                self.assertEqual(response.field('ETag'), tag)

    def test_paths_that_name_no_file(self):
        for path in ('/static/', '/static/sub', '/static/absent', '/static/../run.py',
                     '/static/sub/../../run.py', '/static/a\0b', '/iconx',
                     '/fold-secret/page.html',
                     '/anywhere//etc/passwd', '/static/\xff'):
            with self.subTest(path):
                self.assertEqual(self.get(path).status, '404 Not Found')


class Scripts(unittest.TestCase):
    """Tests of how a script is loaded and executed."""

    BEGIN = 'import fapws._evwsgi as evwsgi\nfrom fapws import base\n'
    HELLO = '''
def hello(environ, start_response):
    start_response('200 OK', [])
    return [__name__]
'''
    START = '''
evwsgi.start('0.0.0.0', '8080')
evwsgi.set_base_module(base)
evwsgi.wsgi_cb(('/', hello))
'''

    def start(self, text, application='run.py', interface='auto', files=(), options=()):
        files = dict(files, **{'run.py': text})
        options = ['--interface', interface] + list(options)
        return Child(application=application, files=files, options=options)

    def failure(self, text, **more):
        with self.start(text, **more) as child:
            self.assertEqual(child.wait(), 1)
            return child.log()

    def test_statements_after_run_are_executed_at_the_end(self):
        text = self.BEGIN + self.HELLO + self.START + 'evwsgi.run()\nprint("closed")\n'
        for interface in ('auto', 'wsgi'):
            with self.start(text, interface=interface) as child:
                self.assertEqual(child.connect().get().content, b'__main__')
                self.assertEqual(child.output(), '')
                child.stop()
                self.assertEqual((child.wait(), child.output()), (0, 'closed\n'))
                self.assertEqual(child.log(), '')

    def test_the_status_and_an_exception_after_run(self):
        text = self.BEGIN + self.HELLO + self.START + 'evwsgi.run()\n'
        for more, status, expected in (
                ('import sys\nsys.exit(7)\n', 7, ''), ('1 / 0\n', 1, 'ZeroDivisionError')):
            with self.start(text + more) as child:
                child.connect()
                child.stop()
                self.assertEqual(child.wait(), status)
                self.assertIn(expected, child.log())
                self.assertEqual(child.log() == '', expected == '')

    def test_a_script_in_two_files(self):
        own = 'def serve(hello):' + self.START.replace('\n', '\n    ') + 'evwsgi.run()\n'
        files = {'server.py': self.BEGIN + own}
        text = 'from server import serve\n' + self.HELLO + 'serve(hello)\n'
        with self.start(text, files=files) as child:
            self.assertEqual(child.connect().get().content, b'run')

    def test_a_module_and_a_factory(self):
        body = self.START.replace('\n', '\n    ') + 'evwsgi.run()\n'
        text = self.BEGIN + self.HELLO + 'def start():' + body
        for application in ('run:start', 'run.py:start'):
            with self.start(text, application, options=['--factory']) as child:
                self.assertEqual(child.connect().get().content, b'run')
        with self.start(self.BEGIN + self.HELLO + self.START + 'evwsgi.run()\n', 'run') as child:
            self.assertEqual(child.connect().get().content, b'run')

    def test_a_named_callable_is_served_without_fapws(self):
        text = self.BEGIN + self.HELLO + 'if __name__ == "__main__":\n    evwsgi.run()\n'
        text = text.replace('__name__]', '__name__.encode()]')
        with self.start(text, 'run.py:hello') as child:
            self.assertEqual(child.connect().get().content, b'run')

    def test_a_file_without_an_import_of_fapws_is_an_ordinary_module(self):
        text = '''
# A file that mentions fapws without importing it.
import os
def app(environ, start_response):
    start_response('200 OK', [])
    return [b'fapws' + __name__.encode()]
if __name__ == '__main__':
    os._exit(9)
'''
        with self.start(text) as child:
            self.assertEqual(child.connect().get().content, b'fapwsrun')

    def test_an_application_of_fapws_has_one_thread(self):
        text = self.BEGIN + '''
def hello(environ, start_response):
    return [repr((environ['wsgi.multithread'], environ['wsgi.multiprocess']))]
''' + self.START + 'evwsgi.run()\n'
        with self.start(text, options=['--threads', '4', '--processes', '2']) as child:
            self.assertEqual(child.connect().get().content, b'(False, True)')
            self.assertIn('single-threaded; ignoring --threads 4', child.log())

    def test_mistakes_of_the_script_are_reported(self):
        begin = self.BEGIN + self.HELLO
        for text, expected in (
                (begin + self.START, 'does not call evwsgi.run()'),
                (begin + 'evwsgi.run()\n', 'error: Base module not set'),
                (begin + 'evwsgi.wsgi_cb(("/", hello))\n', 'error: Base module not set'),
                (begin + 'evwsgi.start("0.0.0.0", 8080)\n', 'start() needs the host and the port'),
                (begin + 'evwsgi.set_base_module(evwsgi)\n', 'the base module has no "Environ"'),
                (begin + self.START + 'evwsgi.stop_timer(0)\n', 'there is no timer 0'),
                (begin + 'evwsgi.add_timer(-1, hello)\n', 'must not be negative'),
                ('from fapws.contrib import sessions\n', 'use the package "Beaker"'),
                ('import fapws.contrib.cgiapp\n', 'the key "cgi" of a mount'),
                ('import fapws.contrib.other\n', "No module named 'fapws.contrib.other'"),
                ('import fapws._evwsgi\nprint "x"\n', 'SyntaxError')):
            with self.subTest(text):
                self.assertIn(expected, self.failure(text))
        log = self.failure(begin + self.START + 'evwsgi.run()\n', interface='asgi')
        self.assertIn('applications use WSGI', log)

    def test_an_application_with_its_own_base_module(self):
        own = '''
from fapws.base import *
from fapws import config
supported_HTTP_command = supported_HTTP_command + ['PUT']
class Storage:
    pieces = b''
    def write(self, data):
        self.pieces += data
    def seek(self, offset):
        self.pieces += b'|%d' % offset
class Environ(Environ):
    def __init__(self):
        super().__init__()
        self['wsgi.input'] = Storage()
    def update_headers(self, data):
        dict.update(self, data, mine=sorted(data)[0])
    def update_uri(self, data):
        dict.update(self, data, PATH_INFO=data['PATH_INFO'].upper())
    def update_from_request(self, data):
        dict.update(self, data, REMOTE_ADDR='somewhere')
class Start_response(Start_response):
    def __init__(self):
        super().__init__()
        self.response_headers['X-Own'] = 'yes'
'''
        text = self.BEGIN + '''
import mybase
mybase.config.send_traceback_to_browser = True
def hello(environ, start_response):
    if environ['PATH_INFO'] == 'FAIL':
        raise ValueError('<b>')
    start_response('200 OK', [])
    return [repr((environ['wsgi.input'].pieces, environ['PATH_INFO'], environ['mine'],
                  environ['REMOTE_ADDR']))]
''' + self.START.replace('base)', 'mybase)') + 'evwsgi.run()\n'
        with self.start(text, files={'mybase.py': own}) as child:
            link = child.connect()
            response = link.get('/page', method='PUT', content=b'data', CONTENT_LENGTH='4')
            self.assertEqual(eval(response.content),
                             (b'data|0', 'PAGE', 'HTTP_HOST', 'somewhere'))
            self.assertEqual(response.field('X-Own'), 'yes')
            response = link.get('/fail')
            self.assertIn(b'ValueError: &lt;b&gt;', response.content)

    def test_a_generic_application(self):
        text = self.BEGIN + self.HELLO + '''
def generic(environ, start_response):
    return [environ['SCRIPT_NAME'] + '|' + environ['PATH_INFO']]
evwsgi.set_base_module(base)
evwsgi.wsgi_cb(('/hello', hello))
evwsgi.wsgi_gen_cb(generic)
evwsgi.run()
'''
        with self.start(text) as child:
            link = child.connect()
            self.assertEqual(link.get('/hello').content, b'__main__')
            self.assertEqual(link.get('/other').content, b'|/other')

    def test_the_other_functions(self):
        text = self.BEGIN + '''
def hello(environ, start_response):
    return [repr((evwsgi.parse_query('a=1&b=%20+&a'), evwsgi.rfc1123_date(784111777.5),
                  evwsgi.get_debug(), evwsgi.libev_version(), evwsgi.socket_fd(),
                  base.split_len('abcde', 2)))]
evwsgi.set_debug(1)
''' + self.START + 'evwsgi.run()\n'
        with self.start(text) as child:
            self.assertEqual(eval(child.connect().get().content), (
                {'a': ['1', ''], 'b': ['  ']}, 'Sun, 06 Nov 1994 08:49:37 GMT', 1, (0, 0), -1,
                ['ab', 'cd', 'e']))


if __name__ == '__main__':
    unittest.main()
