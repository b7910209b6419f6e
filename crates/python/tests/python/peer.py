"""The server's side of the protocol, which shares no code with the program under test.

It starts a process with an application, sends requests, and reads frames.
"""

import collections
import marshal
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap

REQUESTS, CONTENT, CONTENT_END, ROOM, GONE, TAKE_BACK = range(1, 7)
MESSAGE, CLOSED, STACK, FILES, CHANNEL = range(7, 12)
READY, RESPONSE, HEAD, RESPONSE_CONTENT, END, ABORT, FAILED, WANT, HINTS, GIVEN_BACK = range(16, 26)
ACCEPT, RESPONSE_MESSAGE, CLOSE, FILE, WANT_CHANNEL = range(26, 31)
LAST_KINDS = (RESPONSE, END, ABORT, FAILED, FILE)

# A process that sends nothing for so long has failed. Otherwise no test depends on timing.
TIMEOUT_SECONDS = 60

Frame = collections.namedtuple('Frame', 'kind request content')


# The path by which a process opens the program: its descriptor 3.
PROGRAM_PATH = '/dev/fd/3'


def prepare_process():
    """Prepares a new process before exec() like the server does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = os.open(os.environ['PINION_PYTHON_PROGRAM'], os.O_RDONLY)
    os.dup2(program, 3)


class Child:
    """A process that runs an application, given by its source code."""

    interface = 'wsgi'

    def __init__(self, source='', application='app:app', options=(), files=None, folder=None):
        self.home = tempfile.mkdtemp(prefix='pinion-python-')
        self.folder = folder or os.path.join(self.home, 'site')
        os.makedirs(self.folder, exist_ok=True)
        for name, text in dict(files or {}, **({'app.py': source} if source else {})).items():
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8') as file:
                file.write(textwrap.dedent(text))
        self.address = os.path.join(self.home, 'socket')
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.address)
        listener.listen(16)
        self.log_path = os.path.join(self.home, 'log')
        self.out_path = os.path.join(self.home, 'out')
        command = [sys.executable, PROGRAM_PATH, '--interface', self.interface]
        command += ['--folder', self.folder]
        # The process must not inherit PYTHON... variables, or an ignored SIGINT, from the process
        # that runs the tests.
        variables = {name: value for name, value in os.environ.items() if name[:6] != 'PYTHON'}
        with open(self.log_path, 'wb') as log, open(self.out_path, 'wb') as out:
            self.process = subprocess.Popen(
                command + list(options) + [application], stdin=listener, stdout=out, stderr=log,
                cwd=self.home, env=variables, pass_fds=(3,), preexec_fn=prepare_process)
        listener.close()
        self.links = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for link in self.links:
            link.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.home)

    def connect(self):
        link = self.make_link(self.address)
        self.links.append(link)
        link.ready = link.read_frame()
        assert link.ready.kind == READY, link.ready
        return link

    def make_link(self, address):
        return Link(address)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """Reads and closes the connections, as the server does, and returns the exit status."""
        for link in self.links:
            link.read_to_end()
        return self.process.wait(TIMEOUT_SECONDS)

    def log(self):
        with open(self.log_path, encoding='utf-8') as file:
            return file.read()

    def output(self):
        with open(self.out_path, encoding='utf-8') as file:
            return file.read()


class Response:
    """All frames that belong to the response to one request."""

    def __init__(self):
        self.frames = []

    @property
    def kinds(self):
        return [frame.kind for frame in self.frames]

    @property
    def last(self):
        return self.frames[-1]

    def head(self):
        for frame in self.frames:
            if frame.kind == RESPONSE:
                size, = struct.unpack_from('<I', frame.content)
                return frame.content[4:4 + size]
            if frame.kind == HEAD:
                return frame.content
        raise AssertionError('no head: %r' % self.frames)

    @property
    def status(self):
        return self.head().decode('latin-1').split('\n')[0]

    @property
    def fields(self):
        lines = self.head().decode('latin-1').split('\n')
        assert lines[-1] == '', lines
        return [tuple(line.split(': ', 1)) for line in lines[1:-1]]

    def field(self, name):
        values = [value for key, value in self.fields if key.lower() == name.lower()]
        assert len(values) < 2, values
        return values[0] if values else None

    @property
    def content(self):
        content = b''
        for frame in self.frames:
            if frame.kind == RESPONSE:
                size, = struct.unpack_from('<I', frame.content)
                content += frame.content[4 + size:]
            elif frame.kind == RESPONSE_CONTENT:
                content += frame.content
        return content


class Link:
    """The connection of a worker to a process."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT_SECONDS)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        self.number = 0
        self.other_frames = collections.deque()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def read_to_end(self):
        try:
            while self.socket.recv(65536):
                pass
        except OSError:
            pass  # The connection was closed, or reset because the process has not read all frames.
        self.socket.close()

    def send(self, kind, request=0, content=b''):
        self.socket.sendall(struct.pack('<III', kind, request, len(content)) + content)

    def receive(self, size):
        data = b''
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError('the process has closed the connection')
            data += piece
        return data

    def read_frame(self):
        kind, request, size = struct.unpack('<III', self.receive(12))
        return Frame(kind, request, self.receive(size))

    def batch(self, *requests):
        """Sends requests in one batch, and returns their numbers.

        Each request is a dict of environ variables. Its optional key "content" is the body.
        """
        tuples = []
        for request in requests:
            self.number += 1
            request = dict(request)
            content = request.pop('content', b'')
            tuples.append((self.number, self.describe(request), content))
        self.send_batch(tuples)
        return [number for number, _, _ in tuples]

    def send_batch(self, tuples):
        self.send(REQUESTS, 0, marshal.dumps(tuples, 2))

    def send_room(self, number, size):
        self.send(ROOM, number, struct.pack('<I', size))

    def describe(self, request):
        return environ(**request)

    def start(self, path='/', method='GET', content=b'', **more):
        return self.batch(dict(more, PATH_INFO=path, REQUEST_METHOD=method, content=content))[0]

    def read_frame_of(self, number):
        """Returns the next frame of a request, and stores frames of other requests for later."""
        for frame in self.other_frames:
            if frame.request == number:
                self.other_frames.remove(frame)
                return frame
        while True:
            frame = self.read_frame()
            if frame.request == number:
                return frame
            if frame.kind == WANT_CHANNEL:
                # Refuse the channel, so that the process reads files itself.
                self.send(FILES)
            self.other_frames.append(frame)

    def finish(self, number, content=None, grants_window=True):
        """Returns the response to a request, after reading all of its frames.

        It enlarges the send window of the process, and sends the request body as the process
        requests it.
        """
        response = Response()
        content = None if content is None else memoryview(content)
        is_sent = False
        while True:
            frame = self.read_frame_of(number)
            response.frames.append(frame)
            if frame.kind in LAST_KINDS:
                return response
            if frame.kind == RESPONSE_CONTENT and grants_window and frame.content:
                self.send_room(number, len(frame.content))
            if frame.kind == WANT and content is not None:
                size, = struct.unpack('<I', frame.content)
                if len(content):
                    self.send(CONTENT, number, bytes(content[:size]))
                    content = content[size:]
                if not len(content) and not is_sent:
                    is_sent = True
                    self.send(CONTENT_END, number)

    def get(self, path='/', method='GET', content=b'', streamed=None, **more):
        """Sends one request and returns its response. `streamed` is a body sent piece by piece."""
        if streamed is not None:
            content = None
        return self.finish(self.start(path, method, content, **more), streamed)


def environ(**more):
    base = {
        'REQUEST_METHOD': 'GET', 'SCRIPT_NAME': '', 'PATH_INFO': '/', 'QUERY_STRING': '',
        'wsgi.url_scheme': 'http',
        'SERVER_NAME': 'localhost', 'SERVER_PORT': '80', 'SERVER_PROTOCOL': 'HTTP/1.1',
        'REMOTE_ADDR': '127.0.0.1', 'HTTP_HOST': 'localhost',
    }
    base.update(more)
    return base
