# Helpers of applications that were written for fapws.
