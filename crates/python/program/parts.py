# The first file that the interpreter executes. It compiles and executes the other files ("parts").
#
# The server joins all parts to one file, in which this part is code and the text of each other part
# is a comment. The interpreter therefore keeps no text in memory, and parts that are not needed
# cost nothing. The file is open as descriptor 3 until the application is loaded.

import marshal
import os
import sys

PROGRAM_PATH = '/dev/fd/3'
program_file = os.fstat(3)
# Programs that the application starts must not inherit it.
os.set_inheritable(3, False)


def read_part(name):
    """Returns the source text of a part, as bytes."""
    if program_file is None or not os.path.samestat(os.fstat(3), program_file):
        raise RuntimeError('the file of the program was closed, so %s cannot be read' % name)
    # Reading with pread() leaves the file offset alone, which other processes share.
    text = os.pread(3, program_file.st_size, 0)
    begin = text.index(b'\n#= %s\n' % name.encode())
    begin = text.index(b'\n', begin + 1)
    # Each line of the part begins with the `#` of the comment, which is removed.
    return text[begin:text.index(b'\n#=', begin)].replace(b'\n#', b'\n')[1:]


def compile_part(name):
    """Compiles a part and returns its code object, without docstrings."""
    return compile(read_part(name), '<pinion/%s>' % name, 'exec', 0, True, 2)


def compile_in_child(names):
    """Compiles parts in a child process and returns a dict from names to marshalled code objects.

    The compiler leaves 1.5 MiB of unused memory behind, which is freed when the child exits.
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
    """Returns a dict of marshalled code objects; parts that it lacks are compiled when needed."""
    # A child process is not worth it for ASGI, where asyncio uses more memory than the compiler
    # leaves behind, and for PyPy, whose compiler leaves less behind and whose fork() is slow.
    if sys.implementation.name == 'cpython' and 'asgi' not in sys.argv[:3]:
        try:
            return compile_in_child(names)
        except (OSError, EOFError, TypeError, ValueError):
            pass  # The user may not start another process, or the child was killed.
    return {}


def execute_parts(*names):
    """Executes parts in the global namespace, which all parts share."""
    for name in names:
        code = compiled_parts.pop(name, None)
        exec(marshal.loads(code) if code else compile_part(name), globals())


def close_program_file():
    """Closes descriptor 3, unless the application has closed or replaced it in the meantime."""
    global program_file
    if program_file is not None:
        try:
            if os.path.samestat(os.fstat(3), program_file):
                os.close(3)
        except OSError:
            pass  # It is already closed.
        program_file = None


def reopen_program_file():
    """Closes descriptor 3 and returns a new, writable descriptor of the same file, for file locks.

    This must happen before the first lock is acquired, because closing any descriptor of a file
    releases all record locks that the process holds on it.
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
# Marshalled code objects of parts that were not executed yet, by name.
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
