# The protocol between the Pinion server and this Python process, and every limit of this program.
#
# Both sides exchange frames. A frame is a header of 12 bytes, which are three little-endian u32
# (kind, number of the request, length of the payload), and the payload.
#
# parts.py executes all files of this program in one global namespace, so each file can use the
# names of the others without an import.

import struct

# Kinds of frames that the server sends. REQUESTS is a batch of requests. CONTENT and CONTENT_END
# carry a request body, and ROOM enlarges the window in which this process may send a response body.
# GONE reports that the client has disconnected, or that the response is no longer needed. TAKE_BACK
# asks for requests that were not started. MESSAGE and CLOSED are events of a WebSocket. STACK asks
# for the stack trace of a request. FILES and CHANNEL set up the channel for file descriptors
# (connection.py).
REQUESTS, CONTENT, CONTENT_END, ROOM, GONE, TAKE_BACK = 1, 2, 3, 4, 5, 6
MESSAGE, CLOSED, STACK, FILES, CHANNEL = 7, 8, 9, 10, 11
# Kinds of frames that this process sends. READY comes first on each connection. RESPONSE is a
# complete response; HEAD, RESPONSE_CONTENT and END are one in several frames. FAILED reports a
# failure before the head was sent, and ABORT one after it. WANT enlarges the window in which the
# server may send a request body or WebSocket messages. HINTS is a 103 response. GIVEN_BACK returns
# requests that were not started. ACCEPT, RESPONSE_MESSAGE and CLOSE are sent for a WebSocket. FILE
# refers to a file descriptor on the channel that WANT_CHANNEL asks for.
READY, RESPONSE, HEAD, RESPONSE_CONTENT, END, ABORT = 16, 17, 18, 19, 20, 21
FAILED, WANT, HINTS, GIVEN_BACK = 22, 23, 24, 25
ACCEPT, RESPONSE_MESSAGE, CLOSE, FILE, WANT_CHANNEL = 26, 27, 28, 29, 30

HEADER_BYTES = 12
# The maximum payload of a frame: a batch of requests. A longer frame ends the connection.
FRAME_MAX_BYTES = 1024 * 1024
# The buffer size of one recv() call. Most batches fit into it, and malloc() does not use mmap() for
# a block of this size.
RECEIVE_MAX_BYTES = 64 * 1024
# The maximum size of one piece of a response body, and of a body that is sent in one frame with its
# head.
PIECE_MAX_BYTES = 64 * 1024
# This process reads files smaller than this itself, which costs less than sending the descriptor.
FILE_MIN_BYTES = 16 * 1024
# The initial send window of a response: the number of body bytes that may be sent before the server
# enlarges the window with ROOM.
INITIAL_ROOM_BYTES = 256 * 1024
# The maximum receive window of a request: body bytes that were requested with WANT and have not
# arrived. The server buffers as much for each request.
WANT_MAX_BYTES = 64 * 1024
# How long this process waits, after it has sent everything, until the server has closed its
# connections.
CLOSE_TIMEOUT_SECONDS = 2
# How long this process accepts no connections after accept() has failed, because it has no free
# descriptor, for example. Until then epoll would report the listener again and again.
ACCEPT_RETRY_SECONDS = 1
# The maximum length of one line for the server's log.
LOG_LINE_MAX_BYTES = 1000
# At most this many small responses are held back to share one send() call, so that the server wakes
# up once for all of them. If a slow call of the application follows quick ones, the watchdog thread
# (wsgi_threads.py) sends the held responses.
HELD_MAX_RESPONSES = 16
# A larger response is sent immediately, together with the held ones, because the send() call is a
# small part of its cost.
HELD_RESPONSE_MAX_BYTES = 4 * 1024
# Responses are held only after this many consecutive calls of the application that each took no
# longer than QUICK_CALL_MAX_SECONDS.
QUICK_CALLS_MIN = 16
QUICK_CALL_MAX_SECONDS = 0.0002
# How often the watchdog thread checks whether the current call of the application takes long.
WATCHDOG_INTERVAL_SECONDS = 0.005
# How often the watchdog of an asyncio event loop checks whether the loop reads the frames of the
# server, and the maximum number of unread bytes that it inspects: the size of the kernel's buffer.
LOOP_CHECK_SECONDS = 0.5
PEEK_MAX_BYTES = 256 * 1024
# How long the cache may answer whether the file system of a device is local (wsgi_files.py).
LOCAL_DEVICE_SECONDS = 5
# The maximum number of entries of each cache: field names, statuses, and response heads.
CACHE_MAX_ENTRIES = 512
CACHED_HEAD_MAX_BYTES = 1024
# The maximum length of the reason in a WebSocket close frame (RFC 6455, section 5.5).
CLOSE_REASON_MAX_BYTES = 123
# How many causes of an exception are searched for ClientDisconnected.
EXCEPTION_CHAIN_MAX = 16
# How many batches in a row are read directly from the only connection before epoll is used again,
# so that new connections are accepted.
DIRECT_READS_MAX = 16
# How many batches follow before a direct read is tried again after one has found no data. This
# limits the wasted calls to one in so many batches.
DIRECT_READ_PAUSE_BATCHES = 64

# The layouts of a frame header, of the same with the length of a response head, and of payloads.
frame_header_format = struct.Struct('<III')
response_header_format = struct.Struct('<IIII')
u32_format = struct.Struct('<I')
file_range_format = struct.Struct('<QQ')
descriptor_format = struct.Struct('=i')


def encode_frame(kind, request, payload=b''):
    return frame_header_format.pack(kind, request, len(payload)) + payload


def encode_log_line(text):
    """Returns `text` as one line of UTF-8 for the server's log."""
    line = ' '.join(text.split())
    return line.encode('utf-8', 'replace')[:LOG_LINE_MAX_BYTES]


class ProtocolError(Exception):
    """The server has sent bytes that are not a valid frame; the connection ends."""


def decode_frames(data):
    """Returns the complete frames at the start of `data`, and the number of bytes they occupy.

    Each frame is a tuple of kind, request number and payload.
    """
    frames = []
    offset = 0
    size = len(data)
    while size - offset >= HEADER_BYTES:
        kind, request, length = frame_header_format.unpack_from(data, offset)
        if length > FRAME_MAX_BYTES:
            raise ProtocolError('frame of %d bytes exceeds the maximum' % length)
        end = offset + HEADER_BYTES + length
        if end > size:
            break
        frames.append((kind, request, data[offset + HEADER_BYTES:end]))
        offset = end
    return frames, offset


def decode_numbers(payload):
    """Returns the u32 numbers in the payload of a frame."""
    if len(payload) % 4:
        raise ProtocolError('payload of %d bytes is not a list of u32' % len(payload))
    return struct.unpack('<%dI' % (len(payload) // 4), payload)


def decode_number(payload):
    numbers = decode_numbers(payload)
    if len(numbers) != 1:
        raise ProtocolError('expected one u32, got %d' % len(numbers))
    return numbers[0]
