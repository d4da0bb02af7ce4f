"""Tables, figures and pages from records; no number is typed by hand.

`pages.report` writes report.html, `pages.docs_index` the pages of docs/. `statistics` compares entries,
`tables` and `figures` show them, `paper` compares them with the published ones.
"""
