# Serves the application until the end of the process.

if interface == 'asgi':
    serve_asgi(options, listener)
else:
    serve_wsgi(options, listener)
