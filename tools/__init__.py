"""What the project's tasks are made of; nothing here is installed."""
