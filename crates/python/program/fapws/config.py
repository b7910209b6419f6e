# The settings of an application that was written for fapws. It changes them before `run()`.

# The server names itself: this has no effect.
SERVER_IDENT = 'Pinion'
# Whether a client sees the traceback of an exception. The log has it in any case.
send_traceback_to_browser = False
# What a client sees in its place.
send_traceback_short = '<h1>Error</h1>Please contact your administrator'
# For the application: the server dates responses itself.
date_format = '%a, %d %b %Y %H:%M:%S GMT'
