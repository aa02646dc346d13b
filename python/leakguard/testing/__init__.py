"""What the pytest plugin does, a file for each part of it. The plugin itself is leakguard.pytest_plugin."""
