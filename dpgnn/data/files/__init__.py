"""The project's graph folders: written whole or in pieces, read, and validated."""
