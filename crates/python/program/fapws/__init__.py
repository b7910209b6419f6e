# The package `fapws`, for applications that were written for the web server of that name.
