"""PEP 3333: the environ, start_response(), response bodies, and the end of a response."""

import json
import sys
import unittest

from peer import ABORT, END, FAILED, HEAD, HINTS, RESPONSE, RESPONSE_CONTENT, Child

APPLICATION = '''
import sys
from wsgiref.validate import validator

PLAIN = [('Content-Type', 'text/plain')]
closed = []


class Pieces:
    """An iterable that counts how often it was closed."""

    def __init__(self, pieces, error=None):
        self.pieces, self.error = iter(pieces), error

    def __iter__(self):
        return self

    def __next__(self):
        for piece in self.pieces:
            return piece
        if self.error:
            error, self.error = self.error, None
            raise error
        raise StopIteration

    def close(self):
        closed.append(1)


class Sized(Pieces):
    def __init__(self, pieces, size=1):
        Pieces.__init__(self, pieces)
        self.size = size

    def __len__(self):
        return self.size


def closes(environ, start):
    start('200 OK', PLAIN)
    count, closed[:] = len(closed), []
    return [b'%d' % count]


def environ(environ, start):
    start('200 OK', PLAIN)
    del environ['wsgi.early_hints'], environ['wsgi.file_wrapper'], environ['wsgi.input']
    environ['wsgi.errors'] = environ['wsgi.errors'] is sys.stderr
    return [repr(environ).encode()]


def own_length(*pieces, length=5):
    def run(environ, start):
        start('200 OK', PLAIN + [('Content-Length', str(length))])
        return Pieces(pieces)
    return run


def listed(pieces, status='200 OK', fields=PLAIN):
    def run(environ, start):
        start(status, fields)
        return pieces
    return run


def pieces(*pieces, error=None, status='200 OK'):
    def run(environ, start):
        start(status, PLAIN)
        return Pieces(pieces, error)
    return run


def writes(environ, start):
    write = start('200 OK', PLAIN)
    write(b'')
    write(b'one ')
    write(b'two ')
    return [b'three']


def write_text(environ, start):
    start('200 OK', PLAIN)('text')
    return []


def writes_nothing(environ, start):
    start('200 OK', PLAIN)(b'')
    start('503 Replaced', [], fake_error())
    return [b'x']


def late_start(environ, start):
    yield b''
    start('200 OK', PLAIN)
    yield b'late'


def start_in_first_step(environ, start):
    start('200 OK', PLAIN)
    yield b''
    start('500 Changed', [('X-Two', '2')], fake_error())
    yield b'changed'


def fake_error():
    try:
        raise KeyError('first')
    except KeyError:
        return sys.exc_info()


def twice(environ, start):
    start('200 OK', PLAIN)
    start('200 OK', PLAIN)
    return [b'x']


def replaced(environ, start):
    start('200 OK', PLAIN + [('Content-Length', '100')])
    start('503 Replaced', [('X-Two', '2')], fake_error())
    return [b'replaced']


def too_late(environ, start):
    write = start('200 OK', PLAIN)
    write(b'sent')
    start('500 Late', [], fake_error())
    return [b'never']


def never(environ, start):
    return []


def never_with_content(environ, start):
    return [b'x']


def never_yields(environ, start):
    return Pieces([])


def no_content_before_start(environ, start):
    yield b'x'


def raises(error):
    def run(environ, start):
        raise error
    return run


def raises_after_start(environ, start):
    start('200 OK', PLAIN)
    raise ValueError('after start')


def close_raises(environ, start):
    class Bad(Pieces):
        def close(self):
            Pieces.close(self)
            raise ValueError('in close')
    start('200 OK', PLAIN)
    return Bad([b'whole'])


def hints(environ, start):
    environ['wsgi.early_hints']([('Link', '</a.css>; rel=preload'), (b'Link', b'</b.js>')])
    start('200 OK', PLAIN)
    return [b'hinted']


def bad_hints(environ, start):
    environ['wsgi.early_hints']([('Link', 'a\\nb')])
    return []


def file(environ, start):
    start('200 OK', PLAIN)
    return environ['wsgi.file_wrapper'](open(__file__, 'rb'), 16)


def errors(environ, start):
    environ['wsgi.errors'].write('a line for the log\\n')
    start('200 OK', PLAIN)
    return [b'']


def header(environ, start):
    start('200 OK', [eval(environ['QUERY_STRING'])])
    return [b'x']


def status(environ, start):
    start(eval(environ['QUERY_STRING']), [])
    return [b'x']


def headers(environ, start):
    start('200 OK', eval(environ['QUERY_STRING']))
    return [b'x']


@validator
def valid(environ, start):
    assert environ['wsgi.input'].read(3) == b'abc'
    assert environ['wsgi.input'].readline() == b'd\\n'
    assert list(environ['wsgi.input']) == [b'e\\n', b'f']
    environ['wsgi.errors'].write('valid\\n')
    start('200 OK', PLAIN)
    return [b'val', b'id']


@validator
def valid_generator(environ, start):
    write = start('200 OK', PLAIN)
    write(b'one ')
    return iter([b'two ', b'three'])


@validator
def valid_empty(environ, start):
    start('204 No Content', [])
    return []


class Text(str):
    pass


ROUTES = {
    'closes': closes, 'environ': environ, 'writes': writes, 'write_text': write_text,
    'late_start': late_start, 'start_in_first_step': start_in_first_step, 'twice': twice,
    'writes_nothing': writes_nothing,
    'replaced': replaced, 'too_late': too_late, 'never': never,
    'never_with_content': never_with_content, 'never_yields': never_yields,
    'no_content_before_start': no_content_before_start, 'hints': hints, 'bad_hints': bad_hints,
    'file': file, 'errors': errors, 'header': header, 'status': status, 'headers': headers,
    'valid': valid, 'valid_generator': valid_generator, 'valid_empty': valid_empty,
    'close_raises': close_raises, 'raises_after_start': raises_after_start,
    'one': listed([b'hello']), 'none': listed([]), 'empty': listed([b'']),
    'several': listed([b'a', b'', b'bc']), 'tuple': listed((b'tuple',)),
    'large': listed([bytes(range(256)) * 1024]), 'text': listed(['text']),
    'texts': listed([b'a', 'text']), 'array': listed([bytearray(b'x')]), 'bytes': listed(b'raw'),
    'listed_short': listed([b'abc'], fields=[('Content-Length', '5')]),
    'listed_long': listed([b'abcdefg'], fields=[('Content-Length', '5')]),
    'listed_exact': listed([b'abcde'], fields=[('content-length', '5')]),
    'listed_zero': listed([], fields=[('Content-Length', '5')]),
    'two_lengths': listed([b'x'], fields=[('Content-Length', '1'), ('content-length', '1')]),
    'pieces': pieces(b'', b'a', b'', b'b'), 'no_pieces': pieces(), 'text_piece': pieces(b'a', 'b'),
    'first_text': pieces('b'),
    'fails_first': pieces(error=ValueError('first')),
    'fails_later': pieces(b'a', error=ValueError('later')),
    'exits_later': pieces(b'a', error=SystemExit(3)),
    'exact': own_length(b'ab', b'cde'), 'exact_at_once': own_length(b'abcde'),
    'exact_then_empty': own_length(b'abcde', b'', b''),
    'long': own_length(b'ab', b'cdefgh', b'i'), 'long_at_once': own_length(b'abcdefgh'),
    'long_later': own_length(b'abcde', b'fgh'), 'short': own_length(b'ab', b'c'),
    'short_none': own_length(), 'zero': own_length(length=0),
    'sized': lambda e, s: (s('200 OK', PLAIN), Sized([b'sized']))[1],
    'sized_wrongly': lambda e, s: (s('200 OK', PLAIN), Sized([b'sized', b'more']))[1],
    'sized_two': lambda e, s: (s('200 OK', PLAIN), Sized([b'a', b'b'], 2))[1],
    '204': pieces(b'never', status='204 No Content'),
    '204_list': listed([b'never'], '204 No Content', [('Content-Length', '5')]),
    '304': listed([b'never'], '304 Not Modified', [('Content-Length', '700')]),
    'exit': raises(SystemExit('bye')), 'interrupt': raises(KeyboardInterrupt()),
    'generator_exit': raises(GeneratorExit()), 'error': raises(ValueError('two\\nlines')),
    'text_subclass': listed([b'x'], Text('200 OK'), [(Text('X-A'), Text('b'))]),
}


def app(environ, start_response):
    return ROUTES[environ['PATH_INFO'][1:]](environ, start_response)
'''


class Wsgi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.child = Child(APPLICATION)
        cls.link = cls.child.connect()

    @classmethod
    def tearDownClass(cls):
        cls.child.__exit__()

    def get(self, name, **more):
        return self.link.get('/' + name, **more)

    def assert_complete(self, name, content, length=None, status='200 OK', **more):
        response = self.get(name, **more)
        self.assertEqual(response.kinds, [RESPONSE], response.frames)
        self.assertEqual(response.status, status)
        self.assertEqual(response.content, content)
        self.assertEqual(response.field('Content-Length'), length)
        return response

    def assert_fails(self, name, text, **more):
        """Asserts that a request fails before its head is sent, and that the process continues."""
        response = self.get(name, **more)
        self.assertEqual(response.kinds, [FAILED], response.frames)
        self.assertIn(text, response.last.content.decode())
        self.assertNotIn(b'\n', response.last.content)
        self.assert_complete('one', b'hello', '5')

    def closes(self):
        return int(self.get('closes').content)

    def test_ready_names_the_process(self):
        ready = json.loads(self.link.ready.content.decode())
        version = '.'.join(str(number) for number in sys.version_info[:3])
        name = {'cpython': 'CPython', 'pypy': 'PyPy'}[sys.implementation.name]
        self.assertEqual(ready, {'interface': 'wsgi', 'threads': 1, 'python': version,
                                 'implementation': name})

    def test_the_environ_is_complete(self):
        environ = eval(self.get('environ', HTTP_X='\xe9').content)
        expected = {'wsgi.version': (1, 0), 'wsgi.url_scheme': 'http', 'wsgi.multithread': False,
                    'wsgi.multiprocess': False, 'wsgi.run_once': False, 'wsgi.errors': True,
                    'wsgi.input_terminated': True, 'HTTP_X': '\xe9', 'PATH_INFO': '/environ'}
        self.assertEqual({key: environ.get(key) for key in expected}, expected)
        environ = eval(self.get('environ', **{'wsgi.url_scheme': 'https'}).content)
        self.assertEqual(environ['wsgi.url_scheme'], 'https')

    def test_a_list_is_sent_in_one_frame_with_content_length(self):
        self.assert_complete('one', b'hello', '5')
        self.assert_complete('none', b'', '0')
        self.assert_complete('empty', b'', '0')
        self.assert_complete('several', b'abc', '3')
        self.assert_complete('tuple', b'tuple', '5')
        self.assert_complete('text_subclass', b'x', '1')

    def test_a_large_list_is_sent_in_several_frames(self):
        response = self.get('large')
        self.assertEqual(response.content, bytes(range(256)) * 1024)
        self.assertEqual(response.kinds, [HEAD] + [RESPONSE_CONTENT] * 4 + [END])
        self.assertEqual(response.field('Content-Length'), str(256 * 1024))

    def test_an_iterable_of_length_one_has_a_content_length(self):
        self.closes()
        self.assert_complete('sized', b'sized', '5')
        self.assertEqual(self.closes(), 1)
        self.assert_complete('sized_wrongly', b'sized', '5')
        # The response is sent before the process fetches another item.
        self.assertEqual(self.closes(), 1)
        self.assertIn('the rest was not sent', self.child.log())
        response = self.get('sized_two')
        self.assertEqual((response.content, response.field('Content-Length')), (b'ab', None))

    def test_items_are_sent_one_by_one_and_the_iterable_is_closed_once(self):
        self.closes()
        response = self.get('pieces')
        self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, RESPONSE_CONTENT, END])
        self.assertEqual(response.content, b'ab')
        self.assertEqual(response.field('Content-Length'), None)
        self.assertEqual(self.closes(), 1)
        self.assert_complete('no_pieces', b'', '0')
        self.assertEqual(self.closes(), 1)

    def test_body_items_must_be_bytes(self):
        for name in ('text', 'texts', 'array', 'bytes', 'first_text', 'write_text'):
            with self.subTest(name):
                self.assert_fails(name, 'TypeError: the body must be bytes')
        self.closes()
        response = self.get('text_piece')
        self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, ABORT])
        self.assertEqual(self.closes(), 1)

    def test_the_content_length_of_the_application_is_kept(self):
        self.assert_complete('listed_exact', b'abcde', '5')
        self.assert_complete('exact_at_once', b'abcde', '5')
        self.assert_complete('exact_then_empty', b'abcde', '5')
        self.assert_complete('zero', b'', '0')
        response = self.get('exact')
        self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, RESPONSE_CONTENT, END])
        self.assertEqual((response.content, response.field('Content-Length')), (b'abcde', '5'))

    def test_a_body_beyond_its_content_length_is_truncated_and_logged(self):
        for name in ('listed_long', 'long_at_once', 'long_later'):
            with self.subTest(name):
                self.closes()
                self.assert_complete(name, b'abcde', '5')
                self.assertEqual(self.closes(), 0 if name == 'listed_long' else 1)
                self.assertEqual(self.child.log().count('GET /%s: the body is longer' % name), 1)
        response = self.get('long')
        self.assertEqual((response.content, response.last.kind), (b'abcde', END))

    def test_a_body_below_its_content_length_is_an_error(self):
        self.closes()
        response = self.get('short')
        self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, RESPONSE_CONTENT, ABORT])
        self.assertIn(b'Content-Length is 5', response.last.content)
        self.assertEqual(self.closes(), 1)
        for name in ('listed_short', 'listed_zero', 'short_none'):
            with self.subTest(name):
                self.assert_fails(name, 'Content-Length is 5')

    def test_a_response_to_head_has_no_body(self):
        self.assert_complete('one', b'', '5', method='HEAD')
        self.assert_complete('none', b'', None, method='HEAD')
        self.assert_complete('listed_short', b'', '5', method='HEAD')
        self.assert_complete('exact', b'', '5', method='HEAD')
        self.assert_complete('short', b'', '5', method='HEAD')
        self.closes()
        self.assert_complete('pieces', b'', None, method='HEAD')
        self.assertEqual(self.closes(), 1)
        self.assert_complete('writes', b'', None, method='HEAD')

    def test_statuses_without_a_body(self):
        self.closes()
        self.assert_complete('204', b'', None, '204 No Content')
        self.assertEqual(self.closes(), 1)
        self.assert_complete('204_list', b'', None, '204 No Content')
        self.assert_complete('304', b'', '700', '304 Not Modified')

    def test_write_sends_immediately(self):
        response = self.get('writes')
        self.assertEqual(response.kinds, [HEAD] + [RESPONSE_CONTENT] * 3 + [END])
        self.assertEqual(response.content, b'one two three')

    def test_the_head_is_sent_with_the_first_part_of_the_body(self):
        response = self.get('late_start')
        self.assertEqual((response.status, response.content), ('200 OK', b'late'))
        response = self.get('start_in_first_step')
        self.assertEqual((response.status, response.content), ('500 Changed', b'changed'))
        self.assertEqual(response.fields, [('X-Two', '2')])
        self.assert_complete('writes_nothing', b'x', '1', '503 Replaced')

    def test_start_response_with_exc_info(self):
        response = self.assert_complete('replaced', b'replaced', '8', '503 Replaced')
        self.assertEqual(response.field('X-Two'), '2')
        response = self.get('too_late')
        self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, ABORT])
        self.assertIn(b"KeyError: 'first'", response.last.content)
        self.assertEqual(response.content, b'sent')
        self.assert_fails('twice', 'start_response was called twice')

    def test_without_start_response_there_is_no_response(self):
        for name in ('never', 'never_with_content', 'never_yields'):
            with self.subTest(name):
                self.assert_fails(name, 'has not called start_response')
        self.assert_fails('no_content_before_start', 'before start_response')

    def test_errors_before_the_head(self):
        self.assert_fails('error', 'ValueError: two lines')
        self.assert_fails('raises_after_start', 'after start')
        self.closes()
        self.assert_fails('fails_first', 'ValueError: first')
        self.assertEqual(self.closes(), 1)

    def test_a_traceback_has_only_stack_frames_of_the_application(self):
        self.assert_fails('raises_after_start', 'after start')
        begin = 'GET /raises_after_start: the application has failed\nTraceback'
        self.assertIn(begin, self.child.log())
        traceback = self.child.log().split(begin)[1].split('GET /')[0]
        self.assertIn('in raises_after_start\n', traceback)
        self.assertEqual(traceback.count('  File "'), 2, traceback)

    def test_errors_after_the_head(self):
        self.closes()
        for name in ('fails_later', 'exits_later'):
            with self.subTest(name):
                response = self.get(name)
                self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, ABORT])
                self.assertEqual(self.closes(), 1)

    def test_an_error_in_close_does_not_affect_the_response(self):
        self.closes()
        response = self.get('close_raises')
        self.assertEqual((response.content, response.last.kind), (b'whole', END))
        self.assertEqual(self.closes(), 1)
        self.assertIn('ValueError: in close', self.child.log())

    def test_an_application_cannot_end_the_process(self):
        self.assert_fails('exit', 'SystemExit: bye')
        self.assert_fails('interrupt', 'KeyboardInterrupt')
        self.assert_fails('generator_exit', 'GeneratorExit')

    def test_early_hints(self):
        response = self.get('hints')
        self.assertEqual(response.kinds, [HINTS, RESPONSE])
        self.assertEqual(response.frames[0].content,
                         b'Link: </a.css>; rel=preload\nLink: </b.js>\n')
        self.assert_fails('bad_hints', 'line break')

    def test_a_file_is_sent(self):
        response = self.get('file')
        self.assertEqual(response.content.decode(), APPLICATION)

    def test_errors_are_logged_by_line(self):
        self.assert_complete('errors', b'', '0')
        self.assertIn('a line for the log\n', self.child.log())

    def test_invalid_header_fields_are_rejected(self):
        for field in (('X', 'a\nb'), ('X', 'a\rb'), ('X', 'a\0b'), ('X\n', 'a'), ('', 'a'),
                      ('X Y', 'a'), ('X:', 'a'), ('X\xe9', 'a'), ('X', '\u20ac'),
                      ('Content-Length', '-1'), ('Content-Length', '1\n'),
                      ('Content-Length', '\u0661')):
            with self.subTest(field):
                self.assert_fails('header', 'ValueError', QUERY_STRING=ascii(field))
        for field in (('X', 1), ('X', b'a'), (b'X', 'a'), (1, 'a'), ['X', 'a'], ('X',),
                      ('X', 'a', 'b'), 'Xa', ('Content-Length', 1), (['X'], 'a')):
            with self.subTest(field):
                self.assert_fails('header', 'TypeError', QUERY_STRING=ascii(field))
        self.assert_fails('two_lengths', 'sent twice')
        for headers in ((('X', 'a'),), None, {'X': 'a'}):
            with self.subTest(headers):
                self.assert_fails('headers', 'must be a list', QUERY_STRING=ascii(headers))

    def test_hop_by_hop_fields_are_dropped(self):
        names = ('Connection', 'keep-alive', 'Transfer-Encoding', 'UPGRADE', 'TE', 'Trailer',
                 'Proxy-Authenticate', 'Proxy-Authorization', 'Proxy-Connection', 'Trailers')
        headers = [(name, 'a') for name in names] + [('X', 'b'), ('Content-Length', '1')]
        for _ in range(2):
            response = self.assert_complete('headers', b'x', '1', QUERY_STRING=ascii(headers))
            self.assertEqual([name.lower() for name, _ in response.fields],
                             ['x', 'content-length'])
        for name in names:
            with self.subTest(name):
                line = 'dropping the response header %s: only the server may send it' % name.lower()
                self.assertEqual(self.child.log().count(line), 1)
                self.assert_fails('header', 'line break', QUERY_STRING=ascii((name, 'a\nb')))

    def test_a_field_value_may_have_all_characters_of_latin_1(self):
        field = ascii(('X', 'a\xe9: \t\x01'))
        response = self.assert_complete('header', b'x', '1', QUERY_STRING=field)
        self.assertEqual(response.field('X'), 'a\xe9: \t\x01')

    def test_cached_fields_are_checked_again(self):
        self.assert_complete('headers', b'x', '1', QUERY_STRING=ascii([('X', 'a')]))
        self.assert_complete('headers', b'x', '1', QUERY_STRING=ascii([('X', 'a')]))
        for wrong in ((('X', 'a'),), [['X', 'a']], [('X', 'a', 'b')], [('x', 1)]):
            self.assert_fails('headers', 'TypeError', QUERY_STRING=ascii(wrong))

    def test_more_heads_than_fit_into_the_cache(self):
        for number in range(1200):
            field = 'X-%d' % number, 'a' * (number * 2)
            response = self.assert_complete('header', b'x', '1', QUERY_STRING=ascii(field))
            self.assertEqual(response.field(field[0]), field[1])

    def test_invalid_statuses_are_rejected(self):
        for status in ('200 OK\n', '200 O\rK', '20 OK', 'OK', '', '2000', '100 Continue', '600 No',
                       '200OK', '\u0662\u0660\u0660 OK', '200 \u20ac', '200 \0'):
            with self.subTest(status):
                self.assert_fails('status', 'ValueError', QUERY_STRING=ascii(status))
        for status in (200, b'200 OK', None, ['200 OK']):
            with self.subTest(status):
                self.assert_fails('status', 'TypeError', QUERY_STRING=ascii(status))
        self.assert_complete('status', b'x', '1', '299', QUERY_STRING='"299"')
        self.assert_complete('status', b'x', '1', '404 N\xe9', QUERY_STRING=ascii('404 N\xe9'))

    def test_the_validator_of_the_standard_library(self):
        for how in ('content', 'streamed'):
            response = self.get('valid', method='POST', CONTENT_LENGTH='7',
                                **{how: b'abcd\ne\nf'})
            self.assertEqual((response.status, response.content), ('200 OK', b'valid'))
        self.assertEqual(self.get('valid_generator').content, b'one two three')
        self.assert_complete('valid_empty', b'', None, '204 No Content')
        log = self.child.log()
        for name in ('valid', 'valid_generator', 'valid_empty'):
            self.assertNotIn('/%s: the application has failed' % name, log)
        self.assertNotIn('Iterator garbage collected', log)


if __name__ == '__main__':
    unittest.main()
