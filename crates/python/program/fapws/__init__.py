# The package `fapws`, for applications that were written for the server of that name.
