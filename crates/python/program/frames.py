# The protocol between the Pinion server and this Python process, and every limit of this program.
#
# A worker is an event-loop thread of the Pinion server, not a Python process as in gunicorn. Each
# worker opens one connection to each process that it uses. Both sides exchange frames on it. A
# frame is a header of 12 bytes, which are three little-endian u32 (kind, number of the request,
# length of the payload), and the payload. Frames that belong to no single request have the number
# 0; in this table, n is the number of a request.
#
# From the server        Payload
# REQUESTS            0  a marshalled list of tuples: number, environ or scope, and body; the body
#                        is None if it follows in CONTENT frames
# CONTENT             n  a piece of the request body
# CONTENT_END         n  empty: the request body is complete
# ROOM                n  u32: so many more bytes of a response or of messages may be sent
# GONE                n  empty: the client has disconnected, or the response is no longer needed
# TAKE_BACK           0  u32 each: the numbers of requests to give back if they were not started
# MESSAGE             n  a flags byte (asgi_websocket.py), and a piece of a WebSocket message
# CLOSED              n  u16: the code with which the client has closed the WebSocket; the reason
# STACK               n  empty: the process logs the stack trace of the request
# FILES               0  the token of the new channel for descriptors; empty if there is none
# CHANNEL             0  a token: this connection becomes the channel for descriptors
#
# From this process      Payload
# READY               0  a JSON object that describes the process; the first frame of a connection
# RESPONSE            n  u32: the length of the head; then the head and the complete body
# HEAD                n  the head of a response in several frames: the status line, and header lines
# RESPONSE_CONTENT    n  a piece of the response body
# END                 n  empty: the response is complete
# ABORT               n  a line for the log: the application has failed after the head was sent
# FAILED              n  a line for the log: the application has failed before the head was sent
# WANT                n  u32: the server may send so many more bytes of the body or of messages
# HINTS               n  the header lines of a 103 response
# GIVEN_BACK          0  u32 each: the numbers of requests that were not started and will not be
# ACCEPT              n  the head with which the application accepts a WebSocket
# RESPONSE_MESSAGE    n  a flags byte, and a piece of a WebSocket message
# CLOSE               n  u16: the code with which the application closes the WebSocket; the reason
# FILE                n  two u64: offset and length of the part of a file that is the response body
# WANT_CHANNEL        0  empty: the process has a descriptor to send
#
# A process sends the descriptors of files on a channel, a second connection of the worker. It asks
# for one with WANT_CHANNEL. The server opens a connection, on which its only frame is CHANNEL with
# a random token, and sends FILES with the same token on the connection of the worker. The process
# then sends each descriptor on the channel, together with the number of its request as a u32, and
# after it HEAD and FILE on the connection of the worker.
#
# parts.py executes all files of this program in one global namespace, so each file can use the
# names of the others without an import.

import struct

# The kinds of frames that the server sends.
REQUESTS, CONTENT, CONTENT_END, ROOM, GONE, TAKE_BACK = 1, 2, 3, 4, 5, 6
MESSAGE, CLOSED, STACK, FILES, CHANNEL = 7, 8, 9, 10, 11
# The kinds of frames that this process sends.
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
# up once for all of them. If a slow call of the application follows quick ones, the backup reader
# (wsgi_threads.py) sends the held responses.
HELD_MAX_RESPONSES = 16
# A larger response is sent immediately, together with the held ones, because the send() call is a
# small part of its cost.
HELD_RESPONSE_MAX_BYTES = 4 * 1024
# Responses are held only after this many consecutive calls of the application that each took no
# longer than QUICK_CALL_MAX_SECONDS.
QUICK_CALLS_MIN = 16
QUICK_CALL_MAX_SECONDS = 0.0002
# How often the backup reader checks whether the current call of the application takes long.
BACKUP_READER_INTERVAL_SECONDS = 0.005
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
