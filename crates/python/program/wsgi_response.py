# One request of a WSGI application (PEP 3333): start_response(), the response body, and its end.

# All control characters except the tab.
CONTROL_CHARACTERS = frozenset([chr(code) for code in range(32) if code != 9] + ['\x7f'])

# Caches: whether responses with a status have a body, and the kinds of header fields by name.
# Applications use few statuses and names, so each of them is checked only once.
cached_status_has_body = {}
cached_field_kinds = {}
# A cache of response heads by status and headers, because most applications send the same ones
# repeatedly.
cached_heads = {}


def is_status(text):
    """Returns whether `text` is a status from 200 to 599, with or without a reason phrase."""
    code = text[:3]
    return (len(code) == 3 and code.isascii() and code.isdigit() and '2' <= code[0] <= '5'
            and text[3:4] in ('', ' ') and CONTROL_CHARACTERS.isdisjoint(text))


def check_status(status):
    if not isinstance(status, str):
        raise TypeError('the status must be a str, not %s' % type(status).__name__)
    if not is_status(status):
        raise ValueError('invalid status: %r (expected a line such as "200 OK")' % (status,))
    has_body = status[:3] not in ('204', '304')
    if len(cached_status_has_body) < CACHE_MAX_ENTRIES:
        cached_status_has_body[str(status)] = has_body
    return has_body


def check_field_name(name):
    if not isinstance(name, str):
        raise TypeError('the name of a header must be a str, not %s' % type(name).__name__)
    if not is_token(name):
        raise ValueError('invalid header name: %r' % (name,))
    kind = classify_field(name)
    if len(cached_field_kinds) < CACHE_MAX_ENTRIES:
        cached_field_kinds[str(name)] = kind
    return kind


def check_field_value(name, value):
    if not isinstance(value, str):
        raise TypeError('the value of %s must be a str, not %s' % (name, type(value).__name__))
    if '\n' in value or '\r' in value or '\0' in value:
        raise ValueError('the value of %s has a line break or NUL: %r' % (name, value))


def encode_fields(fields):
    """Checks the headers; returns all but Content-Length as lines, and the value of that one."""
    if not isinstance(fields, list):
        raise TypeError('the headers must be a list, not %s' % type(fields).__name__)
    lines = ''
    length = None
    count = 0
    for field in fields:
        if type(field) is not tuple or len(field) != 2:
            raise TypeError('a header must be a tuple of name and value, not %r' % (field,))
        name, value = field
        kind = cached_field_kinds.get(name) if type(name) is str else None
        if kind is None:
            kind = check_field_name(name)
        if kind == LENGTH_FIELD:
            length = decode_length(value, length)
            continue
        if type(value) is not str or kind == DROPPED_FIELD:
            check_field_value(name, value)
        if kind == ORDINARY_FIELD:
            lines += name + ': ' + value + '\n'
            count += 1
    if lines.count('\n') != count or '\r' in lines or '\0' in lines:
        for name, value in fields:
            check_field_value(name, value)
    return lines, length


def encode_head(status, headers):
    """Returns a tuple of what is needed to start a response:

    - the head without Content-Length, as bytes
    - the value of Content-Length, or None
    - whether the response has a body
    - the head with Content-Length; None if that is unknown, the response has no body, or the body
      does not fit into one frame with its head
    """
    has_body = cached_status_has_body.get(status) if type(status) is str else None
    if has_body is None:
        has_body = check_status(status)
    lines, length = encode_fields(headers)
    try:
        head = (status + '\n' + lines).encode('latin-1')
    except UnicodeEncodeError as error:
        raise ValueError('status and headers must be Latin-1: %s' % error) from None
    one_frame_head = None
    if has_body and length is not None and length <= PIECE_MAX_BYTES:
        one_frame_head = head + b'Content-Length: %d\n' % length
    return head, length, has_body, one_frame_head


def cache_head(key, head):
    if len(head[0]) <= CACHED_HEAD_MAX_BYTES:
        if len(cached_heads) >= CACHE_MAX_ENTRIES:
            cached_heads.clear()
        cached_heads[key] = head


def decode_length(value, earlier_length):
    check_field_value('Content-Length', value)
    if not is_length(value):
        raise ValueError('invalid Content-Length: %r' % (value,))
    if earlier_length is not None:
        raise ValueError('Content-Length is sent twice')
    return int(value)


class WsgiRequest:
    """One request, from its arrival in a batch until its last frame is sent."""

    # Defaults of attributes. Creating a request sets only the four attributes that always differ.
    method = path = '-'
    # The identifier of the pool thread that runs the request, if there is a pool.
    thread = None
    # The X-Request-Id, while the application runs.
    id = None
    # The RequestBody, if the body arrives piece by piece.
    input = None
    send_window = INITIAL_ROOM_BYTES
    # Whether the server has reported that the client has disconnected or needs no response.
    is_disconnected = False
    # The head without Content-Length, as bytes, once start_response() was called.
    head = None
    has_body = True
    content_length = None
    # The head with Content-Length, as long as the complete body can follow it in one frame.
    one_frame_head = None
    sent_body_bytes = 0
    # Whether a HEAD frame was sent. It stays False if the response is one RESPONSE frame.
    head_frame_sent = False
    # Whether the last frame was sent. Anything that the application does after that has no effect.
    last_frame_sent = False
    was_truncated = False

    def __init__(self, connection, number, environ, body):
        self.connection = connection
        self.number = number
        self.environ = environ
        self.body = body

    def start_response(self, status, headers, exc_info=None):
        """Implements the callable of PEP 3333, section "The start_response() Callable"."""
        if exc_info:
            try:
                if self.head_frame_sent or self.last_frame_sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.head is not None:
            raise AssertionError('start_response was called twice without exc_info')
        try:
            # Only a list becomes part of the cache key: tuple() would exhaust an iterator.
            key = (status, tuple(headers)) if type(headers) is list else None
            head = cached_heads.get(key)
        except TypeError:
            key = head = None  # A part is not hashable, so it is not a str; encode_head() raises.
        if head is None:
            head = encode_head(status, headers)
            if key is not None:
                cache_head(key, head)
        self.head, self.content_length, self.has_body, self.one_frame_head = head
        return self.write

    def write(self, data):
        """Sends a piece of the body immediately. start_response() returns this callable."""
        if not isinstance(data, bytes):
            raise TypeError('the body must be bytes, not %s' % type(data).__name__)
        if self.is_disconnected:
            raise ClientDisconnected('client disconnected')
        if data:
            self.send_chunk(data)

    def early_hints(self, headers):
        """Sends a 103 response. `headers` is a list of pairs, each a name and a value."""
        if self.head_frame_sent or self.last_frame_sent or self.is_disconnected:
            return
        fields = []
        for name, value in headers:
            if isinstance(name, bytes):
                name = name.decode('latin-1')
            if isinstance(value, bytes):
                value = value.decode('latin-1')
            fields.append((name, value))
        lines, length = encode_fields(fields)
        if length is not None:
            raise ValueError('early hints have no Content-Length')
        self.connection.send(encode_frame(HINTS, self.number, lines.encode('latin-1')))

    def content_length_line(self, length):
        """Returns the Content-Length line, or b'' for a 204, which has none (RFC 9110, 8.6)."""
        if length is None or self.head.startswith(b'204'):
            return b''
        return b'Content-Length: %d\n' % length

    def send_one_frame_response(self, head, body):
        """Queues a complete response in one frame, and sends it immediately if it is large."""
        self.last_frame_sent = True
        self.one_frame_head = None
        size = len(head)
        connection = self.connection
        connection.queued_frames.append(
            response_header_format.pack(RESPONSE, self.number, 4 + size + len(body), size)
            + head + body)
        if len(body) > HELD_RESPONSE_MAX_BYTES:
            connection.flush()

    def flush_complete_response(self):
        """Sends a complete response before the application's call returns.

        After quick calls it stays queued: the next response shares the send() call with it.
        """
        server = self.connection.server
        if server.pool_condition is not None or server.quick_call_count < QUICK_CALLS_MIN:
            self.connection.flush()

    def send_body_parts(self, parts):
        """Sends the body of a response whose parts, a list or tuple, are all known."""
        if (self.one_frame_head is not None and len(parts) == 1 and type(parts[0]) is bytes
                and len(parts[0]) == self.content_length and self.method != 'HEAD'):
            self.send_one_frame_response(self.one_frame_head, parts[0])
            return
        if self.head is None:
            raise AssertionError('the application has not called start_response')
        if len(parts) == 1:
            body = parts[0]
            if not isinstance(body, bytes):
                raise TypeError('the body must be bytes, not %s' % type(body).__name__)
        else:
            for part in parts:
                if not isinstance(part, bytes):
                    raise TypeError('the body must be bytes, not %s' % type(part).__name__)
            body = b''.join(parts)
        if self.head_frame_sent or self.last_frame_sent:
            if body and not self.is_disconnected:
                self.send_chunk(body)
            return
        if self.method == 'HEAD' or not self.has_body:
            self.send_without_body(len(body))
            return
        length = self.content_length
        if length is None:
            length = self.content_length = len(body)
        elif length != len(body):
            if length > len(body):
                raise ValueError('Content-Length is %d, but the body has %d bytes'
                                 % (length, len(body)))
            self.log_truncation()
            body = body[:length]
        if length <= PIECE_MAX_BYTES:
            self.send_one_frame_response(self.head + b'Content-Length: %d\n' % length, body)
        else:
            self.send_chunk(body)

    def send_without_body(self, length):
        """Sends the response to a HEAD request, or one whose status allows no body."""
        if self.content_length is not None:
            length = self.content_length
        elif not length or not self.has_body:
            # The application has left out the body of a HEAD response, so its length is unknown.
            length = None
        self.send_one_frame_response(self.head + self.content_length_line(length), b'')

    def send_chunk(self, chunk):
        """Sends a piece of the body. Returns False if the rest of the body is not needed."""
        if self.head is None:
            raise AssertionError('body before start_response()')
        if self.last_frame_sent:
            if chunk and not self.is_disconnected and self.has_body and self.method != 'HEAD':
                self.log_truncation()
            return False
        if self.method == 'HEAD' or not self.has_body:
            self.send_without_body(0)
            self.connection.flush()
            return False
        is_last = False
        if self.content_length is not None:
            remaining_bytes = self.content_length - self.sent_body_bytes
            if len(chunk) > remaining_bytes:
                self.log_truncation()
                chunk = chunk[:remaining_bytes]
            is_last = len(chunk) == remaining_bytes
            if is_last and not self.head_frame_sent and remaining_bytes <= PIECE_MAX_BYTES:
                head = self.head + self.content_length_line(self.content_length)
                self.send_one_frame_response(head, chunk)
                self.flush_complete_response()
                return True
        self.send_frames(chunk, is_last)
        return True

    def send_frames(self, chunk, is_last):
        """Sends the head if necessary, then `chunk` as the send window allows, then perhaps END."""
        frames = b''
        if not self.head_frame_sent:
            self.head_frame_sent = True
            self.one_frame_head = None
            head = self.head + self.content_length_line(self.content_length)
            frames = encode_frame(HEAD, self.number, head)
        connection, number = self.connection, self.number
        offset, size = 0, len(chunk)
        while offset < size:
            if self.send_window <= 0:
                if frames:
                    connection.send(frames)
                    frames = b''
                connection.server.wait(self, self.may_continue_sending)
                if self.is_disconnected:
                    raise ClientDisconnected('client disconnected')
            length = min(size - offset, self.send_window, PIECE_MAX_BYTES)
            # Another thread may enlarge the window at the same time.
            with connection.lock:
                self.send_window -= length
            if frames:
                connection.send(frames)
            frames = encode_frame(RESPONSE_CONTENT, number, chunk[offset:offset + length])
            offset += length
        self.sent_body_bytes += size
        if is_last:
            self.last_frame_sent = True
            frames += encode_frame(END, number)
        if frames:
            connection.send(frames)

    def send_file(self, wrapper):
        """Lets the server send an open file. Returns False if this process must read the file."""
        if self.head is None or self.head_frame_sent:
            return False
        if self.last_frame_sent or self.is_disconnected:
            return False
        if self.method == 'HEAD' or not self.has_body:
            return False
        descriptor, offset, size = find_open_file(wrapper.filelike)
        length = self.content_length
        if descriptor is None or (length is not None and length > size):
            return False
        if length is None:
            length = self.content_length = size
        if length < FILE_MIN_BYTES or not is_on_local_file_system(descriptor):
            return False
        frames = (encode_frame(HEAD, self.number, self.head + self.content_length_line(length))
                  + encode_frame(FILE, self.number, file_range_format.pack(offset, length)))
        self.last_frame_sent = self.connection.send_file(self, descriptor, frames)
        return self.last_frame_sent

    def may_continue_sending(self):
        return self.send_window > 0 or self.is_disconnected

    def label(self):
        return '%s %s' % (self.method, self.path)

    def log_truncation(self):
        if not self.was_truncated:
            self.was_truncated = True
            log('%s: the body is longer than the Content-Length of %d; the rest was not sent'
                % (self.label(), self.content_length or 0))

    def send_iterable(self, result):
        """Sends each item of an iterable as soon as it is available."""
        if hasattr(result, '__len__') and len(result) == 1:
            self.send_single_item(result)
            return
        for chunk in result:
            if not isinstance(chunk, bytes):
                raise TypeError('the body must be bytes, not %s' % type(chunk).__name__)
            if self.is_disconnected or (chunk and not self.send_chunk(chunk)):
                return

    def send_single_item(self, result):
        """Sends the item of an iterable that has only one, so its length is known (PEP 3333)."""
        for chunk in result:
            if self.is_disconnected or (chunk and self.last_frame_sent):
                if not self.is_disconnected:
                    self.send_chunk(chunk)
                return
            self.send_body_parts((chunk,))
            self.flush_complete_response()

    def finish(self):
        """Sends the last frame of a response after its complete body."""
        if self.last_frame_sent:
            return
        if self.is_disconnected:
            self.last_frame_sent = True
            self.connection.send(encode_frame(END, self.number))
        elif not self.head_frame_sent:
            self.send_body_parts(())
        elif self.content_length is not None and self.sent_body_bytes < self.content_length:
            raise ValueError('Content-Length is %d, but the body has %d bytes'
                             % (self.content_length, self.sent_body_bytes))
        else:
            self.last_frame_sent = True
            self.connection.send(encode_frame(END, self.number))

    def fail(self, error):
        """Logs an exception of the application, and sends the last frame."""
        if self.is_disconnected and is_caused_by_disconnect(error):
            self.finish()
            return
        log(self.label() + ': the application has failed')
        print_traceback(error)
        if self.last_frame_sent:
            return
        self.last_frame_sent = True
        kind = ABORT if self.head_frame_sent else FAILED
        text = encode_log_line(describe_error(error))
        self.connection.send(encode_frame(kind, self.number, text))
