# Settings that a fapws application may change before it calls `run()`.

# Has no effect, because the server sends its own Server field.
SERVER_IDENT = 'Pinion'
# Whether clients see the traceback of an exception. The log has it in any case.
send_traceback_to_browser = False
# The body of the error page if they do not.
send_traceback_short = '<h1>Error</h1>Please contact your administrator'
# Only for use by the application: the server adds the Date field itself.
date_format = '%a, %d %b %Y %H:%M:%S GMT'
