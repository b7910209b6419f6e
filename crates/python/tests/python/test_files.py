"""Files as WSGI responses: those that the server sends from a file descriptor, and those that the
process reads itself."""

import array
import os
import socket
import struct
import unittest

from peer import CHANNEL, END, FILE, FILES, GONE, HEAD, RESPONSE, WANT_CHANNEL, Child

SOURCE = '''
import gzip, io, os, tempfile

CONTENT = bytes(range(256)) * 1024
folder = tempfile.mkdtemp()
path = os.path.join(folder, 'content')
with open(path, 'wb') as file:
    file.write(CONTENT)
with gzip.open(path + '.gz', 'wb') as file:
    file.write(CONTENT)
closed = []


class Reader(io.BufferedReader):
    def read(self, size=-1):
        return super().read(size).upper()


def make(name):
    if name == 'gzip':
        return gzip.open(path + '.gz')
    if name == 'class':
        return Reader(io.FileIO(path))
    if name == 'raw':
        return io.FileIO(path)
    if name == 'memory':
        return io.BytesIO(CONTENT)
    if name == 'temporary':
        file = tempfile.TemporaryFile()
        file.write(CONTENT)
        file.seek(0)
        return file
    if name == 'small':
        file = open(path, 'rb')
        file.seek(-100, 2)
        return file
    if name == 'unmounted':
        # A file on an internal mount of the kernel, which /proc/self/mountinfo does not list.
        descriptor = os.memfd_create('content')
        os.write(descriptor, CONTENT)
        return open('/proc/self/fd/%d' % descriptor, 'rb')
    if name == 'device':
        return open('/dev/null', 'rb')
    file = open(path, 'rb')
    if name == 'position':
        file.read(1000)
    return file


def app(environ, start):
    name, _, length = environ['PATH_INFO'][1:].partition('/')
    if name == 'closed':
        start('200 OK', [('Content-Type', 'text/plain')])
        return [','.join(closed).encode()]
    fields = [('Content-Type', 'text/plain')]
    if length:
        fields.append(('Content-Length', length))
    start('200 OK', fields)
    wrapper = environ['wsgi.file_wrapper'](make(name))
    close = wrapper.close
    def closes():
        closed.append(name)
        close()
    wrapper.close = closes
    return wrapper
'''
CONTENT = bytes(range(256)) * 1024
TOKEN = b'0123456789abcdef'


def open_channel(child, link, token=TOKEN):
    channel = child.connect()
    channel.send(CHANNEL, 0, token)
    link.send(FILES, 0, token)
    # Once the process has responded, it has also read the frame CHANNEL.
    link.finish(link.start('/closed'))
    return channel


def receive_descriptor(channel):
    """Receives a file descriptor on a channel; returns its request number and the descriptor."""
    data, rights, _, _ = channel.socket.recvmsg(4, socket.CMSG_SPACE(4))
    descriptors = array.array('i')
    for level, kind, content in rights:
        assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        descriptors.frombytes(content)
    descriptor, = descriptors
    return struct.unpack('<I', data)[0], descriptor


class FilesTest(unittest.TestCase):
    def sent(self, link, channel, path):
        """Returns the head and body of a response that must be sent from a file descriptor."""
        number = link.start(path)
        head, file = link.finish(number).frames
        self.assertEqual((head.kind, file.kind), (HEAD, FILE))
        request_number, descriptor = receive_descriptor(channel)
        self.assertEqual(request_number, number)
        offset, size = struct.unpack('<QQ', file.content)
        with open(descriptor, 'rb') as file:
            return head.content, os.pread(file.fileno(), size, offset)

    def test_files_are_sent_by_the_server(self):
        with Child(SOURCE) as child:
            link = child.connect()
            channel = open_channel(child, link)
            for path, content in (
                    ('/open', CONTENT), ('/raw', CONTENT), ('/temporary', CONTENT),
                    ('/position', CONTENT[1000:]), ('/position/20000', CONTENT[1000:21000])):
                head, sent = self.sent(link, channel, path)
                self.assertEqual(sent, content, path)
                self.assertIn(b'Content-Length: %d\n' % len(content), head)
            closed = link.finish(link.start('/closed')).content
            self.assertEqual(closed, b'open,raw,temporary,position,position')

    def test_other_files_are_read_by_the_process(self):
        with Child(SOURCE) as child:
            link = child.connect()
            channel = open_channel(child, link)
            for path, content in (
                    ('/gzip', CONTENT), ('/class', CONTENT.upper()), ('/memory', CONTENT),
                    ('/small', CONTENT[-100:]), ('/device', b''), ('/unmounted', CONTENT)):
                response = link.finish(link.start(path))
                self.assertEqual(response.content, content, path)
                self.assertNotIn(FILE, [frame.kind for frame in response.frames])
            small = link.finish(link.start('/small'))
            self.assertEqual([frame.kind for frame in small.frames], [RESPONSE])
            # If the file is shorter than Content-Length, the response must not end successfully.
            response = link.finish(link.start('/open/1000000'))
            self.assertNotIn(response.frames[-1].kind, (END, FILE, RESPONSE))
            link.finish(link.start('/open', method='HEAD'))
            channel.socket.setblocking(False)
            with self.assertRaises(BlockingIOError):
                channel.socket.recvmsg(4, socket.CMSG_SPACE(4))

    def test_a_channel_is_requested_when_it_is_needed(self):
        for options in [(), ('--threads', '2')]:
            with Child(SOURCE, options=options) as child:
                link = child.connect()
                number = link.start('/open')
                while link.read_frame().kind != WANT_CHANNEL:
                    pass
                # The server opens no channel, so the process reads the file.
                link.send(FILES)
                self.assertEqual(link.finish(number).content, CONTENT)
                number = link.start('/open')
                while link.read_frame().kind != WANT_CHANNEL:
                    pass
                channel = child.connect()
                channel.send(CHANNEL, 0, TOKEN)
                link.send(FILES, 0, TOKEN)
                self.assertEqual([frame.kind for frame in link.finish(number).frames], [HEAD, FILE])
                receive_descriptor(channel)
                self.assertEqual(self.sent(link, channel, '/open')[1], CONTENT)
                # The process requests a new channel after it has lost one.
                channel.close()
                self.assertEqual(link.finish(link.start('/open')).content, CONTENT)
                number = link.start('/open')
                while link.read_frame().kind != WANT_CHANNEL:
                    pass
                # The client disconnects while the process waits for the channel.
                link.send(GONE, number)
                self.assertEqual(link.finish(number).last.kind, END)

    def test_threads_request_only_one_channel(self):
        with Child(SOURCE, options=('--threads', '4')) as child:
            link = child.connect()
            numbers = link.batch(*[dict(PATH_INFO='/open', REQUEST_METHOD='GET')] * 4)
            while link.read_frame().kind != WANT_CHANNEL:
                pass
            channel = child.connect()
            channel.send(CHANNEL, 0, TOKEN)
            link.send(FILES, 0, TOKEN)
            kinds = [[frame.kind for frame in link.finish(number).frames] for number in numbers]
            self.assertEqual(kinds, [[HEAD, FILE]] * 4)
            self.assertEqual({receive_descriptor(channel)[0] for _ in numbers}, set(numbers))
            self.assertNotIn(WANT_CHANNEL, [frame.kind for frame in link.other_frames])

    def test_the_server_can_close_the_channel(self):
        with Child(SOURCE) as child:
            link = child.connect()
            channel = open_channel(child, link)
            self.assertEqual(self.sent(link, channel, '/open')[1], CONTENT)
            link.send(FILES)
            # The process reads the next file itself, and has closed the channel.
            self.assertEqual(link.finish(link.start('/open')).content, CONTENT)
            self.assertEqual(channel.socket.recv(1), b'')

    def test_a_stopping_process_does_not_wait_for_a_channel(self):
        for options in [(), ('--threads', '2')]:
            with Child(SOURCE, options=options) as child:
                link = child.connect()
                number = link.start('/open')
                while link.read_frame().kind != WANT_CHANNEL:
                    pass
                child.stop()
                # The body fits into the initial window. Enlarging the window could fail, because
                # the process may have ended by then.
                self.assertEqual(link.finish(number, grants_window=False).content, CONTENT)
                self.assertEqual(child.wait(), 0)

    def test_files_are_read_while_the_channel_is_full(self):
        with Child(SOURCE) as child:
            link = child.connect()
            channel = open_channel(child, link)
            kinds = []
            while RESPONSE not in kinds and END not in kinds:
                response = link.finish(link.start('/open'))
                kinds = [frame.kind for frame in response.frames]
            self.assertEqual(response.content, CONTENT)
            # The descriptors that were sent before the channel was full can still be received.
            self.assertGreater(receive_descriptor(channel)[0], 0)
            self.assertEqual(child.process.poll(), None)


if __name__ == '__main__':
    unittest.main()
