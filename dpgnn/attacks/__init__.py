"""Published attacks on fitted models: LinkTeller on edges, G-MIA on nodes, and attacks for specific leaks.

`request.ATTACKS` names them; each takes an `AttackRequest` and returns rows of JSON. An attack measures
success; an audit (`dpgnn.audits`) tests a claim.
"""
