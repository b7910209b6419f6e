# The lifespan of an ASGI application: its startup and its shutdown.


class Lifespan:
    """Calls the application once for the time of the process.

    An application without it raises or returns before its startup is complete: it is served
    without.
    """

    def __init__(self, application, loop):
        self.application = application
        self.loop = loop
        self.state = {}
        self.messages = [{'type': 'lifespan.startup'}]
        # Ends when the message was sent that is waited for, or the application has returned.
        self.progress = loop.create_future()
        # Wakes `receive`.
        self.has_message = None
        self.was_received = False
        self.is_started = False
        self.is_over = False
        # What the application has said about its failure; None if it has not failed.
        self.failure = None
        self.task = None

    async def startup(self):
        """Raises a LoadError if the application says that it cannot be served."""
        self.task = self.loop.create_task(self.run())
        await self.progress
        if self.failure is not None:
            raise LoadError('its startup has failed: ' + (self.failure or 'it gives no reason'))

    async def shutdown(self):
        """Lets the application end, and waits until it has."""
        if not self.is_over:
            self.progress = self.loop.create_future()
            self.messages.append({'type': 'lifespan.shutdown'})
            if self.has_message is not None and not self.has_message.done():
                self.has_message.set_result(None)
            await self.progress
            if self.failure is not None:
                log('the shutdown of the application has failed: ' + self.failure)

    async def run(self):
        scope = {
            'type': 'lifespan',
            'asgi': {'version': '3.0', 'spec_version': '2.0'},
            'state': self.state,
        }
        try:
            await self.application(scope, self.receive, self.send)
        except BaseException as error:
            self.note_error(error)
        self.is_over = True
        self.note_progress()

    def note_error(self, error):
        if self.failure is not None:
            pass  # The application has reported it.
        elif self.is_started:
            self.failure = describe_error(error)
            log('the lifespan of the application has failed')
            print_traceback(error)
        elif isinstance(error, SystemExit):
            self.failure = describe_error(error)
        elif self.was_received:
            # The specification wants it to be served: it may know no lifespan.
            log('the application has failed at its startup; it is served without lifespan')
            print_traceback(error)
        error.__traceback__ = None

    def note_progress(self):
        if not self.progress.done():
            self.progress.set_result(None)

    async def receive(self):
        """The callable that the application gets; returns the next message."""
        while not self.messages:
            self.has_message = self.loop.create_future()
            await self.has_message
        self.was_received = True
        return self.messages.pop(0)

    async def send(self, message):
        """The callable that the application gets; takes what it says about itself."""
        kind = message['type']
        if kind in ('lifespan.startup.complete', 'lifespan.startup.failed'):
            is_expected = not self.is_started and self.failure is None
        elif kind in ('lifespan.shutdown.complete', 'lifespan.shutdown.failed'):
            is_expected = self.is_started and not self.progress.done()
        else:
            is_expected = False
        if not is_expected:
            raise RuntimeError('%r was sent where it was not expected' % (kind,))
        if kind.endswith('.failed'):
            self.failure = str(message.get('message', ''))
        elif kind == 'lifespan.startup.complete':
            self.is_started = True
        self.note_progress()
