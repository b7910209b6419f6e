# The lifespan protocol of ASGI: startup and shutdown of the application.


class Lifespan:
    """Calls the application with a lifespan scope; this call lasts as long as the process.

    An application that does not support lifespan raises an exception or returns before its startup
    is complete. It is then served without lifespan.
    """

    def __init__(self, application, loop):
        self.application = application
        self.loop = loop
        self.state = {}
        self.messages = [{'type': 'lifespan.startup'}]
        # Done when the application has sent the message that is awaited, or has returned.
        self.outcome = loop.create_future()
        # The future of a call of receive() that waits for the shutdown event.
        self.message_waiter = None
        self.has_received = False
        self.is_started = False
        self.has_returned = False
        # The message of a startup or shutdown that has failed; None without a failure.
        self.failure_message = None
        self.task = None

    async def startup(self):
        """Waits for the startup; raises LoadError if the application reports that it has failed."""
        self.task = self.loop.create_task(self.run())
        await self.outcome
        if self.failure_message is not None:
            raise LoadError('its startup has failed: ' + self.failure_message)

    async def shutdown(self):
        """Sends the shutdown event to the application, and waits until it has shut down."""
        if not self.has_returned:
            self.outcome = self.loop.create_future()
            self.messages.append({'type': 'lifespan.shutdown'})
            if self.message_waiter is not None and not self.message_waiter.done():
                self.message_waiter.set_result(None)
            await self.outcome
            if self.failure_message is not None:
                log('the shutdown of the application has failed: ' + self.failure_message)

    async def run(self):
        scope = {
            'type': 'lifespan',
            'asgi': {'version': '3.0', 'spec_version': '2.0'},
            'state': self.state,
        }
        try:
            await self.application(scope, self.receive, self.send)
        except BaseException as error:
            self.process_error(error)
        self.has_returned = True
        self.set_outcome()

    def process_error(self, error):
        if self.failure_message is not None:
            pass  # The application has already reported the failure.
        elif self.is_started:
            self.failure_message = describe_error(error)
            log('the lifespan of the application has failed')
            print_traceback(error)
        elif isinstance(error, SystemExit):
            self.failure_message = describe_error(error)
        elif self.has_received:
            # ASGI requires that it is served anyway, because it may not support lifespan.
            log('the application has failed at its startup; it is served without lifespan')
            print_traceback(error)
        error.__traceback__ = None

    def set_outcome(self):
        if not self.outcome.done():
            self.outcome.set_result(None)

    async def receive(self):
        """Implements the ASGI callable receive(): returns the next event for the application."""
        while not self.messages:
            self.message_waiter = self.loop.create_future()
            await self.message_waiter
        self.has_received = True
        return self.messages.pop(0)

    async def send(self, message):
        """Implements the ASGI callable send(): processes a message of the application."""
        kind = message['type']
        if kind in ('lifespan.startup.complete', 'lifespan.startup.failed'):
            is_expected = not self.is_started and self.failure_message is None
        elif kind in ('lifespan.shutdown.complete', 'lifespan.shutdown.failed'):
            is_expected = self.is_started and not self.outcome.done()
        else:
            is_expected = False
        if not is_expected:
            raise RuntimeError('%r was sent where it was not expected' % (kind,))
        if kind.endswith('.failed'):
            self.failure_message = str(message.get('message') or 'it has given no reason')
        elif kind == 'lifespan.startup.complete':
            self.is_started = True
        self.set_outcome()
