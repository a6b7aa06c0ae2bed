"""The commands of ``task-service``; ``service/__main__.py`` lists them."""
