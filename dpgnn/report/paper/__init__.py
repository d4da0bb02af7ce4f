"""The papers' tables and figures beside ours."""
