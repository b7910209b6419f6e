# A request of a WSGI application (PEP 3333): start_response, the content, and the end.

# All but the tab.
CONTROL_CHARACTERS = frozenset([chr(code) for code in range(32) if code != 9] + ['\x7f'])

# Whether responses of a status have content; what a field is by its name. Applications use few
# of each, so each is checked once.
checked_statuses = {}
checked_names = {}
# Heads by status and fields: most applications send the same ones again and again.
remembered_heads = {}


def is_status(text):
    """Whether `text` is a code from 200 to 599, perhaps with a space and a reason."""
    code = text[:3]
    return (len(code) == 3 and code.isascii() and code.isdigit() and '2' <= code[0] <= '5'
            and text[3:4] in ('', ' ') and CONTROL_CHARACTERS.isdisjoint(text))


def check_status(status):
    if not isinstance(status, str):
        raise TypeError('the status must be a str, not %s' % type(status).__name__)
    if not is_status(status):
        raise ValueError('%r is no status such as "200 OK"' % (status,))
    has_content = status[:3] not in ('204', '304')
    if len(checked_statuses) < REMEMBERED_MAX:
        checked_statuses[str(status)] = has_content
    return has_content


def check_name(name):
    if not isinstance(name, str):
        raise TypeError('the name of a field must be a str, not %s' % type(name).__name__)
    if not is_token(name):
        raise ValueError('%r is no name of a field' % (name,))
    kind = classify_field(name)
    if len(checked_names) < REMEMBERED_MAX:
        checked_names[str(name)] = kind
    return kind


def check_value(name, value):
    if not isinstance(value, str):
        raise TypeError('the value of %s must be a str, not %s' % (name, type(value).__name__))
    if '\n' in value or '\r' in value or '\0' in value:
        raise ValueError('the value of %s has a line break or NUL: %r' % (name, value))


def encode_fields(fields):
    """Returns checked fields as the lines of a head, without Content-Length, and its value."""
    if not isinstance(fields, list):
        raise TypeError('the headers must be a list, not %s' % type(fields).__name__)
    lines = ''
    length = None
    count = 0
    for field in fields:
        if type(field) is not tuple or len(field) != 2:
            raise TypeError('a header must be a tuple of name and value, not %r' % (field,))
        name, value = field
        kind = checked_names.get(name) if type(name) is str else None
        if kind is None:
            kind = check_name(name)
        if kind == LENGTH_FIELD:
            length = decode_length(value, length)
            continue
        if type(value) is not str or kind == DROPPED_FIELD:
            check_value(name, value)
        if kind == ORDINARY_FIELD:
            lines += name + ': ' + value + '\n'
            count += 1
    if lines.count('\n') != count or '\r' in lines or '\0' in lines:
        for name, value in fields:
            check_value(name, value)
    return lines, length


def encode_head(status, headers):
    """Returns what a response begins with: a tuple of the head as bytes without Content-Length,
    the value of that, whether there is content, and the head with Content-Length. The last is None
    if it is not known, or content does not follow in the same frame.
    """
    has_content = checked_statuses.get(status) if type(status) is str else None
    if has_content is None:
        has_content = check_status(status)
    lines, length = encode_fields(headers)
    try:
        head = (status + '\n' + lines).encode('latin-1')
    except UnicodeEncodeError as error:
        raise ValueError('status and headers must be Latin-1: %s' % error) from None
    whole_head = None
    if has_content and length is not None and length <= PIECE_MAX_BYTES:
        whole_head = head + b'Content-Length: %d\n' % length
    return head, length, has_content, whole_head


def remember_head(key, head):
    if len(head[0]) <= REMEMBERED_HEAD_MAX_BYTES:
        if len(remembered_heads) >= REMEMBERED_MAX:
            remembered_heads.clear()
        remembered_heads[key] = head


def decode_length(value, earlier):
    check_value('Content-Length', value)
    if not is_length(value):
        raise ValueError('%r is no Content-Length' % (value,))
    if earlier is not None:
        raise ValueError('Content-Length is sent twice')
    return int(value)


class WsgiRequest:
    """One request, from its batch to its last frame."""

    # What has this value until something sets it: creating a request sets only four attributes.
    method = path = '-'
    # The thread that runs it, if it is one of the pool.
    thread = None
    # Its X-Request-Id while it is run.
    id = None
    # The RequestContent of content that is streamed.
    input = None
    room = INITIAL_ROOM_BYTES
    # The server has said that nothing of it is needed any more.
    is_gone = False
    # The head as bytes without Content-Length, once start_response was called.
    head = None
    has_content = True
    content_length = None
    # The head with Content-Length, as long as all content can follow it in one frame.
    whole_head = None
    sent_bytes = 0
    head_sent = False
    # The last frame was sent. What the application does after it has no effect.
    is_done = False
    was_cut = False

    def __init__(self, connection, number, environ, content):
        self.connection = connection
        self.number = number
        self.environ = environ
        self.content = content

    def start_response(self, status, headers, exc_info=None):
        """The callable that the application gets (PEP 3333, "The start_response() Callable")."""
        if exc_info:
            try:
                if self.head_sent or self.is_done:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.head is not None:
            raise AssertionError('start_response was called twice without exc_info')
        try:
            # An iterator would be empty after this.
            key = (status, tuple(headers)) if type(headers) is list else None
            head = remembered_heads.get(key)
        except TypeError:
            key = head = None  # A part of them cannot be hashed, so it is no str.
        if head is None:
            head = encode_head(status, headers)
            if key is not None:
                remember_head(key, head)
        self.head, self.content_length, self.has_content, self.whole_head = head
        return self.write

    def write(self, data):
        """Sends content at once; the callable that start_response returns."""
        if not isinstance(data, bytes):
            raise TypeError('content must be bytes, not %s' % type(data).__name__)
        if self.is_gone:
            raise ClientDisconnected('the client has left')
        if data:
            self.send_chunk(data)

    def early_hints(self, headers):
        """Sends an informational response 103 with `headers`, a list of names and values."""
        if self.head_sent or self.is_done or self.is_gone:
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

    def length_line(self, length):
        """Returns the line of Content-Length; 204 has none (RFC 9110, section 8.6)."""
        if length is None or self.head.startswith(b'204'):
            return b''
        return b'Content-Length: %d\n' % length

    def send_whole(self, head, content):
        """Queues a response of one frame. It is sent at once if it is large."""
        self.is_done = True
        self.whole_head = None
        size = len(head)
        connection = self.connection
        connection.queued.append(
            response_header.pack(RESPONSE, self.number, 4 + size + len(content), size)
            + head + content)
        if len(content) > HELD_RESPONSE_MAX_BYTES:
            connection.flush()

    def release(self):
        """Sends a response that is whole before the call is over, unless such calls are quick."""
        server = self.connection.server
        if server.pool is not None or server.quick_calls < QUICK_CALLS_MIN:
            self.connection.flush()

    def send_parts(self, parts):
        """Sends the content of a list or a tuple: all of it is known."""
        if (self.whole_head is not None and len(parts) == 1 and type(parts[0]) is bytes
                and len(parts[0]) == self.content_length and self.method != 'HEAD'):
            self.send_whole(self.whole_head, parts[0])
            return
        if self.head is None:
            raise AssertionError('the application has not called start_response')
        if len(parts) == 1:
            content = parts[0]
            if not isinstance(content, bytes):
                raise TypeError('content must be bytes, not %s' % type(content).__name__)
        else:
            for part in parts:
                if not isinstance(part, bytes):
                    raise TypeError('content must be bytes, not %s' % type(part).__name__)
            content = b''.join(parts)
        if self.head_sent or self.is_done:
            if content and not self.is_gone:
                self.send_chunk(content)
            return
        if self.method == 'HEAD' or not self.has_content:
            self.send_without_content(len(content))
            return
        length = self.content_length
        if length is None:
            length = self.content_length = len(content)
        elif length != len(content):
            if length > len(content):
                raise ValueError('Content-Length is %d, but there are %d bytes of content'
                                 % (length, len(content)))
            self.report_cut()
            content = content[:length]
        if length <= PIECE_MAX_BYTES:
            self.send_whole(self.head + b'Content-Length: %d\n' % length, content)
        else:
            self.send_chunk(content)

    def send_without_content(self, length):
        """Sends the response to HEAD, or one whose status has no content."""
        if self.content_length is not None:
            length = self.content_length
        elif not length or not self.has_content:
            # An application that leaves out the content of HEAD has not said how long it is.
            length = None
        self.send_whole(self.head + self.length_line(length), b'')

    def send_chunk(self, chunk):
        """Sends a piece of content. Returns whether more of it is needed."""
        if self.head is None:
            raise AssertionError('there is content before start_response was called')
        if self.is_done:
            if chunk and not self.is_gone and self.has_content and self.method != 'HEAD':
                self.report_cut()
            return False
        if self.method == 'HEAD' or not self.has_content:
            self.send_without_content(0)
            self.connection.flush()
            return False
        complete = False
        if self.content_length is not None:
            left = self.content_length - self.sent_bytes
            if len(chunk) > left:
                self.report_cut()
                chunk = chunk[:left]
            complete = len(chunk) == left
            if complete and not self.head_sent and left <= PIECE_MAX_BYTES:
                self.send_whole(self.head + self.length_line(self.content_length), chunk)
                self.release()
                return True
        self.send_frames(chunk, complete)
        return True

    def send_frames(self, chunk, complete):
        """Sends the head if it was not sent, `chunk` as the server has room, and perhaps END."""
        frames = b''
        if not self.head_sent:
            self.head_sent = True
            self.whole_head = None
            head = self.head + self.length_line(self.content_length)
            frames = encode_frame(HEAD, self.number, head)
        connection, number = self.connection, self.number
        offset, size = 0, len(chunk)
        while offset < size:
            if self.room <= 0:
                if frames:
                    connection.send(frames)
                    frames = b''
                connection.server.wait(self, self.has_room)
                if self.is_gone:
                    raise ClientDisconnected('the client has left')
            length = min(size - offset, self.room, PIECE_MAX_BYTES)
            # Another thread may add to the room at the same time.
            with connection.lock:
                self.room -= length
            if frames:
                connection.send(frames)
            frames = encode_frame(RESPONSE_CONTENT, number, chunk[offset:offset + length])
            offset += length
        self.sent_bytes += size
        if complete:
            self.is_done = True
            frames += encode_frame(END, number)
        if frames:
            connection.send(frames)

    def send_file(self, wrapper):
        """Has the server send the rest of an open file. Returns False if it has to be read here."""
        if self.head is None or self.head_sent or self.is_done or self.is_gone:
            return False
        if self.method == 'HEAD' or not self.has_content:
            return False
        descriptor, offset, size = find_open_file(wrapper.filelike)
        length = self.content_length
        if descriptor is None or (length is not None and length > size):
            return False
        if length is None:
            length = self.content_length = size
        if length < FILE_MIN_BYTES or not is_on_local_file_system(descriptor):
            return False
        frames = (encode_frame(HEAD, self.number, self.head + self.length_line(length))
                  + encode_frame(FILE, self.number, file_content.pack(offset, length)))
        self.is_done = self.connection.send_file(self, descriptor, frames)
        return self.is_done

    def has_room(self):
        return self.room > 0 or self.is_gone

    def label(self):
        return '%s %s' % (self.method, self.path)

    def report_cut(self):
        if not self.was_cut:
            self.was_cut = True
            log('%s: there is more content than the Content-Length of %d; the rest was not sent'
                % (self.label(), self.content_length or 0))

    def send_iterable(self, result):
        """Sends what an iterator yields, each piece at once."""
        if hasattr(result, '__len__') and len(result) == 1:
            self.send_only_item(result)
            return
        for chunk in result:
            if not isinstance(chunk, bytes):
                raise TypeError('content must be bytes, not %s' % type(chunk).__name__)
            if self.is_gone or (chunk and not self.send_chunk(chunk)):
                return

    def send_only_item(self, result):
        """Sends the only item of an iterable, so Content-Length is known (PEP 3333)."""
        for chunk in result:
            if self.is_gone or (chunk and self.is_done):
                if not self.is_gone:
                    self.send_chunk(chunk)
                return
            self.send_parts((chunk,))
            self.release()

    def finish(self):
        """Sends the last frame after all content."""
        if self.is_done:
            return
        if self.is_gone:
            self.is_done = True
            self.connection.send(encode_frame(END, self.number))
        elif not self.head_sent:
            self.send_parts(())
        elif self.content_length is not None and self.sent_bytes < self.content_length:
            raise ValueError('Content-Length is %d, but there are %d bytes of content'
                             % (self.content_length, self.sent_bytes))
        else:
            self.is_done = True
            self.connection.send(encode_frame(END, self.number))

    def fail(self, error):
        """Reports an exception of the application, and sends the last frame."""
        if self.is_gone and isinstance(error, ClientDisconnected):
            self.finish()
            return
        log(self.label() + ': the application has failed')
        print_traceback(error)
        if self.is_done:
            return
        self.is_done = True
        kind = ABORT if self.head_sent else FAILED
        text = encode_log_line(describe_error(error))
        self.connection.send(encode_frame(kind, self.number, text))
