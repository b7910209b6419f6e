# Files of a WSGI application (PEP 3333, "Optional Platform-Specific File Handling"): the server
# sends what it can from the file, and this process reads the rest.

import _io
import _socket
import os


class FileWrapper:
    """The `wsgi.file_wrapper`: yields the content of an open file in pieces."""

    def __init__(self, filelike, block_size=PIECE_MAX_BYTES):
        self.filelike = filelike
        self.block_size = block_size
        # A file has all its content at once: smaller pieces would only be more frames.
        if hasattr(filelike, 'seekable') and filelike.seekable():
            self.block_size = max(block_size, PIECE_MAX_BYTES)
        if hasattr(filelike, 'close'):
            self.close = filelike.close

    def __iter__(self):
        return self

    def __next__(self):
        data = self.filelike.read(self.block_size)
        if not data:
            raise StopIteration
        return data


def find_open_file(filelike):
    """Returns descriptor, position and size of what is left of a regular file, as far as reading
    `filelike` gives just that; otherwise the descriptor is None.

    Others may have a descriptor, too, and give something else, such as what a file decompresses to.
    """
    kind = type(filelike)
    try:
        if kind is _io.BufferedReader or kind is _io.BufferedRandom:
            if type(filelike.raw) is not _io.FileIO:
                return None, 0, 0
            if kind is _io.BufferedRandom:
                filelike.flush()
        elif kind is not _io.FileIO:
            return None, 0, 0
        descriptor = filelike.fileno()
        status = os.fstat(descriptor)
        if status.st_mode & 0o170000 != 0o100000 or not filelike.readable():
            return None, 0, 0
        position = filelike.tell()
        return descriptor, position, max(0, status.st_size - position)
    except (OSError, ValueError):
        return None, 0, 0


def send_descriptor(channel, number, descriptor):
    """Sends the descriptor of a file for a request by a channel."""
    rights = _socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor_content.pack(descriptor)
    channel.sendmsg((number_content.pack(number),), (rights,), _socket.MSG_DONTWAIT)
