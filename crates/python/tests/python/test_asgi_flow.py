"""ASGI over HTTP: flow control of both bodies, disconnected clients, and the shutdown."""

import ast
import marshal
import os
import struct
import time
import unittest

from asgi_peer import AsgiChild, scope
from peer import (
    CONTENT, CONTENT_END, END, GIVEN_BACK, GONE, HEAD, REQUESTS, RESPONSE, RESPONSE_CONTENT, ROOM,
    TAKE_BACK, TIMEOUT_SECONDS, WANT)

APPLICATION = '''
import asyncio, os

HERE = os.path.dirname(os.path.abspath(__file__))
seen = []
event = None


async def start(send):
    await send({'type': 'http.response.start', 'status': 200})


async def body(send, content, more=False):
    await send({'type': 'http.response.body', 'body': content, 'more_body': more})


async def hello(scope, receive, send):
    await start(send)
    await body(send, b'hello')


async def count(scope, receive, send):
    """Receives the complete body, and responds with its size."""
    size = 0
    while True:
        message = await receive()
        size += len(message['body'])
        if not message['more_body']:
            break
    await start(send)
    await body(send, b'%d' % size)


async def held(scope, receive, send):
    """Receives one http.request event, and the other ones after a request of /set."""
    await receive()
    await event.wait()
    await count(scope, receive, send)


async def ignore(scope, receive, send):
    await hello(scope, receive, send)


async def upload_of_the_gone(scope, receive, send):
    while True:
        message = await receive()
        seen.append(message['type'])
        if message['type'] == 'http.disconnect':
            return


async def endless(scope, receive, send):
    await start(send)
    try:
        while True:
            await body(send, b'x' * 100000, True)
    except OSError as error:
        seen.append(type(error).__name__)
        raise


async def endless_wrapped(scope, receive, send):
    try:
        await endless(scope, receive, send)
    except OSError as error:
        raise ValueError('its cause is that the client has left') from error


async def together(scope, receive, send):
    """Sends parts of the body from several tasks at the same time, which ASGI does not forbid."""
    await start(send)
    letters = b'a', b'b', b'c', b'd'
    await asyncio.gather(*[body(send, letter * 300000, True) for letter in letters])
    await body(send, b'')


async def cancels(scope, receive, send):
    """Cancels two calls of send(): one has sent a part of its data, and the other one nothing."""
    await send({'type': 'http.response.start', 'status': 200,
                'headers': [(b'content-length', b'400001')]})
    parts = b'a' * 400000, b'b'
    tasks = [asyncio.ensure_future(body(send, part, True)) for part in parts]
    await event.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    seen.extend(task.cancelled() for task in tasks)
    await body(send, b'c')


async def watches(scope, receive, send):
    """Receives events while it sends the response, like applications that await a disconnect."""
    watch = asyncio.ensure_future(receive_all(receive))
    await start(send)
    await body(send, b'begun', True)
    await event.wait()
    await body(send, b'', False)
    seen.append(await watch)


async def receive_all(receive):
    types = []
    while not types or types[-1] != 'http.disconnect':
        types.append((await receive())['type'])
    return types


async def file_for_head(scope, receive, send):
    watch = asyncio.ensure_future(receive_all(receive))
    await asyncio.sleep(0)
    await start(send)
    await send({'type': 'http.response.pathsend', 'path': os.path.abspath(__file__)})
    seen.append(await watch)


async def waits(scope, receive, send):
    with open(os.path.join(HERE, 'started'), 'a') as file:
        file.write('.')
    while not event.is_set() and not os.path.exists(os.path.join(HERE, 'go')):
        await asyncio.sleep(0.001)
    await hello(scope, receive, send)


async def late_response(scope, receive, send):
    await event.wait()
    event.clear()
    await start(send)
    try:
        await body(send, b'late', scope['query_string'] == b'more')
    except OSError as error:
        seen.append(type(error).__name__)
        raise


async def app(scope, receive, send):
    global event
    if scope['type'] != 'http':
        raise ValueError('no lifespan')
    event = event or asyncio.Event()
    if scope['path'] == '/seen':
        await start(send)
        await body(send, ascii(seen).encode())
        seen.clear()
    elif scope['path'] == '/set':
        event.set()
        await hello(scope, receive, send)
    else:
        await globals()[scope['path'][1:]](scope, receive, send)
'''


class AsgiFlow(unittest.TestCase):
    def setUp(self):
        self.child = AsgiChild(APPLICATION)
        self.link = self.child.connect()

    def tearDown(self):
        self.child.__exit__()

    def seen(self):
        """Returns the events that the application has recorded, as soon as there are any."""
        while True:
            seen = ast.literal_eval(self.link.get('/seen').content.decode())
            if seen:
                return seen

    def assert_no_frame(self, number):
        """Asserts that the process has sent no further frames of a request."""
        self.link.get('/hello')
        self.assertEqual([one for one in self.link.other_frames if one.request == number], [])

    def read_want(self, number):
        """Returns by how many bytes the next frame of a request, WANT, enlarges the window."""
        frame = self.link.read_frame_of(number)
        self.assertEqual(frame.kind, WANT)
        return struct.unpack('<I', frame.content)[0]

    # Request bodies

    def test_a_body_is_requested_when_the_application_receives_it(self):
        content = bytes(range(256)) * 8000
        response = self.link.get('/count', 'POST', streamed=content)
        self.assertEqual(response.content, b'%d' % len(content))
        wanted = sum(struct.unpack('<I', one.content)[0] for one in response.frames
                     if one.kind == WANT)
        self.assertLessEqual(wanted, len(content) + 65536)
        self.assertEqual(self.link.get('/count', 'POST', streamed=b'').content, b'0')

    def test_a_body_that_the_application_does_not_receive_is_not_requested(self):
        number = self.link.start('/ignore', 'POST', content=None)
        self.assertEqual(self.link.finish(number).kinds, [RESPONSE])

    def test_a_slow_receiver_causes_backpressure(self):
        number = self.link.start('/held', 'POST', content=None)
        self.assertEqual(self.read_want(number), 65536)
        self.link.send(CONTENT, number, b'x' * 60000)
        # The application has received these bytes, which are more than half of the window, so the
        # process requests as many again.
        self.assertEqual(self.read_want(number), 60000)
        for size in (30000, 30000):
            self.link.send(CONTENT, number, b'y' * size)
            self.assert_no_frame(number)
        self.link.get('/set')
        self.assertEqual(self.read_want(number), 60000)
        self.link.send(CONTENT_END, number)
        self.assertEqual(self.link.finish(number).content, b'60000')

    def test_a_body_is_requested_in_large_parts(self):
        number = self.link.start('/count', 'POST', content=None)
        self.assertEqual(self.read_want(number), 65536)
        self.link.send(CONTENT, number, b'x' * 10000)
        self.assert_no_frame(number)
        self.link.send(CONTENT, number, b'x' * 30000)
        self.assertEqual(self.read_want(number), 40000)
        self.link.send(CONTENT_END, number)
        self.assertEqual(self.link.finish(number).content, b'40000')

    def test_exceeding_the_receive_window_ends_the_connection(self):
        for sent in (65537, 1):
            with self.subTest(sent):
                link = self.child.connect()
                number = link.start('/count' if sent > 1 else '/waits', 'POST', content=None)
                if sent > 1:
                    self.assertEqual(link.read_frame_of(number).kind, WANT)
                link.send(CONTENT, number, b'x' * sent)
                with self.assertRaises((EOFError, ConnectionError)):
                    link.read_frame()
        self.assertEqual(self.link.get('/hello').content, b'hello')

    def test_a_client_that_disconnects_during_its_upload(self):
        number = self.link.start('/upload_of_the_gone', 'POST', content=None)
        self.read_want(number)
        self.link.send(GONE, number)
        self.assertEqual(self.link.finish(number).kinds, [END])
        self.assertEqual(self.seen(), ['http.disconnect'])
        self.assertEqual(self.child.log(), '')

    # Response bodies

    def test_a_response_does_not_exceed_the_send_window(self):
        for path in ('/endless', '/endless_wrapped'):
            number = self.link.start(path)
            self.assertEqual(self.link.read_frame_of(number).kind, HEAD)
            sent = 0
            while sent < 256 * 1024:
                frame = self.link.read_frame_of(number)
                self.assertEqual(frame.kind, RESPONSE_CONTENT)
                self.assertLessEqual(len(frame.content), 65536)
                sent += len(frame.content)
            self.assertEqual(sent, 256 * 1024)
            self.assert_no_frame(number)
            self.link.send(ROOM, number, struct.pack('<I', 5))
            self.assertEqual(self.link.read_frame_of(number).content, b'x' * 5)
            self.assert_no_frame(number)
            self.link.send(GONE, number)
            self.assertEqual(self.link.finish(number).kinds, [END])
            self.assertEqual(self.seen(), ['ClientDisconnected'])
        self.assertEqual(self.child.log(), '')

    def test_body_messages_of_several_tasks_are_not_interleaved(self):
        response = self.link.get('/together')
        content = response.content
        parts = [content[offset:offset + 300000] for offset in range(0, len(content), 300000)]
        self.assertEqual(sorted(parts), [letter * 300000 for letter in (b'a', b'b', b'c', b'd')])
        self.assertEqual(response.last.kind, END)

    def test_a_cancelled_send_sends_all_of_its_data_or_nothing(self):
        number = self.link.start('/cancels')
        self.assertEqual(self.link.read_frame_of(number).kind, HEAD)
        content = b''
        while len(content) < 256 * 1024:
            content += self.link.read_frame_of(number).content
        self.link.get('/set')
        self.link.send_room(number, len(content))
        response = self.link.finish(number)
        self.assertEqual(response.last.kind, END)
        content += response.content
        self.assertEqual((content[:400000].strip(b'a'), content[400000:]), (b'', b'c'))
        self.assertEqual(self.seen(), [True, True])

    def test_a_pending_receive_ends_with_the_response(self):
        number = self.link.start('/watches')
        self.assertEqual(self.link.read_frame_of(number).kind, HEAD)
        self.assertEqual(self.link.read_frame_of(number).content, b'begun')
        self.assert_no_frame(number)
        self.link.get('/set')
        self.assertEqual(self.link.finish(number).kinds, [END])
        self.assertEqual(self.seen(), [['http.request', 'http.disconnect']])

    def test_a_pending_receive_ends_with_the_head_of_a_file(self):
        number = self.link.start('/file_for_head', 'HEAD')
        response = self.link.finish(number)
        self.assertEqual((response.kinds, response.content), ([RESPONSE], b''))
        self.assertGreater(int(response.field('content-length')), 1000)
        self.assertEqual(self.seen(), [['http.request', 'http.disconnect']])

    def test_sending_to_a_disconnected_client_raises_an_error_that_is_not_logged(self):
        for method, query in (('GET', b''), ('GET', b'more'), ('HEAD', b''), ('HEAD', b'more')):
            number = self.link.start('/late_response', method, query=query)
            self.link.send(GONE, number)
            self.assert_no_frame(number)
            self.link.get('/set')
            self.assertEqual(self.link.finish(number).kinds, [END])
            self.assertEqual(self.seen(), ['ClientDisconnected'])
        self.assertEqual(self.child.log(), '')

    # Connections

    def test_requests_run_at_the_same_time(self):
        numbers = self.link.batch(*[{'path': '/waits'}] * 32)
        self.assertEqual(self.link.get('/set').content, b'hello')
        for number in numbers:
            self.assertEqual(self.link.finish(number).content, b'hello')

    def test_no_request_is_given_back(self):
        number = self.link.start('/waits')
        self.link.send(TAKE_BACK, 0, struct.pack('<2I', number, 99))
        self.assertEqual(self.link.read_frame_of(0), (GIVEN_BACK, 0, b''))
        self.link.get('/set')
        self.assertEqual(self.link.finish(number).content, b'hello')

    def test_the_end_of_a_connection_disconnects_its_requests(self):
        other = self.child.connect()
        upload = other.start('/upload_of_the_gone', 'POST', content=None)
        other.read_frame_of(upload)
        stream = other.start('/endless')
        other.read_frame_of(stream)
        other.close()
        events = []
        end = time.monotonic() + TIMEOUT_SECONDS
        while len(events) < 2 and time.monotonic() < end:
            events += self.seen()
        self.assertEqual(sorted(events), ['ClientDisconnected', 'http.disconnect'])

    def test_a_batch_that_arrives_byte_by_byte(self):
        content = marshal.dumps([(7, scope(path='/hello'), b'')], 2)
        data = struct.pack('<III', REQUESTS, 0, len(content)) + content
        for offset in range(len(data)):
            self.link.socket.sendall(data[offset:offset + 1])
        self.assertEqual(self.link.finish(7).content, b'hello')

    def test_frames_of_finished_requests_are_ignored(self):
        number = self.link.start('/hello')
        self.link.finish(number)
        for kind in (CONTENT, CONTENT_END, GONE, 7, 8):
            self.link.send(kind, number)
        self.link.send(ROOM, number, struct.pack('<I', 1000))
        self.assertEqual(self.link.get('/hello').content, b'hello')

    def test_malformed_frames_end_only_their_connection(self):
        frames = [
            struct.pack('<III', 99, 0, 0), struct.pack('<III', RESPONSE, 0, 0),
            struct.pack('<III', REQUESTS, 0, 0), struct.pack('<III', REQUESTS, 0, 1024 * 1024 + 1),
            struct.pack('<III', REQUESTS, 0, 5) + b'wrong',
            struct.pack('<III', TAKE_BACK, 0, 3) + b'abc', struct.pack('<III', ROOM, 1, 0),
        ]
        for value in (7, [7], [(1, 2)], [(1, {}, b'', 4)], None, [(1, {}, b'')]):
            content = marshal.dumps(value, 2)
            frames.append(struct.pack('<III', REQUESTS, 0, len(content)) + content)
        # A WebSocket message for an HTTP request.
        content = marshal.dumps([(1, scope(path='/waits'), b'')], 2)
        data = struct.pack('<III', REQUESTS, 0, len(content)) + content
        frames.append(data + struct.pack('<III', 7, 1, 1) + b'\0')
        for data in frames:
            with self.subTest(data=data[:40]):
                other = self.child.connect()
                other.socket.sendall(data)
                with self.assertRaises((EOFError, ConnectionError)):
                    other.read_frame()
                self.assertEqual(self.link.get('/hello').content, b'hello')

    # The shutdown

    def test_sigterm_finishes_started_requests_and_gives_back_later_ones(self):
        waiting = [self.link.start('/waits') for _ in range(3)]
        stream = self.link.start('/endless')
        self.assertEqual(self.link.read_frame_of(stream).kind, HEAD)
        path = os.path.join(self.child.folder, 'started')
        self.assertEqual(os.path.getsize(path), 3)
        self.child.stop()
        late = None
        end = time.monotonic() + TIMEOUT_SECONDS
        while late is None and time.monotonic() < end:
            number = self.link.start('/hello')
            frame = self.link.read_frame()
            while frame.request == stream:
                frame = self.link.read_frame()
            if frame.kind == GIVEN_BACK:
                late = number
                self.assertEqual(struct.unpack('<I', frame.content), (number,))
            else:
                # The process has not received the signal yet.
                self.assertEqual((frame.kind, frame.request), (RESPONSE, number))
        self.assertIsNotNone(late)
        self.link.send(GONE, stream)
        self.assertEqual(self.link.finish(stream).last.kind, END)
        self.assertIsNone(self.child.process.poll())
        open(os.path.join(self.child.folder, 'go'), 'w').close()
        for number in waiting:
            self.assertEqual(self.link.finish(number).content, b'hello')
        self.link.close()
        self.assertEqual(self.child.wait(), 0)


if __name__ == '__main__':
    unittest.main()
