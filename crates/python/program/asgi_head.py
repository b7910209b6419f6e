# The head of a response of an ASGI application, checked and encoded.

# What a field is for the head, by its name as the application sends it. Applications use few
# names, so each is checked once.
checked_field_names = {}
# Heads by status and fields: most applications send the same ones again and again.
remembered_heads = {}


def check_field_name(name):
    """Returns what a field is, or raises if its name is none."""
    if not isinstance(name, (bytes, bytearray, memoryview)):
        raise TypeError('the name of a header must be bytes, not %s' % type(name).__name__)
    text = str(name, 'latin-1')
    if not is_token(text):
        raise ValueError('%r is no name of a header' % text)
    kind = classify_field(text)
    if type(name) is bytes and len(checked_field_names) < REMEMBERED_MAX:
        checked_field_names[name] = kind
    return kind


def check_field_value(name, value):
    """Returns a value as bytes."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError('the value of %r must be bytes, not %s' % (name, type(value).__name__))
    value = bytes(value)
    if b'\n' in value or b'\r' in value or b'\0' in value:
        raise ValueError('the value of %r has a line break or NUL: %r' % (name, value))
    return value


def encode_fields(fields):
    """Returns checked fields as the lines of a head, without Content-Length, and its value."""
    lines = []
    length = None
    for field in fields:
        name, value = field
        kind = checked_field_names.get(name) if type(name) is bytes else None
        if kind is None:
            kind = check_field_name(name)
        value = check_field_value(name, value)
        if kind == ORDINARY_FIELD:
            lines.append(b'%b: %b\n' % (name, value))
        elif kind == LENGTH_FIELD:
            if not is_length(value.decode('latin-1')):
                raise ValueError('%r is no Content-Length' % value)
            if length is not None:
                raise ValueError('Content-Length is sent twice')
            length = int(value)
    return b''.join(lines), length


def encode_head(status, fields):
    """Returns the head as bytes, the value of its Content-Length, and whether there is content.

    The bytes contain the Content-Length if there is one.
    """
    if not isinstance(status, int) or isinstance(status, bool):
        raise TypeError('the status must be an int, not %s' % type(status).__name__)
    if not 200 <= status <= 599:
        raise ValueError('%d is no status of a response' % status)
    lines, length = encode_fields(fields)
    head = b'%d\n%b' % (status, lines)
    # RFC 9110, section 8.6: 204 has no Content-Length.
    if length is not None and status != 204:
        head += b'content-length: %d\n' % length
    return head, length, status not in (204, 304)


def find_head(status, fields):
    """Returns what `encode_head` returns, from those that are remembered if it is there."""
    fields = tuple(fields)
    try:
        head = remembered_heads.get((status, fields))
    except (TypeError, ValueError):
        # Fields are often lists of name and value. What is in them may still be no bytes.
        fields = tuple([tuple(field) for field in fields])
        try:
            head = remembered_heads.get((status, fields))
        except (TypeError, ValueError):
            return encode_head(status, fields)
    if head is None:
        head = encode_head(status, fields)
        if len(head[0]) <= REMEMBERED_HEAD_MAX_BYTES:
            if len(remembered_heads) >= REMEMBERED_MAX:
                remembered_heads.clear()
            remembered_heads[status, fields] = head
    return head
