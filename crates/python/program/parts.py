# Begins the program: executes the other parts, whose texts follow in the same file as comments.
# They are read when they are needed, so their texts take no memory, and parts that are not needed
# take none at all. The file is descriptor 3 until the application is loaded.

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


def execute_parts(*names):
    """Executes parts, which share their names. Each is compiled apart from the others and without
    docstrings: the memory that one takes serves for the next, which is 1.4 MiB less than at once.
    """
    for name in names:
        exec(compile(read_part(name), '<pinion/%s>' % name, 'exec', 0, True, 2), globals())


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


execute_parts('frames.py', 'shared.py', 'fapws_import.py', 'loading.py', 'start.py')
if interface == 'asgi':
    execute_parts('asgi_head.py', 'asgi_http.py', 'asgi_websocket.py', 'asgi_connection.py',
                  'asgi_lifespan.py', 'asgi_server.py')
    serve_asgi(options, listener)
else:
    execute_wsgi_parts()
    serve_wsgi(options, listener)
