# Compression of responses.

import zlib

# As much of a file at once.
PIECE_BYTES = 64 * 1024
LEVEL = 6
# The window of gzip, in the numbers of zlib.
GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS


class Gzip:
    """A decorator of an application that compresses its responses with gzip."""

    def __call__(self, application):
        def compressed(environ, start_response):
            result = application(environ, start_response)
            if result is None or isinstance(result, (str, bytes)):
                return result
            is_list = isinstance(result, (list, tuple))
            if not is_list and not hasattr(result, 'read'):
                return compress_iterator(result, environ, start_response)
            if not begin(environ, start_response):
                return result
            if is_list:
                return compress_list(result, start_response)
            return compress_file(result)
        return compressed


def compress_list(items, start_response):
    coder = make_coder()
    content = b''.join([coder.compress(encode(item)) for item in items] + [coder.flush()])
    start_response.add_header('Content-Length', len(content))
    return [content]


def compress_file(file):
    coder = make_coder()
    try:
        while True:
            piece = file.read(PIECE_BYTES)
            if not piece:
                break
            yield coder.compress(encode(piece))
        yield coder.flush()
    finally:
        file.close()


def compress_iterator(result, environ, start_response):
    try:
        items = iter(result)
        # A generator calls `start_response` before its first item.
        first = next(items, b'')
        if begin(environ, start_response):
            coder = make_coder()
            yield coder.compress(encode(first))
            for item in items:
                yield coder.compress(encode(item))
            yield coder.flush()
        else:
            yield first
            for item in items:
                yield item
    finally:
        if hasattr(result, 'close'):
            result.close()


def make_coder():
    return zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW_BITS)


def begin(environ, start_response):
    """Sets the fields of a compressed response. Returns whether it is to be compressed."""
    if start_response.status_code in ('204', '304'):
        return False
    names = {name.lower(): name for name in start_response.response_headers}
    if 'content-encoding' in names:
        return False
    vary = start_response.remove_header('Vary')
    start_response.add_header('Vary', (vary + ', ' if vary else '') + 'Accept-Encoding')
    if not accepts_gzip(environ.get('HTTP_ACCEPT_ENCODING', '')):
        return False
    start_response.add_header('Content-Encoding', 'gzip')
    start_response.remove_header('Content-Length')
    tag = start_response.remove_header('ETag')
    if tag is not None:
        # The content is the same, and its bytes are others.
        start_response.add_header('ETag', tag if tag.startswith('W/') else 'W/' + tag)
    return True


def accepts_gzip(field):
    """Whether `Accept-Encoding` names gzip with a weight that is not 0."""
    for part in field.lower().split(','):
        name, _, parameters = part.partition(';')
        if name.strip() in ('gzip', 'x-gzip'):
            weight = parameters.replace(' ', '').partition('q=')[2]
            return not weight or weight.strip('0.') != ''
    return False


def encode(item):
    """Returns an item of content as bytes; one that is no text is left out."""
    if isinstance(item, str):
        return item.encode('utf-8')
    return item if isinstance(item, bytes) else b''
