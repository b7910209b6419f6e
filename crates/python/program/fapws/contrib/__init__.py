# Helpers for applications that were written for fapws.
