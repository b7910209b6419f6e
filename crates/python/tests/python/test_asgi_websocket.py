"""ASGI over WebSocket: the handshake, messages, closing from both sides, and invalid messages."""

import ast
import json
import struct
import unittest

from asgi_peer import AsgiChild
from peer import (
    ABORT, CLOSED, END, FAILED, GONE, HEAD, MESSAGE, RESPONSE, RESPONSE_CONTENT, RESPONSE_MESSAGE,
    WANT)

APPLICATION = '''
import asyncio

seen = []


async def messages(scope, receive, send):
    """Sends the messages in the query string, and records two events that it then receives."""
    for message in eval(scope['query_string']):
        await send(message)
    seen.append(await receive())
    seen.append(await receive())


async def catch(scope, receive, send):
    """Sends messages, and records the exception that sending the last one raises."""
    *messages, last = eval(scope['query_string'])
    for message in messages:
        await send(message)
    try:
        await send(last)
    except Exception as error:
        seen.append('%s: %s' % (type(error).__name__, error))


async def echo(scope, receive, send):
    seen.append(await receive())
    await send({'type': 'websocket.accept'})
    while True:
        message = await receive()
        if message['type'] == 'websocket.disconnect':
            seen.append(message)
            seen.append(await receive())
            return
        await send(dict(message, type='websocket.send'))


async def collect(scope, receive, send):
    await send({'type': 'websocket.accept'})
    while True:
        message = await receive()
        seen.append(message.get('text', message['type']))
        if message['type'] == 'websocket.disconnect':
            return


async def slow(scope, receive, send):
    """Receives one message for each request of /next."""
    global semaphore
    semaphore = asyncio.Semaphore(0)
    await send({'type': 'websocket.accept'})
    await receive()
    while True:
        await semaphore.acquire()
        message = await receive()
        if message['type'] == 'websocket.disconnect':
            return
        seen.append(len(message['bytes']))


async def endless(scope, receive, send):
    await send({'type': 'websocket.accept'})
    try:
        while True:
            await send({'type': 'websocket.send', 'bytes': b'x' * 50000})
    except OSError as error:
        seen.append(type(error).__name__)
        raise


async def cancels(scope, receive, send):
    """Cancels a call of send() that has sent a part of its message, then sends another one."""
    global semaphore
    semaphore = asyncio.Semaphore(0)
    await send({'type': 'websocket.accept'})
    task = asyncio.ensure_future(send({'type': 'websocket.send', 'bytes': b'x' * 400000}))
    await semaphore.acquire()
    task.cancel()
    await asyncio.wait([task])
    seen.append(task.cancelled())
    await send(eval(scope['query_string'])[0])


async def send_to_the_gone(scope, receive, send):
    await send({'type': 'websocket.accept'})
    await receive()
    message = await receive()
    try:
        await send({'type': 'websocket.send', 'text': 'late'})
    except OSError as error:
        seen.append((message, type(error).__name__))
    await send({'type': 'websocket.close'})


async def returns(scope, receive, send):
    pass


async def accepts_and_returns(scope, receive, send):
    await send({'type': 'websocket.accept'})


async def raises(scope, receive, send):
    raise ValueError('before')


async def accepts_and_raises(scope, receive, send):
    await send({'type': 'websocket.accept'})
    raise ValueError('after')


async def app(scope, receive, send):
    if scope['type'] == 'websocket':
        await globals()[scope['path'][1:]](scope, receive, send)
    elif scope['type'] == 'http':
        if scope['path'] == '/next':
            semaphore.release()
            await asyncio.sleep(0)
        await send({'type': 'http.response.start', 'status': 200})
        await send({'type': 'http.response.body', 'body': ascii(seen).encode()})
        if scope['path'] == '/seen':
            seen.clear()
'''

ACCEPTED = {'type': 'websocket.accept'}
DENIED = {'type': 'websocket.http.response.start', 'status': 401, 'headers': [(b'x', b'a')]}


def text(data):
    return {'type': 'websocket.send', 'text': data}


def closing(**more):
    return dict(more, type='websocket.close')


def denial(content, **more):
    return dict(more, type='websocket.http.response.body', body=content)


class WebSockets(unittest.TestCase):
    def setUp(self):
        self.child = AsgiChild(APPLICATION)
        self.link = self.child.connect()

    def tearDown(self):
        self.child.__exit__()

    def seen(self):
        return ast.literal_eval(self.link.get('/seen').content.decode())

    def open(self, path, *messages, **more):
        return self.link.open(path, query_string=ascii(messages).encode(), **more)

    def caught(self, *messages):
        """Lets the application send messages; returns the exception that the last one causes."""
        socket = self.open('/catch', *messages)
        self.link.finish(socket.number)
        error, = self.seen()
        return error

    def test_messages_are_echoed(self):
        socket = self.link.open('/echo')
        self.assertEqual(socket.read_accept(), ['101 Switching Protocols', ''])
        for message in ('', 'a', '\xe9\u20ac\U0001f600', b'', b'\0\xff', 'x' * 70000,
                        b'y' * 1000000):
            socket.send(message)
            self.assertEqual(socket.read_message(), message)
        socket.close(4321, 'over')
        self.assertEqual(socket.read_frame().kind, END)
        closed = {'type': 'websocket.disconnect', 'code': 4321, 'reason': 'over'}
        self.assertEqual(self.seen(), [{'type': 'websocket.connect'}, closed, closed])

    def test_the_head_of_the_handshake(self):
        for more, lines in (
                ({'subprotocol': 'chat'}, ['Sec-WebSocket-Protocol: chat']),
                ({'subprotocol': None, 'headers': None}, []),
                ({'headers': [(b'x-a', b'1'), (b'x-a', b'2')]}, ['x-a: 1', 'x-a: 2']),
                ({'headers': [(b'connection', b'x'), (b'Upgrade', b'y')]}, [])):
            with self.subTest(more):
                socket = self.open('/messages', dict(ACCEPTED, **more))
                self.assertEqual(socket.read_accept(), ['101 Switching Protocols'] + lines + [''])

    def test_invalid_accept_messages(self):
        for more, error in (
                ({'subprotocol': 'a\nb'}, 'ValueError'), ({'subprotocol': 7}, 'ValueError'),
                ({'subprotocol': 'a, b'}, 'ValueError'),
                ({'headers': [(b'x', b'a\r\nb: c')]}, 'ValueError'),
                ({'headers': [('x', 'a')]}, 'TypeError'),
                ({'headers': [(b'content-length', b'1')]}, 'ValueError'),
                ({'headers': [(b'Sec-WebSocket-Accept', b'1')]}, 'ValueError')):
            with self.subTest(more):
                self.assertIn(error + ': ', self.caught(dict(ACCEPTED, **more)))

    def test_a_close_before_accept_is_a_403(self):
        socket = self.open('/messages', closing(code=4000))
        response = self.link.finish(socket.number)
        self.assertEqual((response.kinds, response.status), ([RESPONSE], '403'))
        self.assertEqual(response.content, b'')
        self.assertEqual([one['type'] for one in self.seen()],
                         ['websocket.connect', 'websocket.disconnect'])

    def test_a_websocket_is_rejected_with_a_response(self):
        socket = self.open('/messages', DENIED, denial(b'no'))
        response = self.link.finish(socket.number)
        self.assertEqual((response.kinds, response.status), ([RESPONSE], '401'))
        self.assertEqual((response.field('x'), response.content), ('a', b'no'))
        self.seen()
        socket = self.open('/messages', DENIED, denial(b'n', more_body=True), denial(b'o'))
        response = self.link.finish(socket.number)
        self.assertEqual(response.kinds, [HEAD, RESPONSE_CONTENT, RESPONSE_CONTENT, END])
        self.assertEqual((response.status, response.content), ('401', b'no'))

    def test_an_incomplete_rejecting_response(self):
        socket = self.open('/catch', DENIED, text('a'))
        self.assertEqual(self.link.finish(socket.number).kinds, [FAILED])
        socket = self.open('/catch', DENIED, denial(b'n', more_body=True), ACCEPTED)
        self.assertEqual(self.link.finish(socket.number).last.kind, ABORT)

    def test_a_close_after_accept(self):
        for more, expected in (({}, (1000, '')), ({'code': 3000, 'reason': '\xe9'}, (3000, '\xe9')),
                               ({'reason': None}, (1000, '')), ({'code': None}, (1000, ''))):
            with self.subTest(more):
                socket = self.open('/messages', ACCEPTED, text('last'), closing(**more))
                socket.read_accept()
                self.assertEqual(socket.read_message(), 'last')
                self.assertEqual(socket.read_close(), expected)
                self.assertEqual(socket.read_frame().kind, END)
                received = self.seen()[1]
                self.assertEqual((received['type'], received['code']),
                                 ('websocket.disconnect', expected[0]))

    def test_invalid_close_messages(self):
        for more in ({'code': 999}, {'code': 5000}, {'code': 1005}, {'code': 1006}, {'code': 1015},
                     {'code': '1000'}, {'reason': 'x' * 124}, {'reason': '\u20ac' * 42}):
            with self.subTest(more):
                self.assertIn('ValueError: ', self.caught(ACCEPTED, closing(**more)))

    def test_messages_in_a_wrong_state(self):
        for messages in (
                [text('a')], [{'type': 'http.response.start', 'status': 200}],
                [denial(b'a')], [{'type': 'websocket.connect'}], [ACCEPTED, ACCEPTED],
                [ACCEPTED, DENIED], [ACCEPTED, denial(b'')], [ACCEPTED, closing(), text('a')],
                [ACCEPTED, closing(), closing()], [closing(), ACCEPTED], [closing(), text('a')],
                [DENIED, closing()], [DENIED, denial(b'a'), denial(b'b')]):
            with self.subTest(messages):
                self.assertIn('RuntimeError: ', self.caught(*messages))

    def test_messages_of_wrong_types(self):
        for message in ({'text': b'a'}, {'bytes': 'a'}, {}, {'text': None}, {'bytes': 7}):
            with self.subTest(message):
                error = self.caught(ACCEPTED, dict(message, type='websocket.send'))
                self.assertIn('TypeError: ', error)

    def test_text_is_sent_if_bytes_is_none(self):
        socket = self.open('/messages', ACCEPTED, dict(text('a'), bytes=None))
        socket.read_accept()
        self.assertEqual(socket.read_message(), 'a')

    def test_an_application_that_returns_or_raises(self):
        for path, kinds, logged in (
                ('returns', [FAILED], 'neither accepted nor closed'),
                ('accepts_and_returns', [END], ''), ('raises', [FAILED], 'ValueError: before'),
                ('accepts_and_raises', [ABORT], 'ValueError: after')):
            with self.subTest(path):
                socket = self.link.open('/' + path)
                response = self.link.finish(socket.number)
                self.assertEqual([kind for kind in response.kinds if kind not in (26, WANT)], kinds)
                self.assertIn(logged, self.child.log())
        self.assertEqual(self.child.log().count('WebSocket /raises: '), 1)

    def test_a_client_that_disconnects(self):
        for kind, content, expected in (
                (GONE, b'', (1006, '')), (CLOSED, struct.pack('<H', 1005), (1005, '')),
                (CLOSED, struct.pack('<H', 1001) + 'caf\xe9'.encode(), (1001, 'caf\xe9'))):
            with self.subTest(expected):
                socket = self.link.open('/send_to_the_gone')
                socket.read_accept()
                self.link.send(kind, socket.number, content)
                self.assertEqual(socket.read_frame().kind, END)
                (message, error), = self.seen()
                self.assertEqual((message['code'], message['reason']), expected)
                self.assertEqual(error, 'ClientDisconnected')
        self.assertEqual(self.child.log(), '')

    def test_messages_before_a_close_are_received_first(self):
        socket = self.link.open('/collect')
        socket.read_accept()
        for number in range(5):
            socket.send(str(number))
        socket.close()
        self.link.finish(socket.number)
        self.assertEqual(self.seen(), ['websocket.connect', '0', '1', '2', '3', '4',
                                       'websocket.disconnect'])

    def test_a_slow_application_causes_backpressure(self):
        socket = self.link.open('/slow')
        socket.read_accept()
        piece = b'\x01' + b'x' * 9999
        sent = 0
        for _ in range(6):
            socket.send_piece(piece[1:], 1)
            sent += len(piece)
        self.assertEqual(socket.receive_window, 65536 - sent)
        # The application has received none of these messages, so the process does not enlarge the
        # window.
        self.assertEqual(self.seen(), [])
        self.assertFalse([one for one in self.link.other_frames if one.request == socket.number])
        for _ in range(4):
            self.link.get('/next')
        frame = self.link.read_frame_of(socket.number)
        self.assertEqual((frame.kind, struct.unpack('<I', frame.content)), (WANT, (40000,)))

    def test_a_message_larger_than_the_receive_window(self):
        socket = self.link.open('/slow')
        socket.read_accept()
        socket.send(b'y' * 1000000)
        self.link.get('/next')
        self.assertEqual(self.seen(), [1000000])

    def test_a_slow_client_causes_backpressure(self):
        socket = self.link.open('/endless')
        socket.read_accept()
        sent = 0
        while sent < 256 * 1024:
            frame = socket.read_frame()
            self.assertEqual(frame.kind, RESPONSE_MESSAGE)
            self.assertLessEqual(len(frame.content), 65536)
            sent += len(frame.content)
        self.assertEqual(sent, 256 * 1024)
        self.assertEqual(self.seen(), [])
        self.link.send_room(socket.number, 100)
        self.assertEqual(len(socket.read_frame().content), 100)
        self.link.send(GONE, socket.number)
        self.assertEqual(socket.read_frame().kind, END)
        self.assertEqual(self.seen(), ['ClientDisconnected'])
        self.assertEqual(self.child.log(), '')

    def start_cancelled(self, message):
        socket = self.open('/cancels', message)
        socket.read_accept()
        size = 0
        while size < 256 * 1024:
            size += len(socket.read_frame().content)
        self.assertEqual(self.link.get('/next').status, '200')
        return socket

    def test_a_message_is_sent_whole_although_its_send_is_cancelled(self):
        socket = self.start_cancelled(text('next'))
        self.link.send_room(socket.number, 256 * 1024)
        rest = 400000 - (256 * 1024 - 4)
        self.assertEqual(socket.read_message(), b'x' * rest)
        self.assertEqual(socket.read_message(), 'next')
        self.assertEqual(socket.read_frame().kind, END)
        self.assertEqual(self.seen(), [True])

    def test_a_close_after_a_cancelled_send_does_not_wait_for_the_client(self):
        socket = self.start_cancelled(closing(code=4000))
        self.assertEqual(socket.read_close(), (4000, ''))
        self.assertEqual(socket.read_frame().kind, END)

    def test_malformed_frames_end_the_connection(self):
        for kind, content in ((MESSAGE, b''), (MESSAGE, b'\0' * 65537), (CLOSED, b'a')):
            with self.subTest(kind):
                link = self.child.connect()
                socket = link.open('/echo')
                socket.read_accept()
                link.send(kind, socket.number, content)
                with self.assertRaises((EOFError, ConnectionError)):
                    while True:
                        link.read_frame()
        self.assertEqual(json.loads(self.link.ready.content)['interface'], 'asgi')
        self.assertEqual(self.link.get('/seen').status, '200')


if __name__ == '__main__':
    unittest.main()
