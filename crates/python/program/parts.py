# Begins the program: executes the other parts, whose texts follow in the same file as comments.
# They are read when they are needed, so their texts take no memory, and parts that are not needed
# take none at all. The file is descriptor 3 until the application is loaded.

import marshal
import os
import sys

PROGRAM_PATH = '/dev/fd/3'
program_file = os.fstat(3)
# It is not for programs that the application starts.
os.set_inheritable(3, False)


def read_part(name):
    """Returns the text of a part, as bytes."""
    if program_file is None or not os.path.samestat(os.fstat(3), program_file):
        raise RuntimeError('the file of the program was closed, so %s cannot be read' % name)
    # Not the position of the file: other processes have the same one.
    text = os.pread(3, program_file.st_size, 0)
    begin = text.index(b'\n#= %s\n' % name.encode())
    begin = text.index(b'\n', begin + 1)
    # Each line begins with the `#` of the comment.
    return text[begin:text.index(b'\n#=', begin)].replace(b'\n#', b'\n')[1:]


def compile_part(name):
    """Returns the code of a part, without docstrings."""
    return compile(read_part(name), '<pinion/%s>' % name, 'exec', 0, True, 2)


def compile_in_child(names):
    """Returns the codes of parts as values of `marshal`, by their names.

    A child process compiles them and exits: the compiler leaves 1.5 MiB behind that is of no use.
    """
    reader, writer = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        raise
    if not child:
        try:
            codes = {name: marshal.dumps(compile_part(name)) for name in names}
            with open(writer, 'wb') as stream:
                stream.write(marshal.dumps(codes))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, 'rb') as stream:
        codes = stream.read()
    os.waitpid(child, 0)
    return marshal.loads(codes)


def compile_parts(names):
    """Returns the codes of parts that need not be compiled in this process."""
    # With ASGI, asyncio needs more than the compiler leaves behind. That of PyPy leaves less, and a
    # fork takes long there.
    if sys.implementation.name == 'cpython' and 'asgi' not in sys.argv[:3]:
        try:
            return compile_in_child(names)
        except (OSError, EOFError, TypeError, ValueError):
            pass  # The user may have no further process, or it was killed.
    return {}


def execute_parts(*names):
    """Executes parts, which share their names."""
    for name in names:
        code = compiled_parts.pop(name, None)
        exec(marshal.loads(code) if code else compile_part(name), globals())


def close_program_file():
    """Closes the file of the program, unless the application has closed it meanwhile."""
    global program_file
    if program_file is not None:
        try:
            if os.path.samestat(os.fstat(3), program_file):
                os.close(3)
        except OSError:
            pass  # It is closed.
        program_file = None


def reopen_program_file():
    """Returns another descriptor of the file of the program, for locks, and closes the first one.

    That comes before the first lock: closing any descriptor of a file frees all record locks.
    """
    descriptor = os.open(PROGRAM_PATH, os.O_RDWR)
    close_program_file()
    return descriptor


FIRST_PARTS = 'frames.py', 'wsgi_asgi_common.py', 'fapws_import.py', 'loading.py', 'start.py'
WSGI_PARTS = (
    'wsgi_response.py', 'wsgi_files.py', 'wsgi_input.py', 'connection.py', 'wsgi_threads.py',
    'wsgi_server.py')
ASGI_PARTS = (
    'asgi_head.py', 'asgi_http.py', 'asgi_websocket.py', 'asgi_connection.py', 'asgi_lifespan.py',
    'asgi_watch.py', 'asgi_server.py')
# Parts that were compiled and not executed yet.
compiled_parts = compile_parts(FIRST_PARTS + WSGI_PARTS)
execute_parts(*FIRST_PARTS)
if interface == 'asgi':
    execute_parts(*ASGI_PARTS)
    compiled_parts.clear()
    serve_asgi(options, listener)
else:
    execute_parts(*WSGI_PARTS)
    compiled_parts.clear()
    serve_wsgi(options, listener)
