# claim audits of the study's private entries, one JSON each

AUDITS = []
