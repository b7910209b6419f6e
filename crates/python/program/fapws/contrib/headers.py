# Responses that consist only of a head.


def redirect(start_response, location, permanent=None):
    """Redirects the client to another URL."""
    status = '301 Moved Permanently' if permanent else '302 Found'
    start_response(status, [('Location', location), ('Content-Type', 'text/plain')])
    return []
