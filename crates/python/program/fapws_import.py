# Lets an application import the modules of fapws. They are compiled when it does so.

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
# The modules that fapws had and that are not here, with what there is in their place.
ABSENT_FAPWS_MODULES = {
    'cgiapp': 'run the script with the key "cgi" of a mount',
    'django_handler': 'serve the Django project itself: pinion serve FOLDER',
    'multipart': 'use the package "multipart", or a framework such as Bottle',
    'sessions': 'use the package "Beaker", or a framework such as Flask',
    'siforms': 'use the package "WTForms"',
}


class FapwsFinder:
    """Finds the modules of fapws, after everything that is installed or in a folder."""

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
        return None  # An ordinary one.

    @staticmethod
    def exec_module(module):
        name = FAPWS_MODULES[module.__name__]
        if name == 'fapws/_evwsgi.py':
            module.serve = serve_fapws
        code = compile(read_part(name), '<pinion/%s>' % name, 'exec', 0, True, 2)
        exec(code, module.__dict__)


def imports_fapws(path):
    """Whether a file imports fapws, by its code: nothing of it is executed."""
    try:
        with open(path, 'rb') as file:
            source = file.read()
        if b'fapws' not in source:
            return False
        codes = [compile(source, path, 'exec', 0, True)]
    except (OSError, SyntaxError, ValueError):
        return False  # Importing it says what is wrong.
    while codes:
        code = codes.pop()
        if any(name.partition('.')[0] == 'fapws' for name in code.co_names):
            return True
        codes += [one for one in code.co_consts if isinstance(one, type(code))]
    return False


def run_as_main(path):
    """Executes a file as `python3 FILE` does, so that what it has for that case is executed."""
    with open(path, 'rb') as file:
        code = compile(file.read(), path, 'exec', 0, True)
    module = type(sys)('__main__')
    module.__file__ = path
    # Tracebacks of threads, pickles and others look for it. This program stays, by its functions.
    sys.modules['__main__'] = module
    exec(code, module.__dict__)
    return module


def serve_fapws():
    """The `run()` of fapws: serves until the process is told to end, and then returns."""
    if options.interface == 'asgi':
        raise LoadError('an application of fapws is one of WSGI')
    execute_parts(*WSGI_PARTS)
    execute_parts('fapws_application.py', 'fapws_jobs.py')
    compiled_parts.clear()
    # The socket accepts connections only now, so an exception before this is one of loading.
    serve_fapws_application(sys.modules['fapws._evwsgi'])
    options.has_served = True


sys.meta_path.append(FapwsFinder)
