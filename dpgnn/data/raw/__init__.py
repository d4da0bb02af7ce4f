"""Raw files: found in a folder or a mirror, or downloaded, and read without executing code in them."""
