"""Published attacks on fitted models: LinkTeller on edges, G-MIA on nodes, and attacks made for one leak.

`request.ATTACKS` names them; each takes an `AttackRequest` and returns rows of JSON. An attack asks how well
somebody does; an audit (`dpgnn.audits`) asks whether a claim is false.
"""
