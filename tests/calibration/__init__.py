"""The calibration study: verdicts of the certificate against long NUTS runs on all rows."""
