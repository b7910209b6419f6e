# The frames between Pinion and this process, and every limit of the program.
#
# A frame is a header of 12 bytes (kind, request, length of the content; little-endian u32) and its
# content. The files of the program are joined and executed as one, so they share their names.

import struct

# Kinds of frames from the server.
REQUESTS, CONTENT, CONTENT_END, ROOM, GONE, TAKE_BACK = 1, 2, 3, 4, 5, 6
MESSAGE, CLOSED, STACK, FILES, CHANNEL = 7, 8, 9, 10, 11
# Kinds of frames to the server.
READY, RESPONSE, HEAD, RESPONSE_CONTENT, END, ABORT = 16, 17, 18, 19, 20, 21
FAILED, WANT, HINTS, GIVEN_BACK = 22, 23, 24, 25
ACCEPT, RESPONSE_MESSAGE, CLOSE, FILE, WANT_CHANNEL = 26, 27, 28, 29, 30

HEADER_BYTES = 12
# A batch of requests has at most this content. A longer frame ends the connection.
FRAME_MAX_BYTES = 1024 * 1024
# One call of recv: most batches fit, and the memory is below the threshold of mmap in malloc.
RECEIVE_MAX_BYTES = 64 * 1024
# A piece of response content, and the content of a whole response in one frame.
PIECE_MAX_BYTES = 64 * 1024
# A smaller file is read here: that takes less than sending its descriptor.
FILE_MIN_BYTES = 16 * 1024
# Response content that may be sent before the server has allowed more.
INITIAL_ROOM_BYTES = 256 * 1024
# Request content that is asked for and has not arrived: as much as the server buffers for it.
WANT_MAX_BYTES = 64 * 1024
# At the end, after all was sent: how long the server may need to close its connections.
CLOSE_TIMEOUT_SECONDS = 2
# A line for the log of the server.
LOG_LINE_MAX_BYTES = 1000
# Small responses that wait for the next one to share a call of send: the server wakes once for
# each. A call that takes long after quick ones holds them up until the watch sends them.
HELD_MAX_RESPONSES = 16
# A larger response is sent at once, with those that wait: the call is a small part of its cost.
HELD_RESPONSE_MAX_BYTES = 4 * 1024
# Responses are held only after as many calls of the application that were as quick as this.
QUICK_CALLS_MIN = 16
QUICK_CALL_MAX_SECONDS = 0.0002
# How often the watch thread looks whether a call of the application takes long.
WATCH_INTERVAL_SECONDS = 0.005
# How often the watch of an event loop looks whether the loop reads what the server asks, and how
# much of that it looks at: as much as the kernel buffers.
WATCH_LOOP_SECONDS = 0.5
PEEK_MAX_BYTES = 256 * 1024
# How long it is believed that a device has a local file system.
LOCAL_DEVICE_SECONDS = 5
# Names of fields, statuses and heads that are remembered, each.
REMEMBERED_MAX = 512
REMEMBERED_HEAD_MAX_BYTES = 1024
# The reason in the close frame of a WebSocket (RFC 6455, section 5.5).
CLOSE_REASON_MAX_BYTES = 123
# Causes of an exception that are searched for the one that a client has left.
CAUSES_MAX = 16
# Batches in a row that are read from the only connection before others are looked for.
DIRECT_READS_MAX = 16
# Batches until that is tried again after nothing had arrived: one wasted call in so many.
DIRECT_READ_PAUSE_BATCHES = 64

frame_header = struct.Struct('<III')
response_header = struct.Struct('<IIII')
number_content = struct.Struct('<I')
file_content = struct.Struct('<QQ')
descriptor_content = struct.Struct('=i')


def encode_frame(kind, request, content=b''):
    return frame_header.pack(kind, request, len(content)) + content


def encode_log_line(text):
    """Returns `text` as one line of UTF-8 for the log of the server."""
    line = ' '.join(text.split())
    return line.encode('utf-8', 'replace')[:LOG_LINE_MAX_BYTES]


class ProtocolError(Exception):
    """The server has sent what is no frame; the connection ends."""


def decode_frames(data):
    """Returns the frames at the beginning of `data` and the number of their bytes.

    A frame is a tuple of kind, request and content.
    """
    frames = []
    offset = 0
    size = len(data)
    while size - offset >= HEADER_BYTES:
        kind, request, length = frame_header.unpack_from(data, offset)
        if length > FRAME_MAX_BYTES:
            raise ProtocolError('a frame of %d bytes' % length)
        end = offset + HEADER_BYTES + length
        if end > size:
            break
        frames.append((kind, request, data[offset + HEADER_BYTES:end]))
        offset = end
    return frames, offset


def decode_numbers(content):
    """Returns the u32 numbers that are the content of a frame."""
    if len(content) % 4:
        raise ProtocolError('numbers of %d bytes' % len(content))
    return struct.unpack('<%dI' % (len(content) // 4), content)


def decode_number(content):
    numbers = decode_numbers(content)
    if len(numbers) != 1:
        raise ProtocolError('%d numbers in place of one' % len(numbers))
    return numbers[0]
