# Provides the modules of fapws for applications. They are compiled when they are imported.
#
# fapws is a web server for Python 2 on libev. Its applications are WSGI callbacks for path
# prefixes, which a script registers before it calls run(); they can also set timers and defer
# calls.

import sys

FAPWS_MODULES = {
    'fapws': 'fapws/__init__.py',
    'fapws._evwsgi': 'fapws/_evwsgi.py',
    'fapws.base': 'fapws/base.py',
    'fapws.config': 'fapws/config.py',
    'fapws.contrib': 'fapws/contrib/__init__.py',
    'fapws.contrib.headers': 'fapws/contrib/headers.py',
    'fapws.contrib.log': 'fapws/contrib/log.py',
    'fapws.contrib.views': 'fapws/contrib/views.py',
    'fapws.contrib.zip': 'fapws/contrib/zip.py',
}
# Modules of `fapws.contrib` that this implementation lacks, each with advice for the user.
ABSENT_FAPWS_MODULES = {
    'cgiapp': 'run the script with the key "cgi" of a mount',
    'django_handler': 'serve the Django project itself: pinion serve FOLDER',
    'multipart': 'use the package "multipart", or a framework such as Bottle',
    'sessions': 'use the package "Beaker", or a framework such as Flask',
    'siforms': 'use the package "WTForms"',
}


class FapwsFinder:
    """Finds the modules of fapws, unless another finder has found an installed or local fapws."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition('.')[0] != 'fapws':
            return None
        if name in FAPWS_MODULES:
            from importlib.machinery import ModuleSpec
            is_package = name in ('fapws', 'fapws.contrib')
            return ModuleSpec(name, FapwsFinder, origin='Pinion', is_package=is_package)
        advice = ABSENT_FAPWS_MODULES.get(name.rpartition('.')[2])
        if advice is not None and name.startswith('fapws.contrib.'):
            raise ImportError('Pinion has no %s: %s' % (name, advice), name=name)
        return None

    @staticmethod
    def create_module(spec):
        return None  # Create an ordinary module.

    @staticmethod
    def exec_module(module):
        name = FAPWS_MODULES[module.__name__]
        if name == 'fapws/_evwsgi.py':
            module.serve = serve_fapws
        code = compile(read_part(name), '<pinion/%s>' % name, 'exec', 0, True, 2)
        exec(code, module.__dict__)


def imports_fapws(path):
    """Returns whether a file imports fapws. It only compiles the file and executes nothing."""
    try:
        with open(path, 'rb') as file:
            source = file.read()
        if b'fapws' not in source:
            return False
        codes = [compile(source, path, 'exec', 0, True)]
    except (OSError, SyntaxError, ValueError):
        return False  # Importing the file will report the error.
    while codes:
        code = codes.pop()
        if any(name.partition('.')[0] == 'fapws' for name in code.co_names):
            return True
        codes += [value for value in code.co_consts if isinstance(value, type(code))]
    return False


def run_as_main(path):
    """Executes a file as the module `__main__`, like `python3 FILE`, and returns the module."""
    with open(path, 'rb') as file:
        code = compile(file.read(), path, 'exec', 0, True)
    module = type(sys)('__main__')
    module.__file__ = path
    # Thread tracebacks, pickle and others look up `__main__` in `sys.modules`. The former module,
    # which is this program, stays alive because its functions refer to its namespace.
    sys.modules['__main__'] = module
    exec(code, module.__dict__)
    return module


def serve_fapws():
    """Implements `evwsgi.run()`: serves requests until the process has to stop, then returns."""
    if options.interface == 'asgi':
        raise LoadError('fapws applications use WSGI; set the interface to "wsgi" or "auto"')
    execute_parts(*WSGI_PARTS)
    execute_parts('fapws_application.py', 'fapws_jobs.py')
    compiled_parts.clear()
    # The socket accepts no connections before this call, so an exception until here is reported as
    # one of loading the application.
    serve_fapws_application(sys.modules['fapws._evwsgi'])
    options.has_served = True


sys.meta_path.append(FapwsFinder)
