"""Faster parts for the service, which runs without this package too.

Each module replaces parts of one library by a subclass, or by a function of the same interface.
``SPEEDUPS=off`` switches all of them off, and so does deleting this folder. README.md lists them.
"""
