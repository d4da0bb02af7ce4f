"""Raw files: found in a folder or a mirror, or downloaded, and read without running what they hold."""
