"""Timers and deferred calls of scripts that were written for fapws, with one process or more."""

import os
import signal
import struct
import tempfile
import time
import unittest

from peer import GIVEN_BACK, TAKE_BACK, TIMEOUT_SECONDS, Child

BEGIN = '''
import fapws._evwsgi as evwsgi
from fapws import base
import os, sys, threading, time

HERE = os.path.dirname(os.path.abspath(__file__)) + '/'


def record(text):
    file = os.open(HERE + 'notes', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.write(file, ('%d %s\\n' % (os.getpid(), text)).encode())
    os.close(file)


def wait_for(name):
    while not os.path.exists(HERE + name):
        time.sleep(0.001)


def job(name):
    record('begin %s' % name)
    if os.path.exists(HERE + 'slow'):
        time.sleep(0.003)
    record('end %s' % name)


def waiting_job(name):
    record('begin %s' % name)
    wait_for('go')
    record('end %s' % name)


def fails(name):
    raise ValueError(name)


def tick():
    job('tick')


evwsgi.start('0.0.0.0', '8080')
evwsgi.set_base_module(base)
'''
END = '''
def application(environ, start_response):
    start_response('200 OK', [])
    action = environ['QUERY_STRING']
    return [repr(eval(action, globals()))]


evwsgi.wsgi_cb(('/', application))
evwsgi.run()
record('after run')
'''


class Jobs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='pinion-fapws-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, text=''):
        child = Child(application='run.py', options=['--interface', 'auto'], folder=self.folder,
                      files={'run.py': BEGIN + text + END})
        self.addCleanup(child.__exit__)
        child.main_link = child.connect()
        return child

    def touch(self, name):
        open(os.path.join(self.folder, name), 'w').close()

    def do(self, child, action):
        response = child.main_link.get('/', QUERY_STRING=action)
        self.assertEqual(response.status, '200 OK', child.log())
        return eval(response.content)

    def notes(self):
        """Returns the recorded lines, each as a tuple of a process ID and words."""
        try:
            with open(os.path.join(self.folder, 'notes')) as file:
                # The last line may be incomplete.
                lines = [line.split() for line in file.read().split('\n')[:-1]]
        except FileNotFoundError:
            return []
        return [(int(words[0]), *words[1:]) for words in lines]

    def wait_until(self, is_reached):
        end = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < end:
            notes = self.notes()
            if is_reached(notes):
                return notes
            time.sleep(0.001)
        self.fail('it was not reached: %r' % notes[-20:])

    def words(self):
        return [' '.join(words) for _, *words in self.notes()]

    def assert_one_at_a_time(self, notes):
        """Asserts that each call ends before the next one begins, in any process."""
        notes = [note for note in notes if note[1] in ('begin', 'end')]
        for begin, end in zip(notes[::2], notes[1::2]):
            self.assertEqual((begin[0], 'end') + begin[2:], end)
            self.assertEqual(begin[1], 'begin')


class OneProcess(Jobs):
    def test_a_timer_is_called_again_until_it_returns_false(self):
        child = self.start('''
count = 0
def three():
    global count
    count += 1
    record('three %d' % count)
    return count < 3
evwsgi.add_timer(0.001, three)
evwsgi.add_timer(0.001, tick)
''')
        self.wait_until(lambda notes: len(notes) > 30)
        self.assertEqual([words for words in self.words() if words[:5] == 'three'],
                         ['three 1', 'three 2', 'three 3'])
        self.assertEqual(child.log(), '')

    def test_a_timer_that_fails_is_stopped_and_others_continue(self):
        child = self.start('''
def broken():
    record('broken')
    raise ValueError('of a timer')
evwsgi.add_timer(0.001, broken)
evwsgi.add_timer(0.001, tick)
evwsgi.add_timer(0, lambda: record('once'))
''')
        self.wait_until(lambda notes: len(notes) > 30)
        self.assertEqual(self.words().count('broken'), 1)
        self.assertEqual(self.words().count('once'), 1)
        self.assertIn('a timer has failed, and is stopped\nTraceback', child.log())
        self.assertIn('ValueError: of a timer', child.log())

    def test_a_timer_is_stopped_and_restarted(self):
        child = self.start('assert evwsgi.add_timer(0.001, tick) == 1\n')
        self.wait_until(lambda notes: len(notes) > 3)
        self.do(child, 'evwsgi.stop_timer(0)')
        count = len(self.notes())
        for _ in range(50):
            time.sleep(0.001)
            self.do(child, '0')
        self.assertEqual(len(self.notes()), count)
        self.do(child, 'evwsgi.restart_timer(0)')
        self.wait_until(lambda notes: len(notes) > count + 3)
        self.assertEqual(child.main_link.get('/', QUERY_STRING='evwsgi.stop_timer(1)').status[:3],
                         '500')

    def test_timers_have_a_limit_and_may_be_added_later(self):
        child = self.start()
        for number in range(1, 11):
            action = 'evwsgi.add_timer(0.001, lambda: bool(record("timer %d")))' % number
            self.assertEqual(self.do(child, action), number)
        self.assertEqual(self.do(child, 'evwsgi.add_timer(0.001, lambda: record("late"))'), 10)
        self.wait_until(lambda notes: len(notes) == 10)
        self.assertEqual(sorted(self.words()), sorted('timer %d' % one for one in range(1, 11)))
        self.assertIn('Limit of maximum 10 timers', child.output())

    def test_deferred_calls_are_made_in_order_and_combined_ones_once(self):
        child = self.start()
        action = '[evwsgi.defer(job, name, name == "b") for name in "abaab"], ' \
                 'evwsgi.defer_queue_size()'
        self.assertEqual(self.do(child, action)[1], 4)
        notes = self.wait_until(lambda notes: len(notes) == 8)
        self.assertEqual([note[2] for note in notes], list('aabbaaaa'))
        self.assert_one_at_a_time(notes)
        self.wait_until(lambda _: self.do(child, 'evwsgi.defer_queue_size()') is None)

    def test_deferred_calls_do_not_wait_for_timers_that_are_always_due(self):
        self.touch('slow')
        child = self.start('evwsgi.add_timer(0.001, tick)\n')
        self.do(child, '[evwsgi.defer(job, name, False) for name in "abc"]')
        self.wait_until(lambda notes: len([one for one in notes if one[2] in 'abc']) == 6)

    def test_a_deferred_call_that_fails_is_not_repeated(self):
        child = self.start()
        self.do(child, 'evwsgi.defer(fails, "of a call", False), evwsgi.defer(job, "a", False)')
        self.wait_until(lambda notes: len(notes) == 2)
        self.assertIn('a deferred call has failed\nTraceback', child.log())
        self.assertIn('ValueError: of a call', child.log())

    def test_a_call_that_is_deferred_by_a_thread_or_a_call(self):
        child = self.start()
        self.do(child, 'threading.Thread(target=lambda: (time.sleep(0.05), '
                       'evwsgi.defer(lambda name: evwsgi.defer(job, name, False), "a", False))'
                       ').start()')
        self.wait_until(lambda notes: len(notes) == 2)

    def test_requests_are_run_before_deferred_calls(self):
        child = self.start()
        link = child.main_link
        requests = ['evwsgi.defer(waiting_job, "a", False), evwsgi.defer(job, "b", False)',
                    'record("request")', 'record("request")']
        for number in link.batch(*[{'QUERY_STRING': action} for action in requests]):
            link.finish(number)
        self.wait_until(lambda notes: notes[-1][1] == 'begin')
        number = link.start('/', QUERY_STRING='record("request")')
        # Requests that have arrived during a deferred call are run before the next deferred call.
        self.touch('go')
        link.finish(number)
        self.wait_until(lambda notes: len(notes) == 7)
        self.assertEqual(self.words(), ['request', 'request', 'begin a', 'end a', 'request',
                                        'begin b', 'end b'])

    def test_a_request_is_given_back_during_a_deferred_call(self):
        child = self.start()
        link = child.main_link
        self.do(child, 'evwsgi.defer(waiting_job, "a", False)')
        self.wait_until(lambda notes: len(notes) == 1)
        number = link.start('/', QUERY_STRING='0')
        link.send(TAKE_BACK, 0, struct.pack('<I', number))
        frame = link.read_frame_of(0)
        self.assertEqual((frame.kind, frame.content), (GIVEN_BACK, struct.pack('<I', number)))
        self.touch('go')

    def test_all_deferred_calls_are_made_before_the_process_ends(self):
        child = self.start('evwsgi.add_timer(0.001, lambda: record("tick"))\n')
        link = child.main_link
        actions = ['evwsgi.defer(waiting_job, "a", False)'] + ['evwsgi.defer(job, "b", False)'] * 5
        self.do(child, '[%s]' % ', '.join(actions))
        self.wait_until(lambda notes: notes and notes[-1][1] == 'begin')
        child.stop()
        # Requests are given back in the meantime, so that another process runs them.
        number = link.start('/', QUERY_STRING='0')
        frame = link.read_frame_of(0)
        self.assertEqual((frame.kind, frame.content), (GIVEN_BACK, struct.pack('<I', number)))
        self.touch('go')
        self.assertEqual(child.wait(), 0)
        words = self.words()
        self.assertEqual(words[words.index('begin a'):],
                         ['begin a', 'end a'] + ['begin b', 'end b'] * 5 + ['after run'])
        self.assertEqual(child.log(), '')

    def test_a_call_that_forks(self):
        child = self.start('''
def forks(name):
    child = os.fork()
    if child:
        record('status %d' % os.WEXITSTATUS(os.waitpid(child, 0)[1]))
    elif name == 'fails':
        raise ValueError('in the fork')
def forking_timer():
    forks('')
    return False
evwsgi.add_timer(0.001, forking_timer)
''')
        self.do(child, 'evwsgi.defer(forks, "fails", False), evwsgi.defer(forks, "", False)')
        self.wait_until(lambda notes: len(notes) == 3)
        self.assertEqual(sorted(self.words()), ['status 0', 'status 0', 'status 1'])
        self.assertEqual(self.do(child, '1'), 1)


class SeveralProcesses(Jobs):
    TIMER = 'evwsgi.add_timer(0.001, tick)\n'

    def callers(self, notes):
        return [note[0] for note in notes if note[2:] == ('tick',)]

    def test_only_one_process_calls_timers_until_it_ends(self):
        self.touch('slow')
        children = [self.start(self.TIMER) for _ in range(3)]
        begin, callers = 0, []
        for end in (signal.SIGKILL, signal.SIGTERM, None):
            notes = self.wait_until(lambda notes: len(notes) > begin + 20)
            caller = notes[-1][0]
            self.assertIn(caller, [child.process.pid for child in children])
            # All processes respond, so the others could have called timers, too.
            for child in children:
                self.do(child, '0')
            callers.append(caller)
            notes = self.notes()
            self.assertEqual(set(self.callers(notes[begin:])), {caller})
            if end is None:
                break
            child, = [child for child in children if child.process.pid == caller]
            children.remove(child)
            child.process.send_signal(end)
            child.wait()
            begin = len(self.notes())
        self.assertEqual(len(set(callers)), 3)

    def test_a_reload_does_not_call_timers_in_two_processes(self):
        self.touch('slow')
        child = self.start(self.TIMER)
        for _ in range(5):
            begin = len(self.notes())
            self.wait_until(lambda notes: len(notes) > begin + 10)
            next_child = self.start(self.TIMER)
            child.stop()
            self.assertEqual(child.wait(), 0)
            child = next_child
        begin = len(self.notes())
        notes = self.wait_until(lambda notes: len(notes) > begin + 10)
        self.assert_one_at_a_time(notes)
        self.assertEqual(notes[-1][0], child.process.pid)
        self.assertEqual(len(set(self.callers(notes))), 6)

    def test_a_process_that_has_stopped_holds_no_lock(self):
        first = self.start(self.TIMER)
        self.wait_until(lambda notes: len(notes) > 3)
        second = self.start(self.TIMER + '''
run = evwsgi.run


def run_and_wait():
    run()
    record('stopped')
    wait_for('go')


evwsgi.run = run_and_wait
''')
        second.stop()
        second.main_link.read_to_end()
        self.wait_until(lambda notes: any(note[1] == 'stopped' for note in notes))
        # The lock goes to the second process, which waits for it, before the third one starts.
        first.stop()
        first.wait()
        third = self.start(self.TIMER)
        self.wait_until(lambda notes: notes[-1][0] == third.process.pid)
        self.touch('go')

    def test_a_forked_process_holds_no_lock(self):
        first = self.start(self.TIMER)
        self.wait_until(lambda notes: len(notes) > 3)
        second = self.start(self.TIMER)
        forked = self.do(first, 'os.fork() or (wait_for("go"), os._exit(0))')
        first.process.kill()
        first.wait()
        self.wait_until(lambda notes: notes[-1][0] == second.process.pid)
        os.kill(forked, 0)
        self.touch('go')

    def test_only_one_of_several_processes_makes_a_call_at_a_time(self):
        self.touch('slow')
        children = [self.start('evwsgi.add_timer(0.02, tick)\n') for _ in range(3)]
        action = '[evwsgi.defer(job, number, False) for number in range(20)]'
        for child in children:
            self.do(child, action)
        notes = self.wait_until(lambda notes: sum(
            note[1] == 'end' and note[2] != 'tick' for note in notes) == 60)
        self.assert_one_at_a_time(notes)
        for child in children:
            own = [note[2] for note in notes
                   if note[:2] == (child.process.pid, 'end') and note[2] != 'tick']
            self.assertEqual(own, [str(number) for number in range(20)])

    def test_requests_are_served_while_another_process_makes_a_call(self):
        first, second = self.start(), self.start()
        self.do(first, 'evwsgi.defer(waiting_job, "a", False)')
        self.wait_until(lambda notes: len(notes) == 1)
        self.do(second, 'evwsgi.defer(job, "b", False)')
        for number in range(20):
            self.assertEqual(self.do(second, str(number)), number)
        self.assertEqual(self.words(), ['begin a'])
        # The process makes its deferred call once the other process has finished its own.
        second.stop()
        self.touch('go')
        self.assertEqual(second.wait(), 0)
        self.assertEqual(self.words(), ['begin a', 'end a', 'begin b', 'end b', 'after run'])

    def test_another_application_has_its_own_locks(self):
        self.start('evwsgi.add_timer(0.001, lambda: waiting_job("a"))\n')
        self.wait_until(lambda notes: len(notes) == 1)
        other = OtherApplication()
        other.setUp()
        self.addCleanup(other.doCleanups)
        other.start(self.TIMER)
        other.wait_until(lambda notes: len(notes) > 3)
        self.assertEqual(self.words(), ['begin a'])
        self.touch('go')


class OtherApplication(Jobs):
    def runTest(self):
        """Does nothing: another test starts the application."""


if __name__ == '__main__':
    unittest.main()
