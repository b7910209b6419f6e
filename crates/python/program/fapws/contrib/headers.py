# Responses that are a few fields.


def redirect(start_response, location, permanent=None):
    """Sends a client to another address."""
    status = '301 Moved Permanently' if permanent else '302 Found'
    start_response(status, [('Location', location), ('Content-Type', 'text/plain')])
    return []
