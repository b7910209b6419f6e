# Loads the application that is named on the command line.

import os
import sys

DEFAULT_NAMES = ('application', 'app')


class LoadError(Exception):
    """The application cannot be loaded or started; the message explains how to fix that."""


def parse_application_name(text):
    """Splits "module:callable" or "path/to/file.py:callable" into the module and the callable.

    The callable is '' if the text does not name one.
    """
    source, colon, name = text.rpartition(':')
    if not colon:
        source, name = text, ''
    if not source:
        raise LoadError('"%s" names no module; write "module:callable"' % text)
    return source, name


def import_application_module(source, has_callable):
    """Imports a module, given by its name or by the path of its file, and returns it.

    `has_callable` says whether the command line names a callable of the module.
    """
    if not source.endswith('.py') and os.sep not in source:
        __import__(source)
        return sys.modules[source]
    path = os.path.abspath(source)
    if not os.path.isfile(path):
        raise LoadError('file not found: %s' % path)
    folder, file_name = os.path.split(path)
    name = file_name[:-3] if file_name.endswith('.py') else file_name
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    if not has_callable and imports_fapws(path):
        return run_as_main(path)
    if name in sys.modules or '.' in name or not file_name.endswith('.py'):
        # Another module uses this name, for example one of the standard library.
        return import_file('application_' + name.replace('.', '_'), path)
    __import__(name)
    module = sys.modules[name]
    found = getattr(module, '__file__', None)
    if found is None or not os.path.samefile(found, path):
        return import_file('application_' + name, path)
    return module


def import_file(name, path):
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_loader
    loader = SourceFileLoader(name, path)
    module = module_from_spec(spec_from_loader(name, loader))
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def find_callable(module, source, name):
    if not name:
        for name in DEFAULT_NAMES:
            if hasattr(module, name):
                return getattr(module, name), name
        if 'fapws._evwsgi' in sys.modules:
            raise LoadError('"%s" imports fapws, and does not call evwsgi.run()' % source)
        raise LoadError('"%s" has neither "application" nor "app"; write "%s:callable"'
                        % (source, source))
    found = module
    for part in name.split('.'):
        if not hasattr(found, part):
            raise LoadError('"%s" has no "%s"' % (source, name))
        found = getattr(found, part)
    return found, name


def prepare_path(options):
    """Puts the application's folder first in `sys.path`, and its name into `sys.argv`."""
    folder = os.path.abspath(options.folder)
    # Python has put the working directory or /dev/fd first, neither of which is the application's
    # folder in general.
    if sys.path and sys.path[0] in ('', '/dev/fd'):
        del sys.path[0]
    if folder not in sys.path[:1]:
        sys.path.insert(0, folder)
    sys.argv = [options.application]


def exit_if_served(options):
    """Exits if a fapws application has called `evwsgi.run()`, which has now returned."""
    if options.has_served:
        sys.exit(0)


def load_application(options):
    """Returns the application. Exceptions that importing it raises are passed on."""
    prepare_path(options)
    source, name = parse_application_name(options.application)
    if source.endswith('.py'):
        source = os.path.join(os.path.abspath(options.folder), source)
    module = import_application_module(source, name != '')
    exit_if_served(options)
    found, name = find_callable(module, source, name)
    if options.factory:
        if not callable(found):
            raise LoadError('"%s" in "%s" is not callable, so it is not a factory' % (name, source))
        found = found()
        exit_if_served(options)
    if not callable(found):
        raise LoadError('"%s" in "%s" is not callable; name the application or use a factory'
                        % (name, source))
    return found


def print_traceback(error):
    """Prints the traceback of `error` to standard error, without stack frames of this program."""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith('<pinion/') and 'frozen importlib.' not in file:
            break
        trace = trace.tb_next
    try:
        sys.__excepthook__(type(error), error.with_traceback(trace), trace)
        sys.stderr.flush()
    except Exception:
        pass  # Standard error is closed, so the error cannot be reported anywhere.


def describe_error(error):
    """Returns a one-line description of an exception for the server's log."""
    try:
        text = str(error)
    except Exception:
        text = 'its message cannot be read'
    return '%s: %s' % (type(error).__name__, text) if text else type(error).__name__


def load_or_report(options):
    """Returns the application, or logs why it cannot be loaded and returns None."""
    if options.loaded_application is not None:
        return options.loaded_application
    try:
        return load_application(options)
    except LoadError as error:
        log('cannot load the application: %s' % error)
    except BaseException as error:
        if options.has_served and isinstance(error, SystemExit):
            raise
        print_traceback(error)
    return None
