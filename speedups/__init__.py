"""What makes the service faster and is not needed to run it; README.md lists the modules."""
