"""Loading the application, and the messages if that fails."""

import os
import tempfile
import unittest

from peer import Child

HELLO = '''
def app(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain')])
    return [b'%s']
'''


class Loading(unittest.TestCase):
    def content(self, application, files, options=()):
        with Child(application=application, files=files, options=options) as child:
            response = child.connect().get()
            self.assertEqual(response.status, '200 OK')
            return response.content

    def failure(self, application, files, options=()):
        """Returns the log of a process that must exit with status 1 and accept no connection."""
        with Child(application=application, files=files, options=options) as child:
            self.assertEqual(child.wait(), 1)
            with self.assertRaises(OSError):
                child.connect()
            return child.log()

    def test_a_module_and_a_callable(self):
        self.assertEqual(self.content('app:app', {'app.py': HELLO % 'a'}), b'a')

    def test_an_attribute_of_an_object_in_a_package(self):
        text = 'class Site: app = None\nsite = Site()\n' + HELLO % 'dotted' + 'site.app = app\n'
        files = {'shop/__init__.py': '', 'shop/web.py': text}
        self.assertEqual(self.content('shop.web:site.app', files), b'dotted')

    def test_the_default_names_are_application_and_then_app(self):
        self.assertEqual(self.content('web', {'web.py': HELLO % 'app'}), b'app')
        both = HELLO % 'app' + (HELLO % 'first').replace('app(', 'application(')
        self.assertEqual(self.content('web', {'web.py': both}), b'first')

    def test_the_path_of_a_file(self):
        self.assertEqual(self.content('run.py', {'run.py': HELLO % 'file'}), b'file')
        self.assertEqual(self.content('my-site.py:app', {'my-site.py': HELLO % 'dash'}), b'dash')
        self.assertEqual(self.content('sub/web.py', {'sub/web.py': HELLO % 'sub'}), b'sub')
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'elsewhere.py')
            with open(path, 'w') as file:
                file.write(HELLO % 'absolute')
            self.assertEqual(self.content(path, {}), b'absolute')

    def test_a_file_with_the_name_of_a_module_of_the_standard_library(self):
        for name in ('signal.py', 'socket.py', 'calendar.py', 'xxsubtype.py', 'v1.2.py'):
            with self.subTest(name):
                self.assertEqual(self.content(name, {name: HELLO % 'mine'}), b'mine')

    def test_a_module_in_the_folder_of_the_file_can_be_imported(self):
        files = {'sub/web.py': 'from beside import app\n', 'sub/beside.py': HELLO % 'beside'}
        self.assertEqual(self.content('sub/web.py:app', files), b'beside')

    def test_a_factory(self):
        text = 'def make():\n    return app\n' + HELLO % 'made'
        self.assertEqual(self.content('web:make', {'web.py': text}, ['--factory']), b'made')

    def test_the_folder_is_searched_first_and_the_working_directory_is_not(self):
        text = 'import sys\n' + HELLO % 'x' + '''
def app(environ, start_response):
    start_response('200 OK', [])
    return [repr((sys.path[0], '' in sys.path, sys.argv)).encode()]
'''
        with Child(text) as child:
            path, has_empty, argv = eval(child.connect().get().content)
            self.assertEqual(path, child.folder)
            self.assertFalse(has_empty)
            self.assertEqual(argv, ['app:app'])

    def test_the_traceback_of_an_import_error(self):
        files = {'app.py': 'import helper\n', 'helper.py': 'x = 1\nimport missing_module\n'}
        log = self.failure('app:app', files)
        self.assertIn("ModuleNotFoundError: No module named 'missing_module'", log)
        self.assertIn('helper.py", line 2', log)
        self.assertEqual(log.count('  File "'), 2, log)
        self.assertTrue(log.startswith('Traceback'), log)

    def test_a_traceback_has_no_stack_frames_of_the_loader(self):
        for name in ('web.py', 'signal.py'):
            with self.subTest(name):
                log = self.failure(name, {name: 'def f():\n    1 / 0\nf()\n'})
                self.assertIn('ZeroDivisionError', log)
                self.assertEqual(log.count('  File "'), 2, log)

    def test_a_syntax_error_names_file_and_line(self):
        log = self.failure('app:app', {'app.py': 'x = 1\ny = = 2\n'})
        self.assertIn('app.py", line 2', log)
        self.assertIn('SyntaxError', log)
        self.assertNotIn('<pinion', log)

    def test_an_application_that_exits_while_it_is_imported(self):
        self.failure('app:app', {'app.py': 'import sys\nsys.exit(0)\n'})

    def test_messages_name_the_missing_object(self):
        app = {'app.py': 'value = 3\n'}
        self.assertIn('"app" has neither "application" nor "app"', self.failure('app', app))
        self.assertIn('"app" has no "site.app"', self.failure('app:site.app', app))
        self.assertIn('is not callable', self.failure('app:value', app))
        self.assertIn('is not a factory', self.failure('app:value', app, ['--factory']))
        self.assertIn('file not found', self.failure('missing.py', {}))
        self.assertIn('names no module', self.failure(':app', app))
        self.assertIn('unknown option --wrong', self.failure('app', app, ['--wrong']))

    def test_an_error_of_a_factory(self):
        log = self.failure('app:make', {'app.py': 'def make():\n    1 / 0\n'}, ['--factory'])
        self.assertIn('ZeroDivisionError', log)
        self.assertEqual(log.count('  File "'), 1, log)


if __name__ == '__main__':
    unittest.main()
