"""Request bodies of WSGI (`wsgi.input`), which arrive with the request or piece by piece."""

import hashlib
import struct
import unittest

from peer import CONTENT, CONTENT_END, END, GONE, RESPONSE, WANT, Child

APPLICATION = '''
import hashlib, threading, time

calls = []


def read(environ, start):
    source = environ['wsgi.input']
    value = eval(environ['QUERY_STRING'], {'source': source})
    start('200 OK', [])
    return [repr(value).encode()]


def digest(environ, start):
    state, source = hashlib.sha256(), environ['wsgi.input']
    while True:
        piece = source.read(10000)
        state.update(piece)
        if not piece:
            break
    start('200 OK', [])
    return [state.hexdigest().encode()]


def echo(environ, start):
    start('200 OK', [])
    return iter(lambda: environ['wsgi.input'].read(50000), b'')


def unread(environ, start):
    start('200 OK', [])
    return [b'unread']


def caught(environ, start):
    try:
        environ['wsgi.input'].read()
    except OSError as error:
        calls.append(type(error).__mro__[1].__name__ + ': ' + str(error))
        raise


class UnreadablePostError(OSError):
    pass


def wrapped(environ, start):
    try:
        environ['wsgi.input'].read()
    except OSError as error:
        raise UnreadablePostError(*error.args) from error


def seen(environ, start):
    start('200 OK', [])
    return [repr(calls).encode()]


def other_thread(environ, start):
    pieces = []
    thread = threading.Thread(target=lambda: pieces.append(environ['wsgi.input'].read()))
    thread.start()
    thread.join()
    start('200 OK', [])
    return pieces


def kept(environ, start):
    calls.append(environ['wsgi.input'])
    start('200 OK', [])
    return [b'kept']


def kept_read(environ, start):
    source = calls.pop()
    start('200 OK', [])
    try:
        return [source.read()]
    except OSError as error:
        return [str(error).encode()]


def add_late_piece(environ, start):
    """Does what the thread that reads frames does if another thread has just ended the request."""
    calls.pop().raw.add_piece(b'late')
    start('200 OK', [])
    return [b'ignored']


def read_in_vain(environ, start):
    def read():
        try:
            environ['wsgi.input'].read()
        except OSError as error:
            calls.append(str(error))

    calls.append(threading.Thread(target=read, daemon=True))
    calls[-1].start()
    return end_once(lambda: environ['wsgi.input'].raw.receive_window, start)


def write_in_vain(environ, start):
    write = start('200 OK', [])

    def write_all():
        try:
            write(b'x' * 300000)
        except OSError as error:
            calls.append(str(error))

    calls.append(threading.Thread(target=write_all, daemon=True))
    calls[-1].start()
    request = start.__self__
    return end_once(lambda: request.head_frame_sent and not request.send_window, lambda *_: None)


def end_once(is_waiting, start):
    while not is_waiting():
        time.sleep(0.001)
    start('200 OK', [])
    return []


def join(environ, start):
    calls[0].join(10)
    start('200 OK', [])
    seen, calls[:] = calls[1:], []
    return [repr(seen).encode()]


def app(environ, start_response):
    return globals()[environ['PATH_INFO'][1:]](environ, start_response)
'''


class Content(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.child = Child(APPLICATION, options=cls.options)
        cls.link = cls.child.connect()

    @classmethod
    def tearDownClass(cls):
        cls.child.__exit__()

    def test_all_methods_of_wsgi_input(self):
        content = b'first\n\nthird line\nlast'
        cases = {
            'source.read()': content, 'source.read(-1)': content, 'source.read(None)': content,
            '(source.read(3), source.read(100), source.read(5), source.read())':
                (content[:3], content[3:], b'', b''),
            'source.read(0)': b'', 'source.readline()': b'first\n', 'source.readline(3)': b'fir',
            '[source.readline() for _ in range(5)]':
                [b'first\n', b'\n', b'third line\n', b'last', b''],
            'source.readlines()': [b'first\n', b'\n', b'third line\n', b'last'],
            'source.readlines(5)': [b'first\n'], 'list(source)': content.splitlines(True),
            '(source.read(2), next(source), source.readline(), source.read())':
                (b'fi', b'rst\n', b'\n', b'third line\nlast'),
        }
        for query, expected in cases.items():
            for how in ('content', 'streamed'):
                with self.subTest(query, how=how):
                    response = self.link.get('/read', 'POST', QUERY_STRING=query, **{how: content})
                    self.assertEqual(eval(response.content), expected)

    def test_a_body_that_is_not_read_is_not_requested(self):
        response = self.link.get('/unread', 'POST', streamed=b'never')
        self.assertEqual(response.kinds, [RESPONSE])
        response = self.link.get('/read', 'POST', streamed=b'never', QUERY_STRING='source.read(0)')
        self.assertEqual(response.kinds, [RESPONSE])

    def test_a_body_that_came_with_the_request_is_not_requested(self):
        response = self.link.get('/read', 'POST', content=b'abc', QUERY_STRING='source.read()')
        self.assertEqual(response.kinds, [RESPONSE])
        self.assertEqual(response.content, b"b'abc'")

    def test_empty_bodies(self):
        for how in ('content', 'streamed'):
            response = self.link.get('/read', QUERY_STRING='(source.read(), source.readline(), '
                                     'list(source), source.read(3))', **{how: b''})
            self.assertEqual(eval(response.content), (b'', b'', [], b''))

    def test_a_large_body_is_requested_in_parts(self):
        content = bytes(range(251)) * 40000
        number = self.link.start('/digest', 'POST', None)
        outstanding, offset = 0, 0
        while True:
            frame = self.link.read_frame_of(number)
            if frame.kind == RESPONSE:
                break
            self.assertEqual(frame.kind, WANT)
            outstanding += struct.unpack('<I', frame.content)[0]
            self.assertLessEqual(outstanding, 64 * 1024)
            # The pieces have odd sizes, like those that a network delivers.
            while outstanding and offset < len(content):
                size = min(outstanding, 7001, len(content) - offset)
                self.link.send(CONTENT, number, content[offset:offset + size])
                offset += size
                outstanding -= size
                if offset == len(content):
                    self.link.send(CONTENT_END, number)
        self.assertIn(hashlib.sha256(content).hexdigest().encode(), frame.content)

    def test_an_echo_of_a_large_upload(self):
        content = bytes(range(253)) * 8000
        response = self.link.get('/echo', 'POST', streamed=content)
        self.assertEqual(response.last.kind, END)
        self.assertEqual(response.content, content)

    def test_requests_that_arrive_while_a_body_is_awaited_are_run_later(self):
        first, second = self.link.batch({'PATH_INFO': '/digest', 'content': None},
                                        {'PATH_INFO': '/unread'})
        self.assertEqual(self.link.read_frame_of(first).kind, WANT)
        third = self.link.start('/unread')
        self.link.send(CONTENT_END, first)
        for number in (first, second, third):
            self.assertEqual(self.link.finish(number).kinds, [RESPONSE])

    def test_a_client_that_disconnects_while_its_body_is_read(self):
        number = self.link.start('/caught', 'POST', None)
        self.assertEqual(self.link.read_frame_of(number).kind, WANT)
        self.link.send(CONTENT, number, b'abc')
        self.link.send(GONE, number)
        self.assertEqual(self.link.finish(number).kinds, [END])
        seen = eval(self.link.get('/seen').content)
        self.assertEqual(seen[-1], 'ConnectionResetError: client disconnected before the whole '
                         'body was read')
        self.assertNotIn('/caught: the application has failed', self.child.log())

    def test_an_exception_whose_cause_is_a_disconnect_is_not_logged(self):
        number = self.link.start('/wrapped', 'POST', None)
        self.assertEqual(self.link.read_frame_of(number).kind, WANT)
        self.link.send(GONE, number)
        self.assertEqual(self.link.finish(number).kinds, [END])
        self.assertNotIn('/wrapped', self.child.log())

    def test_a_thread_of_the_application_reads_the_body(self):
        response = self.link.get('/other_thread', 'POST', streamed=b'x' * 200000)
        self.assertEqual(response.content, b'x' * 200000)

    def test_reading_the_body_of_a_finished_request(self):
        self.link.get('/kept', 'POST', None, streamed=b'never')
        self.assertEqual(self.link.get('/kept_read').content,
                         b'the request is finished: its body cannot be read')

    def test_a_piece_that_arrives_when_the_request_is_finished_is_ignored(self):
        self.link.get('/kept', 'POST', None, streamed=b'never')
        self.assertEqual(self.link.get('/add_late_piece').content, b'ignored')

    def test_a_thread_that_still_waits_when_the_request_is_finished(self):
        with Child(APPLICATION, options=self.options) as child:
            link = child.connect()
            for path in ('/read_in_vain', '/write_in_vain'):
                with self.subTest(path):
                    self.assertEqual(link.finish(
                        link.start(path, 'POST', None), grants_window=False).status, '200 OK')
                    self.assertEqual(eval(link.get('/join').content), ['the request is finished'])

    def test_exceeding_the_receive_window_ends_the_connection(self):
        for late, content in ((0, b'x' * 65537), (1, b'x')):
            with self.subTest(late), Child(APPLICATION) as child:
                link = child.connect()
                caught = {'PATH_INFO': '/caught', 'content': None}
                numbers = link.batch(caught, caught)
                link.read_frame_of(numbers[0])
                # The second request is not started, so its receive window is empty.
                link.send(CONTENT, numbers[late], content)
                with self.assertRaises((EOFError, ConnectionError)):
                    link.read_frame()
                self.assertEqual(child.connect().get('/unread').content, b'unread')
                self.assertIn('body exceeds the receive window', child.log())

    def test_a_connection_that_ends_while_a_body_is_read(self):
        link = self.child.connect()
        number = link.start('/caught', 'POST', None)
        link.read_frame_of(number)
        link.close()
        self.assertEqual(self.link.get('/unread').content, b'unread')


class ContentWithThreads(Content):
    options = ('--threads', '2')


if __name__ == '__main__':
    unittest.main()
