# Checks and encodes the heads of responses of an ASGI application.

# A cache of the kinds of header fields, by their names as the application sends them. Applications
# use few names, so each of them is checked only once.
cached_field_kinds = {}
# A cache of response heads by status and headers, because most applications send the same ones
# repeatedly.
cached_heads = {}


def check_field_name(name):
    """Returns the kind of a header field; raises an exception if its name is invalid."""
    if not isinstance(name, (bytes, bytearray, memoryview)):
        raise TypeError('the name of a header must be bytes, not %s' % type(name).__name__)
    text = str(name, 'latin-1')
    if not is_token(text):
        raise ValueError('invalid header name: %r' % text)
    kind = classify_field(text)
    if type(name) is bytes and len(cached_field_kinds) < CACHE_MAX_ENTRIES:
        cached_field_kinds[name] = kind
    return kind


def check_field_value(name, value):
    """Checks the value of a header field, and returns it as bytes."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError('the value of %r must be bytes, not %s' % (name, type(value).__name__))
    value = bytes(value)
    if b'\n' in value or b'\r' in value or b'\0' in value:
        raise ValueError('the value of %r has a line break or NUL: %r' % (name, value))
    return value


def encode_fields(fields):
    """Checks the headers; returns all but Content-Length as lines, and the value of that one."""
    lines = []
    length = None
    for field in fields:
        name, value = field
        kind = cached_field_kinds.get(name) if type(name) is bytes else None
        if kind is None:
            kind = check_field_name(name)
        value = check_field_value(name, value)
        if kind == ORDINARY_FIELD:
            lines.append(b'%b: %b\n' % (name, value))
        elif kind == LENGTH_FIELD:
            if not is_length(value.decode('latin-1')):
                raise ValueError('invalid Content-Length: %r' % value)
            if length is not None:
                raise ValueError('Content-Length is sent twice')
            length = int(value)
    return b''.join(lines), length


def encode_head(status, fields):
    """Returns the head as bytes, the Content-Length or None, and whether the response has a body.

    The bytes include the Content-Length, except for a 204.
    """
    if not isinstance(status, int) or isinstance(status, bool):
        raise TypeError('the status must be an int, not %s' % type(status).__name__)
    if not 200 <= status <= 599:
        raise ValueError('invalid response status: %d' % status)
    lines, length = encode_fields(fields)
    head = b'%d\n%b' % (status, lines)
    # A 204 response has no Content-Length (RFC 9110, section 8.6).
    if length is not None and status != 204:
        head += b'content-length: %d\n' % length
    return head, length, status not in (204, 304)


def find_head(status, fields):
    """Returns the result of `encode_head()`, from the cache if it was computed before."""
    fields = tuple(fields)
    try:
        head = cached_heads.get((status, fields))
    except (TypeError, ValueError):
        # The headers are not hashable, because fields are often lists of a name and a value. Even
        # as tuples they are not if a name or a value is a bytearray, for example.
        fields = tuple([tuple(field) for field in fields])
        try:
            head = cached_heads.get((status, fields))
        except (TypeError, ValueError):
            return encode_head(status, fields)
    if head is None:
        head = encode_head(status, fields)
        if len(head[0]) <= CACHED_HEAD_MAX_BYTES:
            if len(cached_heads) >= CACHE_MAX_ENTRIES:
                cached_heads.clear()
            cached_heads[status, fields] = head
    return head
