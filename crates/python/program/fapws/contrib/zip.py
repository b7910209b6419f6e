# Compression of responses.

import zlib

# The number of bytes that are read from a file at a time.
PIECE_BYTES = 64 * 1024
LEVEL = 6
# The `wbits` argument of zlib that selects the gzip format.
GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS


class Gzip:
    """A decorator that compresses the responses of an application with gzip."""

    def __call__(self, application):
        def compressed(environ, start_response):
            result = application(environ, start_response)
            if result is None or isinstance(result, (str, bytes)):
                return result
            is_list = isinstance(result, (list, tuple))
            if not is_list and not hasattr(result, 'read'):
                return compress_iterator(result, environ, start_response)
            if not prepare_compression(environ, start_response):
                return result
            if is_list:
                return compress_list(result, start_response)
            return compress_file(result)
        return compressed


def compress_list(items, start_response):
    compressor = make_compressor()
    pieces = [compressor.compress(encode_item(item)) for item in items]
    content = b''.join(pieces + [compressor.flush()])
    start_response.add_header('Content-Length', len(content))
    return [content]


def compress_file(file):
    compressor = make_compressor()
    try:
        while True:
            piece = file.read(PIECE_BYTES)
            if not piece:
                break
            yield compressor.compress(encode_item(piece))
        yield compressor.flush()
    finally:
        file.close()


def compress_iterator(result, environ, start_response):
    try:
        items = iter(result)
        # A generator calls `start_response` before it yields its first item.
        first = next(items, b'')
        if prepare_compression(environ, start_response):
            compressor = make_compressor()
            yield compressor.compress(encode_item(first))
            for item in items:
                yield compressor.compress(encode_item(item))
            yield compressor.flush()
        else:
            yield first
            for item in items:
                yield item
    finally:
        if hasattr(result, 'close'):
            result.close()


def make_compressor():
    return zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP_WINDOW_BITS)


def prepare_compression(environ, start_response):
    """Sets the headers for a compressed response. Returns False if it must not be compressed."""
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
        # The content is the same but its bytes differ, so a strong entity tag becomes a weak one.
        start_response.add_header('ETag', tag if tag.startswith('W/') else 'W/' + tag)
    return True


def accepts_gzip(field):
    """Returns whether `Accept-Encoding` lists gzip with a weight above 0."""
    for part in field.lower().split(','):
        name, _, parameters = part.partition(';')
        if name.strip() in ('gzip', 'x-gzip'):
            weight = parameters.replace(' ', '').partition('q=')[2]
            return not weight or weight.strip('0.') != ''
    return False


def encode_item(item):
    """Returns an item of the body as bytes; an item of any other type becomes empty."""
    if isinstance(item, str):
        return item.encode('utf-8', 'surrogateescape')
    return bytes(item) if isinstance(item, (bytes, bytearray, memoryview)) else b''
